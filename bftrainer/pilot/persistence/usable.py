"""States of earlier versions, which journaled what scripts reported as it was: made finite again.
Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace

from bftrainer.decide.domain.measurements import Measurements
from bftrainer.decide.domain.state import Active, Losses, State
from bftrainer.errors import InvalidValueError
from bftrainer.pilot.persistence.codec import Unread
from bftrainer.wires.bounds import MAX_SAMPLES


def usable(state: State) -> State:
    """The state without reports that are not finite; the state itself if there are none.

    Raises :class:`~bftrainer.errors.InvalidValueError` where anything but the policy's memory is of
    an unknown class.
    """
    if any(
        has_unread(getattr(state, each.name)) for each in fields(state) if each.name != "memory"
    ):
        raise InvalidValueError(
            "the last state contains values of a class that this version does not know"
        )
    active = tuple(map(_active, state.active))
    measurements = tuple((key, _measurements(found)) for key, found in state.measurements)
    if active == state.active and measurements == state.measurements:
        return state
    # What the policy remembers may rest on the same reports.
    return replace(state, active=active, measurements=measurements, memory=None)


def has_unread(value: object) -> bool:
    """Whether a value contains one of a class that this version does not know."""
    if isinstance(value, Mapping):
        return any(map(has_unread, (*value, *value.values())))
    if isinstance(value, (tuple, list, frozenset)):
        return any(map(has_unread, value))
    if is_dataclass(value):
        return isinstance(value, Unread) or any(
            has_unread(getattr(value, each.name)) for each in fields(value)
        )
    return False


def _active(it: Active) -> Active:
    samples = it.samples_done if 0 <= it.samples_done <= MAX_SAMPLES else 0.0
    losses = it.losses if it.losses is None or _is_finite(it.losses) else None
    return (
        it
        if samples == it.samples_done and losses is it.losses
        else replace(it, samples_done=samples, losses=losses)
    )


def _is_finite(it: Losses) -> bool:
    return all(map(math.isfinite, (it.first, it.latest, it.at_samples, it.per_sample or 0.0)))


def _measurements(it: Measurements) -> Measurements:
    points = tuple(
        p for p in it.points if all(map(math.isfinite, (*p.windows, p.seconds, p.rate, p.squares)))
    )
    ups, downs = (tuple(filter(math.isfinite, stalls)) for stalls in (it.ups, it.downs))
    return (
        it
        if (points, ups, downs) == (it.points, it.ups, it.downs)
        else Measurements(points, ups, downs)
    )
