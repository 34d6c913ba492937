"""``progress.jsonl``: what rank 0 of a training reports, one JSON object a line. Training scripts write it, in any language."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple


class Phase(str, Enum):
    """The values of ``phase``."""

    RUNNING = "running"
    CHECKPOINTED = "checkpointed"
    """The state of the last reported step is on disk."""
    DONE = "done"


class ProgressLine(NamedTuple):
    """One line; a tuple, which is cheap: scripts make one at every step, the pilot one per trainer and second.

    ``at_s``: seconds since 1970. ``samples`` and ``step`` count from the start of the training. ``formed``: a new group of
    workers has been formed, and its last committed step is repeated. ``further`` are the script's own keys.
    """

    at_s: float
    phase: Phase | None = Phase.RUNNING
    incarnation: int | None = None
    world_size: int | None = None
    step: int | None = None
    samples: float | None = None
    loss: float | None = None
    formed: bool = False
    further: Mapping[str, object] = {}


def format_progress(line: ProgressLine) -> str:
    """The JSON object, without a line end. Numbers of NumPy or torch are written as plain ones."""
    phase = line.phase and line.phase.value
    value: dict[str, object] = {"time": round(line.at_s, 4), "phase": phase, "incarnation": line.incarnation}
    value |= {"world_size": line.world_size, "step": line.step, "samples": line.samples, "loss": line.loss}
    value |= line.further
    if line.formed:
        value["formed"] = True
    return json.dumps(value, default=float)


def parse_progress(line: Mapping[str, Any]) -> ProgressLine:
    """A line's object. What a script leaves out, or writes in another type, is None; it must not disturb the rest."""
    phase, get = line.get("phase"), line.get
    return ProgressLine(
        _number(get("time")) or 0.0,
        _PHASES.get(phase) if isinstance(phase, str) else None,
        _whole(get("incarnation")),
        _whole(get("world_size")),
        _whole(get("step")),
        _number(get("samples")),
        _number(get("loss")),
        get("formed") is True,
    )


_PHASES = {phase.value: phase for phase in Phase}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
