"""The chapters on settings: T_fwd, P_jmax, objective, rescale cost (the paper's Figs. 7-9, 12-14, 16, Tables 3 and 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.figure import Figure

from bftrainer_replay.analysis.fragments import followed_by_a_leave
from bftrainer_replay.figures.models import runtimes_figure
from bftrainer_replay.figures.settings import (
    efficiency_over_cost_figure,
    efficiency_over_forward_figure,
    efficiency_over_parallel_figure,
    preempted_figure,
    rescale_cost_figure,
    return_figure,
    runtime_figure,
)
from bftrainer_replay.figures.sweeps import Level, Line, lines_figure
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.report.items import Chapter, Picture, Table, picture
from bftrainer_replay.simulation.per_event import SPANS_S
from bftrainer_replay.sweep.cell import Cell
from bftrainer_replay.sweep.detail import Detail, read_detail
from bftrainer_replay.sweep.results import SweepRow


def forward_chapter(
    rows: Sequence[SweepRow], others: Sequence[SweepRow], shown: Detail, window: LogWindow, level: Level | None
) -> Chapter:
    """T_fwd: what it brings, what it costs, and how often a forecast is overtaken by a preemption."""
    details = [read_detail(row.result["detail"]) for row in rows]
    lines = [_line(rows[0].cell.objective, rows, "forward_s", lambda r: r.efficiency or 0.0)]
    if len({row.cell.forward_s for row in others}) > 1:
        lines.append(_line(others[0].cell.objective, others, "forward_s", lambda r: r.efficiency or 0.0))
    efficiency = efficiency_over_forward_figure(lines, () if level is None else (level,))
    taken = [
        Line("a node in training is taken", shown.taken_within),
        Line("any idle node leaves", tuple((s, followed_by_a_leave(window, s)) for s in SPANS_S)),
    ]
    spread = {r.cell.forward_s: d.returns.quantiles for r, d in zip(rows, details, strict=True) if d.returns.quantiles}
    cost = [(r.cell.forward_s, float(r.result["rescale_cost_samples"]) / 1e6) for r in rows]
    back = [(r.cell.forward_s, r.return_on_rescaling or 0.0) for r in rows]
    outcome = [(r.cell.forward_s, r.samples / 1e6) for r in rows]
    returned = [
        (*point, done, *(d.returns.quantiles or ("",) * 5))
        for point, (_, done), d in zip(back, outcome, details, strict=True)
    ]
    return Chapter(
        "How far to look ahead (T_fwd)",
        "A decision weighs what a rescale costs against what it gains within T_fwd. Too short, and nothing is worth a rescale; "
        "too long, and nodes are gone before it has paid.",
        (
            _of("efficiency-over-forward-s", efficiency, lines, "forward_s", "efficiency"),
            _of(
                "preempted-within-forward-s",
                preempted_figure(taken, what="the loss of a node in training"),
                taken,
                "forward_s",
                "share",
            ),
            picture("rescale-cost-over-forward-s", rescale_cost_figure(cost), ("forward_s", "million_samples"), cost),
            picture(
                "return-on-rescaling",
                return_figure(back, outcome, spread),
                ("forward_s", "samples_per_sample", "million_samples", "event_p10", "p25", "p50", "p75", "p90"),
                returned,
            ),
        ),
    )


def parallel_chapter(rows: Sequence[SweepRow]) -> Chapter:
    """P_jmax: more at once train more in all, and each takes longer."""
    done = [(float(r.cell.max_parallel), r.samples / 1e6) for r in rows]
    best = max(done, key=lambda point: point[1])
    outcome = lines_figure(
        "Outcome over the number of trainers at once",
        f"Read: {best[0]:g} at once train most, {best[1]:,.0f} million samples; {done[0][0]:g} at once train "
        f"{1 - done[0][1] / best[1] if best[1] else 0:.1%} less.",
        [Line("outcome", tuple(done))],
        x="P_jmax",
        y="million samples",
    )
    lines = [_line("U", rows, "max_parallel", lambda r: r.efficiency or 0.0)]
    unused = [(float(r.cell.max_parallel), _unused(r)) for r in rows]
    efficiency = efficiency_over_parallel_figure(lines, unused)
    items = [
        _of("outcome-over-max-parallel", outcome, [Line("outcome", tuple(done))], "max_parallel", "million_samples"),
        _of(
            "efficiency-over-max-parallel", efficiency, [*lines, Line("unused", tuple(unused))], "max_parallel", "share"
        ),
    ]
    hours = [
        (float(r.cell.max_parallel), float(r.result["mean_runtime_h"])) for r in rows if r.result["mean_runtime_h"]
    ]
    if len(hours) > 1:
        runtime = runtime_figure([Line("runtime", tuple(hours))])
        items.append(picture("runtime-over-max-parallel", runtime, ("max_parallel", "hours"), hours))
    return Chapter("How many at once (P_jmax)", "Trainers run more efficiently on few nodes each.", tuple(items))


def objective_chapter(rows: Sequence[SweepRow], parallel: Sequence[SweepRow]) -> Chapter:
    """Fig. 12, Tables 3 and 4: who gets done when under which objective, and with how many at once."""
    models = _models(rows)
    cells = tuple((model, *(_told(row, model) for row in rows)) for model in models)
    whole = (
        ("million samples", *(f"{row.samples / 1e6:,.0f}" for row in rows)),
        ("one-node hours", *(f"{float(row.result['outcome_one_node_h']):,.0f}" for row in rows)),
    )
    one_node = [float(row.result["outcome_one_node_h"]) for row in rows]
    fairest = rows[int(np.argmax(one_node))].cell.objective
    table = Table(
        "objectives",
        "Mean hours from admission to end, by model and objective (trainers done)",
        f"Read: throughput favours models with cheap samples; {fairest} gives most one-node hours, a measure that counts "
        "every model alike.",
        ("model", *(row.cell.objective for row in rows)),
        (*cells, *whole),
    )
    hours = {row.cell.objective: {m: h for m in models if (h := _hours(row, m)) is not None} for row in rows}
    bars = [(objective, model, h) for objective, each in hours.items() for model, h in each.items()]
    return Chapter(
        "What to maximise (objective)",
        "Matters only where trainers differ.",
        (
            table,
            picture("runtime-by-model", runtimes_figure(hours), ("objective", "model", "hours"), bars),
            *_runtime_tables(parallel),
        ),
    )


def _runtime_tables(rows: Sequence[SweepRow]) -> list[Table]:
    """Tables 3 and 4: one per objective that was replayed with more than one P_jmax."""
    tables = []
    for objective in dict.fromkeys(row.cell.objective for row in rows):
        mine = sorted((r for r in rows if r.cell.objective == objective), key=lambda r: r.cell.max_parallel)
        first, last = mine[0], mine[-1]
        grown = {
            model: after / before
            for model in _models(mine)
            if (before := _hours(first, model)) and (after := _hours(last, model))
        }
        if len(mine) < 2:
            continue
        told = "the log is too short for trainers of one model to be done with few at once and with many."
        if grown:
            worst, best = max(grown, key=lambda m: grown[m]), min(grown, key=lambda m: grown[m])
            told = (
                f"from {first.cell.max_parallel} to {last.cell.max_parallel} at once a trainer of {worst} takes "
                f"{grown[worst]:.1f} times as long, one of {best} {grown[best]:.1f} times: it is not the same for all."
            )
        tables.append(
            Table(
                f"runtimes-{objective}",
                f"Mean hours from admission to end over P_jmax, objective {objective} (trainers done)",
                f"Read: {told}",
                ("model", *(f"P_jmax {row.cell.max_parallel}" for row in mine)),
                tuple((model, *(_told(row, model) for row in mine)) for model in _models(mine)),
            )
        )
    return tables


def _models(rows: Sequence[SweepRow]) -> list[str]:
    return sorted({model for row in rows for model in row.result["models"]})


def _hours(row: SweepRow, model: str) -> float | None:
    """Mean hours from admission to end, as the paper's tables count; None where no trainer of the model was done."""
    found = row.result["models"].get(model)
    hours: float | None = None if found is None else found["mean_served_h"]
    return hours


