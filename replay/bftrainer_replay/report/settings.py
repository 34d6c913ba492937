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
from bftrainer_replay.report.page import Chapter, PageTable, Picture
from bftrainer_replay.report.used_nodes import UsedNodes
from bftrainer_replay.simulation.per_event import SPANS_S
from bftrainer_replay.sweep.cell import Cell
from bftrainer_replay.sweep.detail import Detail, read_detail
from bftrainer_replay.sweep.results import SweepRow


def forward_chapter(
    rows: Sequence[SweepRow], others: Sequence[SweepRow], shown: Detail, window: LogWindow, levels: Sequence[Level]
) -> Chapter:
    """T_fwd: its effect on U, its cost, and how often a preemption comes before the forecast is over."""
    details = [read_detail(row.result["detail"]) for row in rows]
    lines = [_line(rows[0].cell.objective, rows, "forward_s", lambda r: r.efficiency or 0.0)]
    if len({row.cell.forward_s for row in others}) > 1:
        lines.append(_line(others[0].cell.objective, others, "forward_s", lambda r: r.efficiency or 0.0))
    efficiency = efficiency_over_forward_figure(lines, levels)
    taken = [
        Line("a node in training is preempted", shown.taken_within),
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
        "Forward-looking time (T_fwd)",
        "A decision compares the cost of a rescale with its gain within T_fwd. If T_fwd is too short, no rescale pays off; if "
        "it is too long, nodes leave before the rescale has paid off.",
        (
            _of("efficiency-over-forward-s", efficiency, lines, "forward_s", "efficiency"),
            _of(
                "preempted-within-forward-s",
                preempted_figure(taken, what="the loss of a node in training"),
                taken,
                "forward_s",
                "share",
            ),
            Picture("rescale-cost-over-forward-s", rescale_cost_figure(cost), ("forward_s", "million_samples"), cost),
            Picture(
                "return-on-rescaling",
                return_figure(back, outcome, spread),
                ("forward_s", "samples_per_sample", "million_samples", "event_p10", "p25", "p50", "p75", "p90"),
                returned,
            ),
        ),
    )


def parallel_chapter(rows: Sequence[SweepRow]) -> Chapter:
    """P_jmax: more concurrent trainers train more in total, and each takes longer."""
    done = [(float(r.cell.max_parallel), r.samples / 1e6) for r in rows]
    best = max(done, key=lambda point: point[1])
    outcome = lines_figure(
        "Outcome over the number of concurrent trainers",
        f"Read: {best[0]:g} concurrent trainers train most, {best[1]:,.0f} million samples; {done[0][0]:g} train "
        f"{1 - done[0][1] / best[1] if best[1] else 0:.1%} less.",
        [Line("outcome", tuple(done))],
        x="P_jmax",
        y="million samples",
    )
    lines = [_line("efficiency U", rows, "max_parallel", lambda r: r.efficiency or 0.0)]
    unused = [(float(r.cell.max_parallel), 1 - UsedNodes.of(r).share) for r in rows]
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
        items.append(Picture("runtime-over-max-parallel", runtime, ("max_parallel", "hours"), hours))
    return Chapter(
        "Concurrent trainers (P_jmax)",
        "A model on n nodes trains less than n times as fast as on one node. More trainers on fewer nodes each therefore do "
        "more work in total, and each takes longer. Efficiency U need not rise with them: the dedicated nodes with which it "
        "compares have the same limit.",
        tuple(items),
    )


