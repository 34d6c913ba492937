"""Figures of a sweep: U, or without P_jmax work per idle node-hour, over every setting that varies.

Means over seeds, with a line per combination of the other settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from bftrainer_replay.figures.style import png
from bftrainer_replay.figures.sweeps import Line, lines_figure
from bftrainer_replay.sweep.cell import Cell
from bftrainer_replay.sweep.results import SweepRow

_AXES = {
    "forward_s": "forward-looking time T_fwd, s",
    "max_parallel": "trainers at once, P_jmax",
    "cost_factor": "rescale cost, times the workload's own",
    "split": "logical clusters",
}
_MOST_LINES = 7


def pictures(rows: Sequence[SweepRow]) -> dict[str, bytes]:
    """PNG files by name."""
    measure = "efficiency U" if all(row.efficiency is not None for row in rows) else "work per idle node-hour"
    name_of = {"efficiency U": "efficiency"}.get(measure, "work")
    told = [row for row in rows if _value(row, measure) is not None]
    varied = [f.name for f in fields(Cell) if f.name != "seed" and len({getattr(r.cell, f.name) for r in told}) > 1]
    found = {}
    for axis in (name for name in varied if name in _AXES):
        others = [name for name in varied if name != axis]
        lines = _lines(told, axis, others, measure)
        best = max(((value, line.name, at) for line in lines for at, value in line.points), default=None)
        if best is None:
            continue
        caption = (
            f"Read: the highest {measure} is {best[0]:.1%}, at {best[2]:g}{f' with {best[1]}' if best[1] else ''}."
        )
        if len(lines) > _MOST_LINES:
            lines = sorted(lines, key=lambda line: -max(value for _, value in line.points))[:_MOST_LINES]
            caption += f" The {_MOST_LINES} best combinations of the other settings are shown."
        figure = lines_figure(
            f"{name_of.capitalize()} over {_AXES[axis].partition(',')[0]}",
            caption,
            lines,
            x=_AXES[axis],
            y=measure,
            percent=True,
            log_x=axis != "max_parallel" and min(at for line in lines for at, _ in line.points) > 0,
        )
        found[f"{name_of}-over-{axis.replace('_', '-')}.png"] = png(figure)
    return found


def _value(row: SweepRow, measure: str) -> float | None:
    return row.efficiency if measure == "efficiency U" else row.work_share


def _lines(rows: Sequence[SweepRow], axis: str, others: Sequence[str], measure: str) -> list[Line]:
    groups: dict[str, dict[float, list[float]]] = {}
    for row in rows:
        name = ", ".join(_word(row.cell, other) for other in others)
        value = _value(row, measure)
        assert value is not None
        groups.setdefault(name, {}).setdefault(getattr(row.cell, axis), []).append(value)
    return [
        Line(name, tuple((at, sum(values) / len(values)) for at, values in sorted(points.items())))
        for name, points in groups.items()
    ]


def _word(cell: Cell, name: str) -> str:
    value = getattr(cell, name)
    return str(value) if isinstance(value, str) else f"{name} {value:g}"
