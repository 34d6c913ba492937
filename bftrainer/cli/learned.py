"""What is believed of a trainer's speed, for ``bftrainer show``: which sizes were measured, and how surely."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bftrainer.domain.measurements import Measurements
    from bftrainer.domain.model import Trainer
    from bftrainer.domain.state import State
    from bftrainer.persistence.registry import TrainerRecord


def learned(record: TrainerRecord, state: State | None) -> dict[str, Any]:
    """For programs: the curve point by point, R_up and R_dw; empty before the pilot has read the submission."""
    from bftrainer.domain.measurements import Measurements
    from bftrainer.estimation.update import key_of

    if state is None:
        return {}
    found = {a.trainer.id: a.trainer for a in state.active} | {t.id: t for t in state.queue}
    trainer = found.get(record.name)
    if trainer is None:
        return {}
    lesson = (
        dict(state.measurements).get(key_of(trainer), Measurements())
        if trainer.learning is not None
        else Measurements()
    )
    return {"curve": _points(trainer, lesson), "costs": _costs(trainer, lesson)}


def learned_rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """The same for people."""
    rows = [
        (_counted(p["nodes"], "node"), f"{p['samples_per_s']:,.4g} samples/s, {_how(p)}")
        for p in facts.get("curve", ())
    ]
    for name, cost in facts.get("costs", {}).items():
        times = f"measured {_counted(cost['measured'], 'time')}" if cost["measured"] else "as submitted"
        rows.append((name, f"{cost['seconds']:.1f} s, {times}"))
    return rows


def _points(trainer: Trainer, lesson: Measurements) -> list[dict[str, Any]]:
    curve, noise = trainer.curve, lesson.noise()
    measured = {p.nodes: p for p in lesson.points}
    places = sorted(n for n in {*curve.nodes, *measured} if trainer.min_nodes <= n <= trainer.max_nodes)
    points = []
    for n in places:
        point = measured.get(n)
        windows = 0 if point is None else len(point.windows)
        points.append(
            {
                "nodes": n,
                "samples_per_s": curve.at(n),
                "measured_samples_per_s": None if point is None else point.rate,
                "windows": windows,
                "measured_s": 0.0 if point is None else point.seconds,
                "error": noise / math.sqrt(windows) if windows and noise else None,
                "source": "measured" if windows else "believed" if lesson.points else _said(trainer),
            }
        )
    return points


def _said(trainer: Trainer) -> str:
    return "guessed" if trainer.learning is not None and trainer.learning.blank else "submitted"


def _costs(trainer: Trainer, lesson: Measurements) -> dict[str, Any]:
    return {
        "scale_up_s": {"seconds": trainer.scale_up_s, "measured": len(lesson.ups)},
        "scale_down_s": {"seconds": trainer.scale_down_s, "measured": len(lesson.downs)},
    }


def _how(point: dict[str, Any]) -> str:
    if not point["windows"]:
        return str(point["source"])
    error = "error not known yet" if point["error"] is None else f"+-{point['error']:.1%}"
    return f"measured for {point['measured_s']:,.0f} s, {error} ({_counted(point['windows'], 'window')})"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
