"""The estimates of a trainer's speed for ``bftrainer show``: the sizes that were measured, and
their uncertainty.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from bftrainer.counted import counted

if TYPE_CHECKING:
    from bftrainer.decide.domain.measurements import Measurements
    from bftrainer.decide.domain.model import Trainer
    from bftrainer.decide.domain.state import State
    from bftrainer.pilot.persistence.registry import TrainerRecord


def estimates(record: TrainerRecord, state: State | None) -> dict[str, Any]:
    """Return the estimates of a trainer for JSON: the curve point by point, R_up and R_dw.

    ``state`` is that after the last decision. The result is empty if the trainer is not in it:
    before the pilot has read the submission, and after the trainer has ended.
    """
    from bftrainer.decide.domain.measurements import Measurements
    from bftrainer.decide.estimation.update import key_of

    if state is None:
        return {}
    trainers = {admitted.trainer.id: admitted.trainer for admitted in state.active} | {
        t.id: t for t in state.queue
    }
    trainer = trainers.get(record.name)
    if trainer is None:
        return {}
    measurements = Measurements()
    if trainer.learning is not None:
        measurements = dict(state.measurements).get(key_of(trainer), measurements)
    return {
        "curve": _curve_points(trainer, measurements),
        "costs": _rescale_costs(trainer, measurements),
    }


def estimate_rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Format the estimates as rows of a table."""
    rows = [
        (counted(p["nodes"], "node"), f"{p['samples_per_s']:,.4g} samples/s, {_speed_source(p)}")
        for p in facts.get("curve", ())
    ]
    for name, cost in facts.get("costs", {}).items():
        times = (
            f"measured {counted(cost['measured'], 'time')}" if cost["measured"] else "as submitted"
        )
        rows.append((name, f"{cost['seconds']:.1f} s, {times}"))
    return rows


def _curve_points(trainer: Trainer, measurements: Measurements) -> list[dict[str, Any]]:
    """Return the points of the estimated curve at legal sizes, for JSON: those of the submitted
    curve and the measured ones.

    ``error`` is the relative standard error of the mean over the measured ``windows``.
    """
    noise = measurements.noise()
    points_by_size = {point.nodes: point for point in measurements.points}
    sizes = {*trainer.curve.nodes, *points_by_size}
    rows = []
    for size in sorted(sizes):
        if not trainer.min_nodes <= size <= trainer.max_nodes:
            continue
        point = points_by_size.get(size)
        window_count = 0 if point is None else len(point.windows)
        source = "estimated" if measurements.points else _prior_source(trainer)
        if window_count:
            source = "measured"
        rows.append(
            {
                "nodes": size,
                "samples_per_s": trainer.curve.at(size),
                "measured_samples_per_s": None if point is None else point.rate,
                "windows": window_count,
                "measured_s": 0.0 if point is None else point.seconds,
                "error": noise / math.sqrt(window_count) if window_count and noise else None,
                "source": source,
            }
        )
    return rows


def _prior_source(trainer: Trainer) -> str:
    """Return the source of a curve before any measurement."""
    return "guessed" if trainer.learning is not None and trainer.learning.blank else "submitted"


def _rescale_costs(trainer: Trainer, measurements: Measurements) -> dict[str, Any]:
    """Return the costs of a rescale with the number of their measurements, for JSON.

    Costs that the trainer does not have (None) are left out.
    """
    costs = {
        "start_s": (trainer.start_s, measurements.starts),
        "from_zero_s": (trainer.from_zero_s, measurements.from_zero),
        "scale_up_s": (trainer.scale_up_s, measurements.ups),
        "scale_down_s": (trainer.scale_down_s, measurements.downs),
    }
    return {
        name: {"seconds": seconds, "measured": len(samples)}
        for name, (seconds, samples) in costs.items()
        if seconds is not None
    }


def _speed_source(point: dict[str, Any]) -> str:
    """Say where the speed at a size comes from, and how certain it is."""
    if not point["windows"]:
        return str(point["source"])
    error = "error unknown" if point["error"] is None else f"+-{point['error']:.1%}"
    return (
        f"measured for {point['measured_s']:,.0f} s, {error} "
        f"({counted(point['windows'], 'window')})"
    )
