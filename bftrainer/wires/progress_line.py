"""``progress.jsonl``: what rank 0 of a training reports, one JSON object a line. Training scripts
write it, in any language.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import Any, NamedTuple, TypeVar

from bftrainer.system.printable import printable
from bftrainer.wires.bounds import (
    MAX_AHEAD_S,
    MAX_INCARNATION,
    MAX_SAMPLES,
    MAX_WORKERS,
    RefusedValueError,
    bounded_integer,
    number,
    text,
    value_text,
)
from bftrainer.wires.metrics import parse_metrics

MAX_SENTENCE = 300
MAX_PATH = 4096
DIVERGED = ": training has diverged"
"""The end of the problem of a loss that is no number."""

PROGRESS_BYTES = 20_000_000
"""A longer ``progress.jsonl`` is renamed to ``progress.jsonl.1``; both together never exceed twice
this size.
"""


class Phase(str, Enum):
    """The values of ``phase``."""

    RUNNING = "running"
    CHECKPOINTED = "checkpointed"
    """The state of the last reported step is on disk."""
    DONE = "done"
    BUSY = "busy"
    """No step was made, such as during an evaluation; the script lives."""


class ProgressLine(NamedTuple):
    """One line; a tuple, which is cheap: scripts make one at every step, the pilot one per trainer
    and second.

    ``at_s``: seconds since 1970. ``samples`` and ``step`` count from the start of the training.
    ``formed``: a new group of workers has been formed, and its last committed step is repeated.
    ``ranks_disagree``: the weights or learning rates of two ranks that differ, as rank 0 saw it
    last; empty where all agree. ``further`` are the script's own keys. ``refused`` says of each
    value that cannot be used what is wrong with it: (key, problem). ``metrics`` are values by name
    (``wires.metrics``); ``checkpoint`` is the path of the checkpoint that was written, relative
    to the trainer's working directory. ``samples_total``: samples of the whole training, as the
    script expects now.
    """

    at_s: float
    phase: Phase | None = Phase.RUNNING
    incarnation: int | None = None
    world_size: int | None = None
    step: int | None = None
    samples: float | None = None
    loss: float | None = None
    formed: bool = False
    ranks_disagree: str | None = None
    further: Mapping[str, object] = {}
    refused: tuple[tuple[str, str], ...] = ()
    metrics: Mapping[str, float] = {}
    checkpoint: str | None = None
    samples_total: float | None = None


def format_progress(line: ProgressLine) -> str:
    """Format a progress line as its JSON object, without a line end. Numbers of NumPy or torch are
    written as plain ones.
    """
    phase = line.phase and line.phase.value
    value: dict[str, object] = {
        "time": round(line.at_s, 4),
        "phase": phase,
        "incarnation": line.incarnation,
    }
    value |= {
        "world_size": line.world_size,
        "step": line.step,
        "samples": line.samples,
        "loss": line.loss,
    }
    if line.samples_total is not None:
        value["samples_total"] = line.samples_total
    value |= line.further
    if line.formed:
        value["formed"] = True
    if line.ranks_disagree is not None:
        value["ranks_disagree"] = line.ranks_disagree
    if line.metrics:
        value["metrics"] = dict(line.metrics)
    if line.checkpoint is not None:
        value["checkpoint"] = line.checkpoint
    return json.dumps(value, default=float)


def parse_progress(line: Mapping[str, Any], now_s: float | None = None) -> ProgressLine:
    """Convert a line's JSON object into a progress line with finite values within bounds. A key
    that is missing or cannot be used becomes None; ``refused`` names the latter.

    ``now_s`` is the time at which the line is read; a later time in the line is replaced by it.
    """
    refused: list[tuple[str, str]] = []
    get = line.get

    def checked(key: str, check: Callable[[object], _Value]) -> _Value | None:
        """Return the checked value of a key; None if the check refuses it, with a note."""
        value = get(key)
        if value is None:
            return None
        try:
            return check(value)
        except RefusedValueError as error:
            refused.append((key, str(error)))
            return None

    at_s = checked("time", _time) or 0.0
    if now_s is not None and at_s > now_s:
        if at_s > now_s + MAX_AHEAD_S:
            refused.append(
                (
                    "time",
                    f"is {at_s - now_s:,.0f} s ahead of the pilot's clock; the pilot's time is "
                    "used",
                )
            )
        at_s = now_s
    checkpoint = checked("checkpoint", _checked_path)
    values = get("metrics")
    metrics = {} if values is None else parse_metrics(values, refused)
    phase = checked("phase", _checked_phase)
    incarnation = checked("incarnation", _incarnation)
    world_size = checked("world_size", _world_size)
    step = checked("step", _step)
    samples = checked("samples", _samples)
    loss = checked("loss", lambda value: _checked_loss(value, get("step")))
    ranks_disagree = checked("ranks_disagree", _checked_sentence)
    samples_total = checked("samples_total", _samples_total)
    return ProgressLine(
        at_s,
        phase,
        incarnation,
        world_size,
        step,
        samples,
        loss,
        get("formed") is True,
        ranks_disagree,
        {},  # the script's own keys are not read
        tuple(refused),
        metrics,
        checkpoint,
        samples_total,
    )


_PHASES = {phase.value: phase for phase in Phase}
_Value = TypeVar("_Value")


_time = partial(number, minimum=0.0, maximum=1e11)
_samples = partial(number, minimum=0.0, maximum=MAX_SAMPLES)
_samples_total = partial(number, minimum=1.0, maximum=MAX_SAMPLES)
_step = partial(bounded_integer, minimum=0)
_incarnation = partial(bounded_integer, minimum=0, maximum=MAX_INCARNATION)
_world_size = partial(bounded_integer, minimum=0, maximum=MAX_WORKERS)


def _checked_loss(value: object, step: object) -> float:
    """Check the loss at a step; that of a training that has diverged has a message of its own."""
    if isinstance(value, float) and not math.isfinite(value):
        raise RefusedValueError(f"{value_text(value)} at step {value_text(step)}{DIVERGED}")
    return number(value)


def _checked_sentence(value: object) -> str:
    if not isinstance(value, str):
        raise RefusedValueError(f"expected a string, found {value_text(value)}")
    return printable(text(value, MAX_SENTENCE))


def _checked_path(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_PATH or "\0" in value:
        raise RefusedValueError(
            f"expected a path of at most {MAX_PATH} characters, found {value_text(value)}"
        )
    return text(value, MAX_PATH)


def _checked_phase(value: object) -> Phase | None:
    if not isinstance(value, str):
        raise RefusedValueError(f"expected a string, found {value_text(value)}")
    return _PHASES.get(value)  # a word of another version is skipped
