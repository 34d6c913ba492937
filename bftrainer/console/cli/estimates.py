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

    It is empty before the pilot has read the submission.
    """
    from bftrainer.decide.domain.measurements import Measurements
    from bftrainer.decide.estimation.update import key_of

    if state is None:
        return {}
    trainers = {a.trainer.id: a.trainer for a in state.active} | {t.id: t for t in state.queue}
    trainer = trainers.get(record.name)
    if trainer is None:
        return {}
    measured = Measurements()
    if trainer.learning is not None:
        measured = dict(state.measurements).get(key_of(trainer), measured)
    return {"curve": _points(trainer, measured), "costs": _costs(trainer, measured)}


def estimate_rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Format the estimates as rows of a table."""
    rows = [
        (counted(p["nodes"], "node"), f"{p['samples_per_s']:,.4g} samples/s, {_source(p)}")
        for p in facts.get("curve", ())
    ]
    for name, cost in facts.get("costs", {}).items():
        times = (
            f"measured {counted(cost['measured'], 'time')}" if cost["measured"] else "as submitted"
        )
        rows.append((name, f"{cost['seconds']:.1f} s, {times}"))
    return rows


def _points(trainer: Trainer, measured: Measurements) -> list[dict[str, Any]]:
    """Return the points of the estimated curve, with what was measured at each, for JSON."""
    curve, noise = trainer.curve, measured.noise()
    rates = {p.nodes: p for p in measured.points}
    sizes = sorted(n for n in {*curve.nodes, *rates} if trainer.min_nodes <= n <= trainer.max_nodes)
    points = []
    for n in sizes:
        point = rates.get(n)
        windows = 0 if point is None else len(point.windows)
        source = "estimated" if measured.points else _prior(trainer)
        if windows:
            source = "measured"
        points.append(
            {
                "nodes": n,
                "samples_per_s": curve.at(n),
                "measured_samples_per_s": None if point is None else point.rate,
                "windows": windows,
                "measured_s": 0.0 if point is None else point.seconds,
                "error": noise / math.sqrt(windows) if windows and noise else None,
                "source": source,
            }
        )
    return points


def _prior(trainer: Trainer) -> str:
    return "guessed" if trainer.learning is not None and trainer.learning.blank else "submitted"


def _costs(trainer: Trainer, measured: Measurements) -> dict[str, Any]:
    """Return the costs of a rescale with the number of their measurements, for JSON."""
    learned = {
        "start_s": (trainer.start_s, measured.starts),
        "from_zero_s": (trainer.from_zero_s, measured.from_zero),
    }
    return {
        **{
            name: {"seconds": s, "measured": len(times)}
            for name, (s, times) in learned.items()
            if s is not None
        },
        "scale_up_s": {"seconds": trainer.scale_up_s, "measured": len(measured.ups)},
        "scale_down_s": {"seconds": trainer.scale_down_s, "measured": len(measured.downs)},
    }


def _source(point: dict[str, Any]) -> str:
    if not point["windows"]:
        return str(point["source"])
    error = "error unknown" if point["error"] is None else f"+-{point['error']:.1%}"
    return (
        f"measured for {point['measured_s']:,.0f} s, {error} "
        f"({counted(point['windows'], 'window')})"
    )
