"""States of earlier versions, which journaled what scripts reported as it was: made finite again. Pure."""

from __future__ import annotations

import math
from dataclasses import replace

from bftrainer.domain.measurements import Measurements
from bftrainer.domain.state import Active, Losses, State
from bftrainer.protocol.bounds import MAX_SAMPLES


def usable(state: State) -> State:
    """The state without reports that are not finite; the state itself if there are none."""
    active = tuple(map(_active, state.active))
    measurements = tuple((key, _measurements(found)) for key, found in state.measurements)
    if active == state.active and measurements == state.measurements:
        return state
    # What the policy remembers may rest on the same reports.
    return replace(state, active=active, measurements=measurements, memory=None)


def _active(it: Active) -> Active:
    samples = it.samples_done if 0 <= it.samples_done <= MAX_SAMPLES else 0.0
    losses = it.losses if it.losses is None or _is_finite(it.losses) else None
    return (
        it if samples == it.samples_done and losses is it.losses else replace(it, samples_done=samples, losses=losses)
    )


def _is_finite(it: Losses) -> bool:
    return all(map(math.isfinite, (it.first, it.latest, it.at_samples, it.per_sample or 0.0)))


def _measurements(it: Measurements) -> Measurements:
    points = tuple(p for p in it.points if all(map(math.isfinite, (*p.windows, p.seconds, p.rate, p.squares))))
    ups, downs = (tuple(filter(math.isfinite, stalls)) for stalls in (it.ups, it.downs))
    return it if (points, ups, downs) == (it.points, it.ups, it.downs) else Measurements(points, ups, downs)