def objective_chapter(rows: Sequence[SweepRow], parallel: Sequence[SweepRow]) -> Chapter:
    """Fig. 12, Tables 3 and 4: runtimes by model, objective and number of concurrent trainers."""
    models = _models(rows)
    cells = tuple((model, *(_runtime(row, model) for row in rows)) for model in models)
    whole = (
        ("million samples", *(f"{row.samples / 1e6:,.0f}" for row in rows)),
        ("one-node hours", *(f"{float(row.result['outcome_one_node_h']):,.0f}" for row in rows)),
    )
    one_node = [float(row.result["outcome_one_node_h"]) for row in rows]
    fairest = rows[int(np.argmax(one_node))].cell.objective
    table = PageTable(
        "objectives",
        "Mean hours from admission to completion, by model and objective (completed trainers)",
        f"Read: throughput favors models with cheap samples; {fairest} gives the most one-node hours, a measure that weighs "
        "all models equally.",
        ("model", *(row.cell.objective for row in rows)),
        (*cells, *whole),
    )
    hours = {row.cell.objective: {m: h for m in models if (h := _hours(row, m)) is not None} for row in rows}
    bars = [(objective, model, h) for objective, each in hours.items() for model, h in each.items()]
    return Chapter(
        "Objective",
        "The objective is what bftrainer maximizes: samples per second (throughput), or the sum of the trainers' speeds, each "
        "relative to an equal share of the nodes (relative-speed, the default). The choice makes a difference only if trainers "
        "differ.",
        (
            table,
            Picture("runtime-by-model", runtimes_figure(hours), ("objective", "model", "hours"), bars),
            *_runtime_tables(parallel),
        ),
    )


def _runtime_tables(rows: Sequence[SweepRow]) -> list[PageTable]:
    """Tables 3 and 4: one for each objective that was replayed with more than one P_jmax."""
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
        sentence = "the log is too short: no model has completed trainers with both the fewest and the most at once."
        if grown:
            worst, best = max(grown, key=lambda m: grown[m]), min(grown, key=lambda m: grown[m])
            sentence = (
                f"with {last.cell.max_parallel} concurrent trainers instead of {first.cell.max_parallel}, a trainer of {worst} "
                f"takes {grown[worst]:.1f} times as long, a trainer of {best} {grown[best]:.1f} times."
            )
        tables.append(
            PageTable(
                f"runtimes-{objective}",
                f"Mean hours from admission to completion by P_jmax, objective {objective} (completed trainers)",
                f"Read: {sentence}",
                ("model", *(f"P_jmax {row.cell.max_parallel}" for row in mine)),
                tuple((model, *(_runtime(row, model) for row in mine)) for model in _models(mine)),
            )
        )
    return tables


def _models(rows: Sequence[SweepRow]) -> list[str]:
    return sorted({model for row in rows for model in row.result["models"]})


def _hours(row: SweepRow, model: str) -> float | None:
    """Mean hours from admission to completion, as in the paper's tables; None if no trainer of the model completed."""
    found = row.result["models"].get(model)
    hours: float | None = None if found is None else found["mean_served_h"]
    return hours


def _runtime(row: SweepRow, model: str) -> str:
    hours = _hours(row, model)
    if hours is None:
        return "none completed"
    text = f"{hours:.2f}" if hours < 10 else f"{hours:.1f}"
    return f"{text} h ({row.result['models'][model]['completed']})"


def cost_chapter(rows: Sequence[SweepRow]) -> Chapter:
    """Fig. 16: U if rescaling costs more than assumed."""
    lines = [_line("efficiency U", rows, "cost_factor", lambda r: r.efficiency or 0.0)]
    figure = efficiency_over_cost_figure(lines)
    item = _of("efficiency-over-rescale-cost", figure, lines, "cost_factor", "efficiency")
    return Chapter(
        "Higher rescale costs", "Measure the costs of your own trainers before you rely on this figure.", (item,)
    )


def _line(name: str, rows: Sequence[SweepRow], axis: str, value: Callable[[SweepRow], float]) -> Line:
    return Line(name, tuple((float(_axis(row.cell, axis)), value(row)) for row in rows))


def _axis(cell: Cell, name: str) -> float:
    found: float = getattr(cell, name)
    return found


def _of(name: str, figure: Figure, lines: Sequence[Line], x: str, y: str) -> Picture:
    rows = [(line.name, at, value) for line in lines for at, value in line.points]
    return Picture(name, figure, ("line", x, y), rows)
