"""``events.jsonl``: what a driver reports, one JSON object a line. Drivers write and the pilot
reads the same types.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar, get_args

from bftrainer.errors import InputFileError
from bftrainer.wires.bounds import (
    MAX_INCARNATION,
    MAX_LINES,
    MAX_NAME,
    MAX_WORKERS,
    RefusedValueError,
    bounded_integer,
    number,
    text,
    value_text,
)
from bftrainer.wires.typed_json import from_fields, to_fields


class DriverEvent(StrEnum):
    """The values of ``event``."""

    STARTED = "started"
    WARMING = "warming"
    WARM = "warm"
    WARMING_CANCELED = "warming_canceled"
    WORKER_STARTED = "worker_started"
    WORKER_EXITED = "worker_exited"
    WITHHELD = "withheld"
    RUNNING = "running"
    HUNG = "hung"
    STOPPING = "stopping"
    STOPPED = "stopped"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Started:
    """The driver is up."""

    word: ClassVar = DriverEvent.STARTED
    driver: str = ""
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class Warming:
    """The workers of a joining node do their imports."""

    word: ClassVar = DriverEvent.WARMING
    host: str
    fragment: str


@dataclass(frozen=True, slots=True)
class Warm:
    """The workers of a joining node have done their imports, and wait."""

    word: ClassVar = DriverEvent.WARM
    host: str
    fragment: str


@dataclass(frozen=True, slots=True)
class WarmingCanceled:
    """The driver ends warming workers, because a later ``hosts`` does without this node."""

    word: ClassVar = DriverEvent.WARMING_CANCELED
    host: str
    fragment: str


@dataclass(frozen=True, slots=True)
class WorkerStarted:
    """A worker was started. ``log``: path relative to the trainer directory."""

    word: ClassVar = DriverEvent.WORKER_STARTED
    host: str
    fragment: str
    slot: int
    pid: int
    log: str


@dataclass(frozen=True, slots=True)
class WorkerExited:
    """A worker has ended. ``status``: exit status, or minus the signal. ``planned``: the driver had
    dropped the fragment or asked for a stop.
    """

    word: ClassVar = DriverEvent.WORKER_EXITED
    host: str
    fragment: str
    slot: int
    pid: int
    status: int
    planned: bool


@dataclass(frozen=True, slots=True)
class Withheld:
    """The driver will not use this fragment again."""

    word: ClassVar = DriverEvent.WITHHELD
    host: str
    fragment: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Running:
    """The trainer trains on exactly these fragments, and uses no other one."""

    word: ClassVar = DriverEvent.RUNNING
    world_size: int
    fragments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hung:
    """A worker has reported nothing for ``silent_s``, and is killed."""

    word: ClassVar = DriverEvent.HUNG
    host: str
    fragment: str
    silent_s: float


@dataclass(frozen=True, slots=True)
class Stopping:
    """A checkpoint and exit have been requested."""

    word: ClassVar = DriverEvent.STOPPING
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Stopped:
    """Last line: the trainer waits for nodes. ``checkpointed``: the script saved its state since it
    was asked to stop.
    """

    word: ClassVar = DriverEvent.STOPPED
    reason: str = ""
    checkpointed: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """Last line: the training program has finished."""

    word: ClassVar = DriverEvent.DONE


@dataclass(frozen=True, slots=True)
class Failed:
    """Last line: the trainer has failed. ``tail``: the last lines of the failed worker's log."""

    word: ClassVar = DriverEvent.FAILED
    reason: str = ""
    status: int = 1
    tail: tuple[str, ...] = ()


AnyDriverEvent = (
    Started
    | Warming
    | Warm
    | WarmingCanceled
    | WorkerStarted
    | WorkerExited
    | Withheld
    | Running
    | Hung
    | Stopping
    | Stopped
    | Done
    | Failed
)
_TYPES: dict[str, type[AnyDriverEvent]] = {
    kind.word.value: kind for kind in get_args(AnyDriverEvent)
}


@dataclass(frozen=True, slots=True)
class EventLine:
    """A line of ``events.jsonl``. ``at_s``: seconds since 1970. ``incarnation``: starts of the
    training program, from 1.
    """

    at_s: float
    incarnation: int
    event: AnyDriverEvent


def format_event(line: EventLine) -> str:
    """Format an event as the JSON object of its line, without a line end."""
    head = {
        "time": round(line.at_s, 4),
        "event": line.event.word.value,
        "incarnation": line.incarnation,
    }
    return json.dumps({**head, **to_fields(line.event)})


def parse_event(line: Mapping[str, Any]) -> EventLine | None:
    """Convert a line's JSON object into an event, for readers that skip what they cannot use: None
    for an unknown word or wrong values (:func:`read_event` tells them apart).
    """
    parsed = read_event(line)
    return parsed if isinstance(parsed, EventLine) else None


def read_event(line: Mapping[str, Any], now_s: float | None = None) -> EventLine | BadEvent | None:
    """Convert a line's JSON object into an event with finite values and bounded text: a
    :class:`BadEvent` if the values cannot be used, None for a word of another version. ``now_s`` is
    the time at which the line is read; a later time in the line is replaced by it.
    """
    word = line.get("event")
    if not isinstance(word, str):
        return BadEvent("", f"expected a word under 'event', found {value_text(word)}")
    kind = _TYPES.get(word)
    if kind is None:
        return None
    try:
        at_s = number(line.get("time"), 0.0, 1e11)
        incarnation = bounded_integer(line.get("incarnation"), 0, MAX_INCARNATION)
        event = _with_bounded_text(from_fields(kind, line, word))
    except (InputFileError, RefusedValueError) as error:
        return BadEvent(word, str(error))
    return EventLine(at_s if now_s is None else min(at_s, now_s), incarnation, event)


@dataclass(frozen=True, slots=True)
class BadEvent:
    """A line of a known word with values that cannot be used."""

    word: str
    problem: str


_NAMES = ("host", "fragment", "log", "driver")
_RANGES = {
    "pid": (0, 2**31),
    "slot": (0, MAX_WORKERS),
    "world_size": (0, MAX_WORKERS),
    "status": (-(2**31), 2**31),
}


def _with_bounded_text(event: AnyDriverEvent) -> AnyDriverEvent:
    """Return the event with long text cut, and of a log's tail the last lines. Raises
    :class:`RefusedValueError` for names and numbers out of bounds, because cutting would change
    their meaning.
    """
    changes: dict[str, Any] = {}
    for name, value in to_fields(event).items():
        if isinstance(value, str):
            changes[name] = _checked_name(name, value) if name in _NAMES else text(value)
        elif name == "fragments":
            if len(value) > MAX_WORKERS:
                raise RefusedValueError(
                    f"{name}: expected at most {MAX_WORKERS} names, found {len(value)}"
                )
            changes[name] = tuple(_checked_name(name, item) for item in value)
        elif isinstance(value, tuple):
            changes[name] = tuple(text(item) for item in value[-MAX_LINES:])
        elif name in _RANGES and value is not None:
            bounded_integer(value, *_RANGES[name])  # raises
    return replace(event, **changes)


def _checked_name(key: str, value: str) -> str:
    """Return a name if it is printable and not too long. Raises :class:`RefusedValueError`."""
    if len(value) > MAX_NAME or not value.isprintable():
        raise RefusedValueError(
            f"{key}: expected at most {MAX_NAME} printable characters, found {value_text(value)}"
        )
    return value
