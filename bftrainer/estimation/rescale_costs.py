"""The costs of a rescale from the submitted ones and the measurements. Pure."""

from __future__ import annotations

from dataclasses import replace

from bftrainer.domain.measurements import Measurements, middle
from bftrainer.domain.model import Trainer

TOLERANCE = 0.02
"""An estimated curve or cost is replaced when it has changed by more than this, relative."""
TRAINS_ON_S = 1.0
"""A trainer that still reports progress this long after the decision trains on while new nodes start."""


def with_costs(submitted: Trainer, now: Trainer, measured: Measurements) -> Trainer:
    """``now`` with the measured costs; the same value where none changed beyond the tolerance."""
    up_s = _settled(now.scale_up_s, middle(measured.ups) if measured.ups else submitted.scale_up_s)
    down_s = _settled(now.scale_down_s, middle(measured.downs) if measured.downs else submitted.scale_down_s)
    start_s = _start_s(submitted, now, measured)
    from_zero_s = None if start_s is None else _from_zero_s(submitted, now, measured)
    if (up_s, down_s, start_s, from_zero_s) == (now.scale_up_s, now.scale_down_s, now.start_s, now.from_zero_s):
        return now
    return replace(now, scale_up_s=up_s, scale_down_s=down_s, start_s=start_s, from_zero_s=from_zero_s)


def _settled(now: float, new: float) -> float:
    return new if abs(new - now) > TOLERANCE * max(now, 1e-9) else now


def _start_s(submitted: Trainer, now: Trainer, measured: Measurements) -> float | None:
    """The time of a start; None while nothing shows that the old nodes train on meanwhile: all stall then."""
    if not measured.starts:
        return submitted.start_s
    start_s = middle(measured.starts)
    if now.start_s is None:
        return start_s if start_s >= TRAINS_ON_S else None
    return _settled(now.start_s, start_s)


def _from_zero_s(submitted: Trainer, now: Trainer, measured: Measurements) -> float | None:
    """The time of a start from 0 nodes. It counts only beside S: without S, such starts are measurements of R^up."""
    if not measured.from_zero:
        return submitted.from_zero_s
    new = middle(measured.from_zero)
    return new if now.from_zero_s is None else _settled(now.from_zero_s, new)
