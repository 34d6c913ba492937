"""``events.jsonl``: what a driver reports, one JSON object a line. Drivers write and the pilot reads the same types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, get_args

from bftrainer.errors import InputFileError
from bftrainer.protocol.typed_json import from_fields, to_fields


class DriverEvent(str, Enum):
    """The values of ``event``."""

    STARTED = "started"
    WARMING = "warming"
    WARM = "warm"
    WARMING_CANCELED = "warming_cancelled"
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
    """They are ready."""

    word: ClassVar = DriverEvent.WARM
    host: str
    fragment: str


@dataclass(frozen=True, slots=True)
class WarmingCanceled:
    """A later ``hosts`` does without this node."""

    word: ClassVar = DriverEvent.WARMING_CANCELED
    host: str
    fragment: str


@dataclass(frozen=True, slots=True)
class WorkerStarted:
    """``log``: path relative to the trainer directory."""

    word: ClassVar = DriverEvent.WORKER_STARTED
    host: str
    fragment: str
    slot: int
    pid: int
    log: str


@dataclass(frozen=True, slots=True)
class WorkerExited:
    """``status``: exit status, or minus the signal. ``planned``: the driver had dropped the fragment or asked for a stop."""

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
    """Training on exactly these fragments: the trainer uses no other one."""

    word: ClassVar = DriverEvent.RUNNING
    world_size: int
    fragments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hung:
    """Killed for silence."""

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
    """Last line: the trainer waits for nodes. ``checkpointed``: the script saved its state since it was asked to stop."""

    word: ClassVar = DriverEvent.STOPPED
    reason: str = ""
    checkpointed: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """Last line: the training program has finished."""

    word: ClassVar = DriverEvent.DONE


@dataclass(frozen=True, slots=True)
class Failed:
    """Last line. ``tail``: the last lines of the failed worker's log."""

    word: ClassVar = DriverEvent.FAILED
    reason: str = ""
    status: int = 1
    tail: tuple[str, ...] = ()


Event = (
    Started | Warming | Warm | WarmingCanceled | WorkerStarted | WorkerExited | Withheld | Running | Hung | Stopping
    | Stopped | Done | Failed
)  # fmt: skip
_TYPES: dict[str, type[Event]] = {kind.word.value: kind for kind in get_args(Event)}


@dataclass(frozen=True, slots=True)
class EventLine:
    """A line of ``events.jsonl``. ``at_s``: seconds since 1970. ``incarnation``: starts of the training program, from 1."""

    at_s: float
    incarnation: int
    event: Event


def format_event(line: EventLine) -> str:
    """The JSON object, without a line end."""
    head = {"time": round(line.at_s, 4), "event": line.event.word.value, "incarnation": line.incarnation}
    return json.dumps({**head, **to_fields(line.event)})


def parse_event(line: Mapping[str, Any]) -> EventLine | None:
    """A line's object as written by this version or another one; None where its word or its keys are not known here."""
    kind = _TYPES.get(str(line.get("event")))
    try:
        return (
            None
            if kind is None
            else EventLine(float(line["time"]), int(line["incarnation"]), from_fields(kind, line, ""))
        )
    except (InputFileError, KeyError, TypeError, ValueError):
        return None
