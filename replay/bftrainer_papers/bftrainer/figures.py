"""The paper's figures from our runs, each with its data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from bftrainer_papers.bftrainer.claims import CLAIMS, PARALLEL, RUNTIMES
from bftrainer_papers.bftrainer.evaluate import cost_per_event, followed_by_a_leave, preempted_since
from bftrainer_papers.bftrainer.experiments import OBJECTIVES, WEEK_H
from bftrainer_papers.bftrainer.idle_nodes_figure import idle_nodes_figure, mean_shares
from bftrainer_papers.bftrainer.lines import Level, Line
from bftrainer_papers.bftrainer.lost_figure import lost_figure
from bftrainer_papers.bftrainer.model_figures import efficiency_by_model_figure, runtimes_figure
from bftrainer_papers.bftrainer.over_time_figure import efficiency_over_time_figure
from bftrainer_papers.bftrainer.per_event import SPANS_S
from bftrainer_papers.bftrainer.results import ExperimentResults
from bftrainer_papers.bftrainer.setting_figures import (
    efficiency_over_cost_figure,
    efficiency_over_forward_figure,
    efficiency_over_parallel_figure,
    integral_figure,
    preempted_figure,
    rescale_cost_figure,
    return_figure,
    runtime_figure,
)
from bftrainer_papers.bftrainer.solver_figures import solver_times_figure
from bftrainer_papers.bftrainer.tables import rounded
from bftrainer_replay.analysis.window_fragments import pool_sizes_of
from bftrainer_replay.figures.fragment_lengths import fragments_figure
from bftrainer_replay.logs.event_log import format_time
from bftrainer_replay.logs.model import LogWindow, cut_short
from bftrainer_replay.report.page import Picture
from bftrainer_replay.sweep.cell import Cell


def figures(results: ExperimentResults) -> tuple[Picture, ...]:
    """Draw Figs. 1 and 5 to 16 (Figs. 2 to 4 are drawings); their data are rounded to six
    digits.
    """
    every = (picture for part in _PARTS for picture in part(results))
    return tuple(replace(picture, rows=rounded(picture.rows)) for picture in every)


def _log_figures(results: ExperimentResults) -> tuple[Picture, ...]:
    """Draw the figures of the log itself: fragments (Fig. 1) and idle nodes (Fig. 6)."""
    machine, week = results.inputs.windows["machine"], results.week
    first = cut_short(machine, machine.start_s + WEEK_H * 3600)
    short = results.first_week.fragment_lengths
    lengths = (
        () if short is None else (("under 10 min", short.short_share, short.short_node_time_share),)
    )
    sizes = pool_sizes_of(week)
    edges_s, shares = mean_shares(sizes, week, 6)
    return (
        Picture(
            "fig-01-fragments",
            fragments_figure(first),
            ("fragments", "share", "share_of_node_time"),
            lengths,
        ),
        Picture(
            "fig-06-idle-nodes",
            idle_nodes_figure(week),
            ("time", "idle_share"),
            _interval_rows(edges_s, shares),
        ),
    )


def _interval_rows(edges_s: np.ndarray, *columns: np.ndarray) -> list[tuple[object, ...]]:
    """Return a row (time, values) for each interval between two edges, with the time of its
    beginning.
    """
    rows: list[tuple[object, ...]] = []
    for at_s, *values in zip(edges_s[:-1], *columns, strict=True):
        rows.append((format_time(round(float(at_s))), *map(float, values)))
    return rows


def _solver_figures(results: ExperimentResults) -> tuple[Picture, ...]:
    """Draw the solver times (Fig. 5)."""
    times = {
        solver: {_cell_sizes(cell): took for cell, took in cells.items()}
        for solver, cells in results.times.items()
        if cells
    }
    rows = [
        (s, j, n, i, t)
        for s, cells in times.items()
        for (j, n), took in cells.items()
        for i, t in enumerate(took)
    ]
    return (
        Picture(
            "fig-05-solver-times",
            solver_times_figure(times),
            ("solver", "trainers", "nodes", "map", "s"),
            rows,
        ),
    )


def _cell_sizes(cell: str) -> tuple[int, int]:
    trainers, _, nodes = cell.partition(" x ")
    return int(trainers), int(nodes)


def _preemption_line(window: LogWindow, name: str) -> Line:
    return Line(name, tuple((float(s), followed_by_a_leave(window, s)) for s in SPANS_S))


def _paper_periods(window: LogWindow) -> tuple[tuple[float, float], ...]:
    return tuple((s, preempted_since(window, s) / 100) for s in SPANS_S)


def _forward_figures(results: ExperimentResults) -> tuple[Picture, ...]:
    """Draw the figures over T_fwd, the time that a decision looks ahead (Figs. 7 to 9)."""
    plan = results.plan
    lines = [
        _preemption_line(
            results.week, f"any idle node leaves, {results.week.machine_nodes:,} nodes"
        ),
        Line("a node in training is preempted", results.detail(plan.base).taken_within),
        _preemption_line(results.inputs.windows["machine"], "any idle node leaves, all nodes"),
        Line(
            "other reading: departures within T_fwd of the previous event",
            _paper_periods(results.week),
        ),
        Line("paper", ((170.0, 0.9),)),
    ]
    cost = [(cell.forward_s, cost_per_event(results, cell)) for cell in plan.forward]
    returns_on_rescaling = [
        (cell.forward_s, results.rows[cell].return_on_rescaling or 0.0) for cell in plan.forward
    ]
    outcome = [(cell.forward_s, results.rows[cell].samples / 1e6) for cell in plan.forward]
    returns = {cell.forward_s: results.detail(cell).returns.quantiles for cell in plan.forward}
    quantiles_by_forward = {
        at: quantiles for at, quantiles in returns.items() if quantiles is not None
    }
    milp = _u_line("MILP", results, plan.forward)
    bound = results.rows[plan.base].no_cost_bound
    equal = results.u(plan.equal) / 100
    levels = [Level(f"equal share {equal:.1%} (paper: 75 %)", equal)]
    if bound is not None:
        levels.append(Level(f"no-cost bound {bound:.1%}", bound))
    return (
        Picture(
            "fig-07a-preempted",
            preempted_figure(lines),
            ("line", "forward_s", "share"),
            _point_rows(lines),
        ),
        Picture(
            "fig-07b-rescale-cost",
            rescale_cost_figure(cost, " per event"),
            ("policy", "forward_s", "million_samples"),
            [
                *(("bftrainer", *point) for point in cost),
                ("equal-share", "", cost_per_event(results, plan.equal)),
            ],
        ),
        Picture(
            "fig-08-return",
            # The spread is drawn only if every value of T_fwd has one.
            return_figure(
                returns_on_rescaling,
                outcome,
                quantiles_by_forward
                if len(quantiles_by_forward) == len(returns_on_rescaling)
                else None,
            ),
            (
                "forward_s",
                "samples_per_sample",
                "million_samples",
                "p10",
                "p25",
                "p50",
                "p75",
                "p90",
            ),
            [
                (*point, done, *(returns[point[0]] or ("",) * 5))
                for point, (_, done) in zip(returns_on_rescaling, outcome, strict=True)
            ],
        ),
        Picture(
            "fig-09-efficiency-over-forward-s",
            efficiency_over_forward_figure([milp], levels),
            ("line", "forward_s", "u"),
            [*_point_rows([milp]), *((level.name, "", level.y) for level in levels)],
        ),
    )


def _over_time(results: ExperimentResults) -> tuple[Picture, ...]:
    """Draw U and costs over time (Figs. 10 and 11)."""
    edges_s = results.details[results.plan.base.policy].bins.edges_s
    u = results.u_by_bin
    figure = efficiency_over_time_figure(
        edges_s.tolist(), {name: values.tolist() for name, values in u.items()}
    )
    lost: list[tuple[object, ...]] = []
    for name, detail in results.details.items():
        bins = detail.bins
        rows = _interval_rows(
            bins.edges_s, bins.samples, bins.lost_to_preemption, bins.lost_to_rescale
        )
        lost += [(name, *row) for row in rows]
    return (
        Picture(
            "fig-10-efficiency-over-a-week",
            figure,
            ("time", *u),
            _interval_rows(edges_s, *u.values()),
        ),
        Picture(
            "fig-11-costs-over-a-week",
            lost_figure({name: d.bins for name, d in results.details.items()}),
            ("policy", "time", "samples", "lost_to_preemption", "lost_to_rescale"),
            lost,
        ),
    )


def _several_models_figures(results: ExperimentResults) -> tuple[Picture, ...]:
    """Draw the figures of trainers of several models (Figs. 12 and 13)."""
    lines = [
        _u_line(objective, results, results.plan.objectives[objective])
        for objective in reversed(OBJECTIVES)
    ]
    return (
        _runtime_figure("fig-12-runtimes", results, results.plan.parallel),
        _runtime_figure("fig-12-runtimes-forward-10", results, results.plan.parallel_short),
        Picture(
            "fig-13-efficiency-by-objective",
            efficiency_over_forward_figure(lines),
            ("objective", "forward_s", "u"),
            _point_rows(lines),
        ),
    )


def _runtime_figure(
    name: str, results: ExperimentResults, group: Mapping[str, Sequence[Cell]]
) -> Picture:
    """Return the picture of the mean runtimes by model at P_jmax 10 (Fig. 12)."""
    parallel_shown = 10
    hours: dict[str, dict[str, float]] = {}
    paper: dict[str, dict[str, float]] = {}
    for objective in OBJECTIVES:
        cell = next(c for c in group[objective] if c.max_parallel == parallel_shown)
        hours_by_model = {model: results.runtime_h(cell, model) for model in RUNTIMES[objective]}
        # NaN: no trainer of the model completed.
        hours[objective] = {model: h for model, h in hours_by_model.items() if h == h}
        paper[objective] = {
            model: row[PARALLEL.index(parallel_shown)] for model, row in RUNTIMES[objective].items()
        }
    rows = [
        (o, m, h, paper[o][m]) for o, model_hours in hours.items() for m, h in model_hours.items()
    ]
    setting = f"P_jmax {parallel_shown}, T_fwd {cell.forward_s:g} s"
    return Picture(
        name,
        runtimes_figure(hours, paper, setting),
        ("objective", "model", "hours", "paper_hours"),
        rows,
    )


def _parallel_figures(results: ExperimentResults) -> tuple[Picture, ...]:
    """Draw the figures over P_jmax, the limit of concurrent trainers (Figs. 14a to 14c).

    A figure of which some line has no known value is left out.
    """
    groups = {objective: results.plan.parallel[objective] for objective in reversed(OBJECTIVES)}
    short = {f"{o}, T_fwd 10 s": results.plan.parallel_short[o] for o in groups}

    def points(
        value: Callable[[Cell], float], cells: Sequence[Cell]
    ) -> tuple[tuple[float, float], ...]:
        """The values by P_jmax; NaN has no point."""
        values = [(float(cell.max_parallel), value(cell)) for cell in cells]
        return tuple(point for point in values if point[1] == point[1])

    def lines(value: Callable[[Cell], float], of: Mapping[str, Sequence[Cell]]) -> list[Line]:
        """A line for every objective."""
        return [Line(objective, points(value, cells)) for objective, cells in of.items()]

    def efficiency(shown: Sequence[Line]) -> Figure:
        unused = lines(lambda c: results.unoccupied(c) / 100, groups)[0].points
        return efficiency_over_parallel_figure(shown, unused)

    every: dict[str, tuple[list[Line], str, Callable[[Sequence[Line]], Figure]]] = {
        "fig-14a-integral": (
            lines(results.integral_h, groups | short),
            "node_hours",
            integral_figure,
        ),
        "fig-14b-runtime": (
            lines(results.runtime_h, groups | short),
            "hours",
            lambda shown: runtime_figure(shown, "admission"),
        ),
        "fig-14c-efficiency": (
            lines(lambda c: results.u_until_done(c) / 100, groups),
            "u",
            efficiency,
        ),
    }
    return tuple(
        Picture(name, draw(drawn), ("objective", "max_parallel", unit), _point_rows(drawn))
        for name, (drawn, unit, draw) in every.items()
        if all(line.points for line in drawn)
    )


def _single_model_figures(results: ExperimentResults) -> tuple[Picture, ...]:
    """Draw U by model and over the cost of rescaling (Figs. 15 and 16)."""

    def scaling(model: str) -> float:
        curve = results.inputs.arrivals_of(results.plan.models[model])[0].trainer.curve
        return curve.per_s[-1] / curve.per_s[0]

    u = {
        model: results.u(results.plan.models[model]) / 100
        for model in sorted(results.plan.models, key=scaling)
    }
    paper = {m: (CLAIMS[f"u-{m}"].paper or 0.0) / 100 for m in ("alexnet", "densenet")}
    cost = Line("U", tuple((c.cost_factor, results.u(c) / 100) for c in results.plan.costs))
    return (
        Picture(
            "fig-15-efficiency-by-model",
            efficiency_by_model_figure(u, "first 60 h", paper),
            ("model", "u"),
            list(u.items()),
        ),
        Picture(
            "fig-16-efficiency-over-cost",
            efficiency_over_cost_figure([cost]),
            ("cost_factor", "u"),
            cost.points,
        ),
    )


def _u_line(name: str, results: ExperimentResults, cells: Sequence[Cell]) -> Line:
    return Line(name, tuple((cell.forward_s, results.u(cell) / 100) for cell in cells))


def _point_rows(lines: Sequence[Line]) -> list[tuple[object, ...]]:
    return [(line.name, *point) for line in lines for point in line.points]


_PARTS: tuple[Callable[[ExperimentResults], tuple[Picture, ...]], ...] = (
    _log_figures,
    _solver_figures,
    _forward_figures,
    _over_time,
    _several_models_figures,
    _parallel_figures,
    _single_model_figures,
)