def _told(row: SweepRow, model: str) -> str:
    hours = _hours(row, model)
    return "none done" if hours is None else f"{hours:.1f} h ({row.result['models'][model]['completed']})"


def cost_chapter(rows: Sequence[SweepRow]) -> Chapter:
    """Fig. 16."""
    lines = [_line("U", rows, "cost_factor", lambda r: r.efficiency or 0.0)]
    figure = efficiency_over_cost_figure(lines)
    item = _of("efficiency-over-rescale-cost", figure, lines, "cost_factor", "efficiency")
    return Chapter(
        "If rescaling is slower than assumed", "Measure your own trainers' costs before you trust this.", (item,)
    )


def _unused(row: SweepRow) -> float:
    whole = float(row.result["resource_integral_node_h"])
    return float(row.result["unused_node_h"]) / whole if whole else 0.0


def _line(name: str, rows: Sequence[SweepRow], axis: str, value: Callable[[SweepRow], float]) -> Line:
    return Line(name, tuple((float(_axis(row.cell, axis)), value(row)) for row in rows))


def _axis(cell: Cell, name: str) -> float:
    found: float = getattr(cell, name)
    return found


def _of(name: str, figure: Figure, lines: Sequence[Line], x: str, y: str) -> Picture:
    rows = [(line.name, at, value) for line in lines for at, value in line.points]
    return picture(name, figure, ("line", x, y), rows)
