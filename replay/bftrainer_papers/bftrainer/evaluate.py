"""Our numbers by the keys of the paper's claims, from what was results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from bftrainer_papers.bftrainer.claims import RUNTIMES, runtime_tolerance_h
from bftrainer_papers.bftrainer.experiments import BASE_MODEL, DIVERSE, OBJECTIVES
from bftrainer_papers.bftrainer.results import ExperimentResults
from bftrainer_papers.bftrainer.solver_times import cell_name
from bftrainer_papers.bftrainer.tables import rank_correlation, runtime_cells, table_1
from bftrainer_papers.reproduction import change
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.sweep.cell import Cell
from bftrainer_replay.workload.curves import TABLE_2

ClaimValues = dict[str, float]
SUMMIT_NODES = 4608
NAN = float("nan")


def evaluate(results: ExperimentResults) -> ClaimValues:
    """A value for every claim that the runs cover."""
    return {key: value for part in _PARTS for key, value in part(results).items()}


def _log_values(results: ExperimentResults) -> ClaimValues:
    """Return the values of the claims on the log itself (section 2.1, Table 1, Figs. 1 and 6)."""
    all_, week = results.machine, results.first_week
    values = {
        "events": all_.events,
        "joins": all_.joins,
        "leaves": all_.leaves,
        "node-hours": all_.node_hours,
        "eq-nodes": all_.eq_nodes,
        "share": 100 * all_.idle_share,
        "share-4608": 100 * all_.eq_nodes / SUMMIT_NODES,
        "slice-share": 100 * results.slice_week.idle_share,
        "slice-events": results.slice_week.per_hour(results.slice_week.events),
    }
    if week.fragment_lengths is not None and all_.fragment_lengths is not None:
        values["short-week"] = 100 * week.fragment_lengths.short_share
        values["short-time"] = 100 * week.fragment_lengths.short_node_time_share
        values["short-all"] = 100 * all_.fragment_lengths.short_share
    for system, numbers in {"Summit": all_, **results.others}.items():
        values |= {
            f"table-1-{system}-{column}": value for column, value in table_1(numbers).items()
        }
    return {key: float(value) for key, value in values.items()}


def _curve_values(results: ExperimentResults) -> ClaimValues:
    """Return the largest difference of our curves from Table 2, in thousand samples per second.

    NaN if no curve of ours is of a model of the table.
    """
    curves = {}
    for (_, workload, _), arrivals in results.inputs.arrivals.items():
        if workload != DIVERSE and arrivals:
            trainer = arrivals[0].trainer
            curves[trainer.model] = trainer.curve
    differences = [
        abs(curves[model].at(n) - curve.at(n)) / 1000
        for model, curve in TABLE_2.items()
        if model in curves
        for n in curve.nodes
        if n <= curves[model].nodes[-1]
    ]
    return {"table-2": max(differences, default=NAN)}


def _solver_values(results: ExperimentResults) -> ClaimValues:
    """Return the values of the claims on solver times (Fig. 5): the percentage of problems solved
    within a second, and the median of the largest ones.
    """
    values = {}
    for name, cells in results.times.items():
        times_s = np.concatenate([np.array(times) for times in cells.values()])
        # Solved within a second.
        values[f"solve-{name}"] = 100 * float(np.mean(times_s < 1.0))
    if "highs" in results.times:
        largest = cell_name(results.grid.solver_trainers[-1], results.grid.solver_nodes[-1])
        values["solve-largest"] = float(np.median(results.times["highs"][largest]))
    return values


def cost_per_event(results: ExperimentResults, cell: Cell) -> float:
    """Million samples lost to planned rescales, per event of the pool (Fig. 7b)."""
    row = results.rows[cell]
    return float(row.result["rescale_cost_samples"]) / 1e6 / max(int(row.result["decisions"]), 1)


def preempted_since(window: LogWindow, span_s: float) -> float:
    """Return the percentage of preemptions within ``span_s`` after the previous event, or NaN.

    A preemption is an event in which a node leaves; it is NaN if no node ever leaves. This is the
    other possible reading of the paper's Fig. 7a.
    """
    at_s = np.array([window.start_s, *(event.at_s for event in window.events)])
    left = np.array([bool(event.change.left) for event in window.events], dtype=bool)
    since_s = np.diff(at_s)[left]
    return 100 * float(np.mean(since_s <= span_s)) if len(since_s) else NAN


def followed_by_a_leave(window: LogWindow, span_s: float) -> float:
    """Return the share, 0 to 1, of events after which a node leaves within ``span_s`` (cf. Fig.
    7a).

    An event is any change of the set of idle nodes; it leaves when a main job takes it. A log
    without events or leaves has share 0.
    """
    at_s = np.array([event.at_s for event in window.events])
    leaves = np.array([event.at_s for event in window.events if event.change.left])
    if not len(at_s) or not len(leaves):
        return 0.0
    next_leave = np.searchsorted(leaves, at_s, side="right")
    next_leave_s = np.where(
        next_leave < len(leaves), leaves[np.minimum(next_leave, len(leaves) - 1)], np.inf
    )
    return float(np.mean(next_leave_s - at_s <= span_s))


def preempted_within(window: LogWindow, spans_s: Sequence[float]) -> list[tuple[float, float]]:
    """Return (span, percentage of the pool's changes that a departure follows within the span), for
    each span (Fig. 7a).
    """
    return [(span_s, 100 * followed_by_a_leave(window, span_s)) for span_s in spans_s]


def _forward_values(results: ExperimentResults) -> ClaimValues:
    """Return the values of the claims on T_fwd (5.1, Figs. 7 to 9): preemptions, costs of
    rescaling, return, and U.
    """
    plan, week = results.plan, results.week
    first, last = plan.forward[0], plan.forward[-1]
    best = max(results.u(cell) for cell in plan.forward)
    spans = [float(s) for s in range(10, 3601, 5)]
    equal = cost_per_event(results, plan.equal)
    return {
        "hpo-hours": results.hours_until_done(plan.until_done[BASE_MODEL]),
        "preempted-170": 100 * followed_by_a_leave(week, 170.0),
        "preempted-90": next((s for s, share in preempted_within(week, spans) if share >= 90), NAN),
        "preempted-since": preempted_since(week, 170.0),
        "preempted-machine": 100 * followed_by_a_leave(results.inputs.windows["machine"], 170.0),
        "cost-rises": change(cost_per_event(results, last), cost_per_event(results, first)),
        "cost-equal-share": equal,
        "cost-ratio": equal / (cost_per_event(results, first) or NAN),
        "roi-falls": change(
            results.rows[last].return_on_rescaling or NAN,
            results.rows[first].return_on_rescaling or NAN,
        ),
        "outcome-flat": change(results.rows[last].samples, results.rows[plan.base].samples),
        "u-equal-share": results.u(plan.equal),
        "u-120": results.u(plan.base),
        "u-rises": results.u(plan.base) - results.u(first),
        "u-saturates": next(
            (c.forward_s for c in plan.forward if results.u(c) >= 0.99 * best), NAN
        ),
    }


def _over_time(results: ExperimentResults) -> ClaimValues:
    """Return the values of the claims on MILP against equal share over time (Figs. 10 and 11,
    5.1.2).
    """
    milp, equal = (
        100 * results.u_by_bin[cell.policy] for cell in (results.plan.base, results.plan.equal)
    )
    milp_result, equal_result = (
        results.rows[cell].result for cell in (results.plan.base, results.plan.equal)
    )
    speedups = results.speedups
    return {
        "u-bins": float(milp.mean()),
        # The third largest, as the claim says.
        "u-bins-best": float(np.sort(milp)[-3:][0]),
        "u-bins-gain": max(
            (change(m, e) for m, e in zip(milp.tolist(), equal.tolist(), strict=True) if e > 0),
            default=NAN,
        ),
        "preemption-cost": change(
            float(milp_result["preemption_cost_samples"]),
            float(equal_result["preemption_cost_samples"]),
        ),
        "rescale-cost": change(
            float(milp_result["rescale_cost_samples"]), float(equal_result["rescale_cost_samples"])
        ),
        "worse": speedups.worse,
        "better-2": speedups.better_2,
        "better-5": speedups.better_5,
        "better-2-trained": speedups.of_trained_2,
        "better-5-trained": speedups.of_trained_5,
        "better-mean": speedups.mean,
    }


def _several_models_values(results: ExperimentResults) -> ClaimValues:
    """Return the values of the claims on trainers of several models (5.2): how their runtimes
    differ under each objective.
    """
    plan = results.plan
    efficiency_cell = next(
        cell for cell in plan.parallel["scaling-efficiency"] if cell.max_parallel == 10
    )
    hours = [results.runtime_h(efficiency_cell, model) for model in RUNTIMES["scaling-efficiency"]]
    pairs = zip(*(plan.objectives[objective] for objective in OBJECTIVES), strict=True)
    values = {
        "fair-spread": max(hours) / min(hours),
        # The gain must hold at every T_fwd: the smallest one counts.
        "u-fair": min(results.u(efficient) - results.u(plain) for plain, efficient in pairs),
    }
    for group, tail in ((plan.parallel, ""), (plan.parallel_short, "-10")):
        ratios = [
            results.runtime_h(cell, "densenet") / results.runtime_h(cell, "alexnet")
            for cell in group["throughput"]
        ]
        values |= {
            f"densenet-mean{tail}": float(np.mean(ratios)),
            f"densenet-most{tail}": float(np.max(ratios)),
        }
    return values


def _parallel_values(results: ExperimentResults) -> ClaimValues:
    """Return the values of the claims on P_jmax, the limit of concurrent trainers (5.3, Fig. 14).

    They are U and the unoccupied nodes under scaling efficiency, and the comparisons of
    :func:`_over_parallel` at both T_fwd.
    """
    cells = results.plan.parallel["scaling-efficiency"]
    by_count = {cell.max_parallel: cell for cell in cells}
    return {
        "u-parallel": results.u_until_done(cells[-1]) - results.u_until_done(cells[0]),
        "unoccupied-5": results.unoccupied(by_count[5]),
        "unoccupied-10": results.unoccupied(by_count[10]),
        "unoccupied-more": max(
            results.unoccupied(cell) for cell in cells if cell.max_parallel > 10
        ),
        **_over_parallel(results, results.plan.parallel, ""),
        **_over_parallel(results, results.plan.parallel_short, "-10"),
    }


def _over_parallel(
    results: ExperimentResults, group: Mapping[str, Sequence[Cell]], tail: str
) -> ClaimValues:
    """Return the values of the claims of Fig. 14 and Tables 3 and 4 at one T_fwd.

    ``group`` has cells by objective in the order of P_jmax; ``tail`` ends the names of the claims.
    """
    values = {}
    for objective, name in (("scaling-efficiency", ""), ("throughput", "-throughput")):
        first, *_, last = group[objective]
        values[f"integral{name}{tail}"] = change(
            results.integral_h(last), results.integral_h(first)
        )
        values[f"runtime{name}{tail}"] = change(results.runtime_h(last), results.runtime_h(first))
    for number, objective in ((3, "throughput"), (4, "scaling-efficiency")):
        cells = runtime_cells(results, objective, group)
        paper, ours = (np.array(x) for x in zip(*((p, o) for _, _, p, o in cells), strict=True))
        is_near = [abs(p - o) <= runtime_tolerance_h(p) for p, o in zip(paper, ours, strict=True)]
        values[f"table-{number}{tail}"] = 100 * float(np.mean(is_near))
        values[f"table-{number}-order{tail}"] = rank_correlation(paper, ours)
    first, *_, last = group["scaling-efficiency"]
    for model in ("alexnet", "vgg16"):
        values[f"{model}-grows{tail}"] = results.runtime_h(last, model) / results.runtime_h(
            first, model
        )
    return values


def _single_model_values(results: ExperimentResults) -> ClaimValues:
    """Return the values of the claims on single models and on the cost of rescaling (Figs. 15 and
    16).
    """
    u = {model: results.u(cell) for model, cell in results.plan.models.items()}
    costs, alexnet = results.plan.costs, results.plan.until_done["alexnet"]
    hours = results.hours_until_done(alexnet)
    lost = [lost_share(results, cell) for cell in (costs[0], costs[-1])]
    return {
        "alexnet-hours": hours,
        "alexnet-dedicated": hours * results.u_until_done(alexnet) / 100,
        **{f"u-{model}-all": results.u(cell) for model, cell in results.plan.models_all.items()},
        "u-alexnet": u["alexnet"],
        "u-densenet": u["densenet"],
        "u-least": min(u.values()),
        "u-dear": results.u(costs[-1]) - results.u(costs[0]),
        "u-dear-up": results.u(results.plan.high_up) - results.u(costs[0]),
        "sublinear": change(lost[1], lost[0] * costs[-1].cost_factor / costs[0].cost_factor),
    }


def lost_share(results: ExperimentResults, cell: Cell) -> float:
    """Return the share of the possible samples that was lost to rescaling and preemption."""
    result = results.rows[cell].result
    lost = float(result["rescale_cost_samples"]) + float(result["preemption_cost_samples"])
    return lost / ((results.rows[cell].samples + lost) or NAN)


def _replayer_values(results: ExperimentResults) -> ClaimValues:
    """Return the values that show what our replay's own choices change: the events that cause
    decisions, the cost model, the initial map, and Eqn 10 as printed.
    """
    plan, base = results.plan, results.rows[results.plan.base]
    trainers = results.inputs.arrivals["whole", DIVERSE, 0]
    gaps = np.diff([arrival.at_s for arrival in trainers])
    at_start = [
        arrival.trainer
        for arrival in results.inputs.arrivals_of(plan.base)[: plan.base.max_parallel]
        if arrival.at_s <= results.week.start_s
    ]
    # The authors' replayer begins with a random allocation and charges R_up for it; ours begins
    # without one. At the largest throughput, this is the most that it can cost.
    paid = sum(trainer.scale_up_s * max(trainer.curve.per_s) for trainer in at_start)
    spacing = {}
    if results.trainers_from_table and gaps.sum() > 0:
        spacing = {"poisson": float(gaps.std() / gaps.mean()), "gap": float(gaps.mean())}
    return spacing | {
        "all-events": results.u(plan.all_events) - results.u(plan.base),
        "stall": results.u(plan.all_events) - results.u(plan.stall),
        "random-map": 100 * paid / (base.samples or NAN),
        "big-m-loss": results.big_m.loss,
        "big-m-binds": results.big_m.binds,
        "big-m-u": 100 * (results.big_m.samples - base.samples) / (base.static or NAN),
    }


_PARTS: tuple[Callable[[ExperimentResults], ClaimValues], ...] = (
    _log_values,
    _curve_values,
    _solver_values,
    _forward_values,
    _over_time,
    _several_models_values,
    _parallel_values,
    _single_model_values,
    _replayer_values,
)
