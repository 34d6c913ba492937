"""Our numbers by the keys of the paper's claims, from what was found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from bftrainer_papers.bftrainer.found import ExperimentResults
from bftrainer_papers.bftrainer.paper import RUNTIMES, runtime_tolerance_h
from bftrainer_papers.bftrainer.runtimes import rank_correlation, runtime_cells
from bftrainer_papers.bftrainer.setting import BASE_MODEL, DIVERSE, OBJECTIVES
from bftrainer_papers.bftrainer.solving import cell_name
from bftrainer_papers.report import change
from bftrainer_replay.analysis.characterize import Characteristics
from bftrainer_replay.analysis.fragments import followed_by_a_leave
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.sweep.cell import Cell
from bftrainer_replay.workload.curves import TABLE_2

Measured = dict[str, float]
SUMMIT_NODES = 4608
NAN = float("nan")


def measure(found: ExperimentResults) -> Measured:
    """Every claim that the runs say something about."""
    return {key: value for part in _PARTS for key, value in part(found).items()}


def _log(found: ExperimentResults) -> Measured:
    all_, week = found.machine, found.first_week
    measured = {
        "events": all_.events,
        "joins": all_.joins,
        "leaves": all_.leaves,
        "node-hours": all_.node_hours,
        "eq-nodes": all_.eq_nodes,
        "share": 100 * all_.idle_share,
        "share-4608": 100 * all_.eq_nodes / SUMMIT_NODES,
        "slice-share": 100 * found.slice_week.idle_share,
        "slice-events": found.slice_week.per_hour(found.slice_week.events),
    }
    if week.fragment_lengths is not None and all_.fragment_lengths is not None:
        measured["short-week"] = 100 * week.fragment_lengths.short_share
        measured["short-time"] = 100 * week.fragment_lengths.short_node_time_share
        measured["short-all"] = 100 * all_.fragment_lengths.short_share
    for system, told in {"Summit": all_, **found.others}.items():
        measured |= {f"table-1-{system}-{column}": value for column, value in table_1(told).items()}
    return {key: float(value) for key, value in measured.items()}


def table_1(told: Characteristics) -> dict[str, float]:
    """The columns of Table 1."""
    return {
        "INC/h": told.per_hour(told.increases),
        "DEC/h": told.per_hour(told.decreases),
        "ratio": 100 * told.idle_share,
        "eq-nodes": told.eq_nodes,
    }


def _curves(found: ExperimentResults) -> Measured:
    curves = {a.trainer.model: a.trainer.curve for (_, name, _), many in found.inputs.arrivals.items() if name != DIVERSE
              for a in many[:1]}  # fmt: skip
    differences = [
        abs(curves[model].at(n) - curve.at(n)) / 1000
        for model, curve in TABLE_2.items()
        if model in curves
        for n in curve.nodes
        if n <= curves[model].nodes[-1]
    ]
    return {"table-2": max(differences, default=NAN)}


def _solving(found: ExperimentResults) -> Measured:
    measured = {}
    for name, cells in found.times.items():
        took = np.concatenate([np.array(times) for times in cells.values()])
        measured[f"solve-{name}"] = 100 * float(np.mean(took < 1.0))
    if "highs" in found.times:
        largest = cell_name(found.grid.solver_trainers[-1], found.grid.solver_nodes[-1])
        measured["solve-largest"] = float(np.median(found.times["highs"][largest]))
    return measured


def cost_per_event(found: ExperimentResults, cell: Cell) -> float:
    """Million samples given up for planned rescales, per event of the pool (Fig. 7b)."""
    row = found.rows[cell]
    return float(row.result["rescale_cost_samples"]) / 1e6 / max(int(row.result["decisions"]), 1)


def preempted_since(window: LogWindow, span_s: float) -> float:
    """Percent of the preemptions that come within the span after the event before them: the other reading of Fig. 7a."""
    at_s = np.array([window.start_s, *(event.at_s for event in window.events)])
    left = np.array([bool(event.change.left) for event in window.events], dtype=bool)
    since_s = np.diff(at_s)[left]
    return 100 * float(np.mean(since_s <= span_s)) if len(since_s) else NAN


def preempted_within(window: LogWindow, spans_s: Sequence[float]) -> list[tuple[float, float]]:
    """Percent of the pool's changes that a leave follows within each span (Fig. 7a)."""
    return [(span_s, 100 * followed_by_a_leave(window, span_s)) for span_s in spans_s]


def _forward(found: ExperimentResults) -> Measured:
    plan, week = found.plan, found.week
    first, last = plan.forward[0], plan.forward[-1]
    best = max(found.u(cell) for cell in plan.forward)
    spans = [float(s) for s in range(10, 3601, 5)]
    equal = cost_per_event(found, plan.equal)
    return {
        "hpo-hours": found.hours_until_done(plan.until_done[BASE_MODEL]),
        "preempted-170": 100 * followed_by_a_leave(week, 170.0),
        "preempted-90": next((s for s, share in preempted_within(week, spans) if share >= 90), NAN),
        "preempted-since": preempted_since(week, 170.0),
        "preempted-machine": 100 * followed_by_a_leave(found.inputs.windows["machine"], 170.0),
        "cost-rises": change(cost_per_event(found, last), cost_per_event(found, first)),
        "cost-equal-share": equal,
        "cost-ratio": equal / (cost_per_event(found, first) or NAN),
        "roi-falls": change(found.rows[last].return_on_rescaling or NAN, found.rows[first].return_on_rescaling or NAN),
        "outcome-flat": change(found.rows[last].samples, found.rows[plan.base].samples),
        "u-equal-share": found.u(plan.equal),
        "u-120": found.u(plan.base),
        "u-rises": found.u(plan.base) - found.u(first),
        "u-saturates": next((c.forward_s for c in plan.forward if found.u(c) >= 0.99 * best), NAN),
    }


def _over_time(found: ExperimentResults) -> Measured:
    milp, equal = (100 * found.u_by_bin[cell.policy] for cell in (found.plan.base, found.plan.equal))
    mine, other = (found.rows[cell].result for cell in (found.plan.base, found.plan.equal))
    told = found.speedups
    return {
        "u-bins": float(milp.mean()),
        "u-bins-best": float(np.sort(milp)[-3:][0]),
        "u-bins-gain": max(
            (change(m, e) for m, e in zip(milp.tolist(), equal.tolist(), strict=True) if e > 0), default=NAN
        ),
        "preemption-cost": change(float(mine["preemption_cost_samples"]), float(other["preemption_cost_samples"])),
        "rescale-cost": change(float(mine["rescale_cost_samples"]), float(other["rescale_cost_samples"])),
        "worse": told.worse,
        "better-2": told.better_2,
        "better-5": told.better_5,
        "better-2-trained": told.of_trained_2,
        "better-5-trained": told.of_trained_5,
        "better-mean": told.mean,
    }


def _diverse(found: ExperimentResults) -> Measured:
    plan = found.plan
    fair = next(cell for cell in plan.parallel["scaling-efficiency"] if cell.max_parallel == 10)
    hours = [found.runtime_h(fair, model) for model in RUNTIMES["scaling-efficiency"]]
    pairs = zip(*(plan.objectives[objective] for objective in OBJECTIVES), strict=True)
    measured = {
        "fair-spread": max(hours) / min(hours),
        "u-fair": min(found.u(efficient) - found.u(plain) for plain, efficient in pairs),
    }
    for group, tail in ((plan.parallel, ""), (plan.parallel_short, "-10")):
        ratios = [found.runtime_h(cell, "densenet") / found.runtime_h(cell, "alexnet") for cell in group["throughput"]]
        measured |= {f"densenet-mean{tail}": float(np.mean(ratios)), f"densenet-most{tail}": float(np.max(ratios))}
    return measured


def _parallel(found: ExperimentResults) -> Measured:
    fair = found.plan.parallel["scaling-efficiency"]
    by_count = {cell.max_parallel: cell for cell in fair}
    return {
        "u-parallel": found.u_until_done(fair[-1]) - found.u_until_done(fair[0]),
        "unoccupied-5": found.unoccupied(by_count[5]),
        "unoccupied-10": found.unoccupied(by_count[10]),
        "unoccupied-more": max(found.unoccupied(cell) for cell in fair if cell.max_parallel > 10),
        **_over_parallel(found, found.plan.parallel, ""),
        **_over_parallel(found, found.plan.parallel_short, "-10"),
    }


def _over_parallel(found: ExperimentResults, group: Mapping[str, Sequence[Cell]], tail: str) -> Measured:
    """Fig. 14 and Tables 3 and 4 at one T_fwd."""
    measured = {}
    for objective, name in (("scaling-efficiency", ""), ("throughput", "-throughput")):
        first, *_, last = group[objective]
        measured[f"integral{name}{tail}"] = change(found.integral_h(last), found.integral_h(first))
        measured[f"runtime{name}{tail}"] = change(found.runtime_h(last), found.runtime_h(first))
    for number, objective in ((3, "throughput"), (4, "scaling-efficiency")):
        cells = runtime_cells(found, objective, group)
        paper, ours = (np.array(x) for x in zip(*((p, o) for _, _, p, o in cells), strict=True))
        near = [abs(p - o) <= runtime_tolerance_h(p) for p, o in zip(paper, ours, strict=True)]
        measured[f"table-{number}{tail}"] = 100 * float(np.mean(near))
        measured[f"table-{number}-order{tail}"] = rank_correlation(paper, ours)
    first, *_, last = group["scaling-efficiency"]
    for model in ("alexnet", "vgg16"):
        measured[f"{model}-grows{tail}"] = found.runtime_h(last, model) / found.runtime_h(first, model)
    return measured


def _models(found: ExperimentResults) -> Measured:
    u = {model: found.u(cell) for model, cell in found.plan.models.items()}
    costs, alexnet = found.plan.costs, found.plan.until_done["alexnet"]
    hours = found.hours_until_done(alexnet)
    lost = [lost_share(found, cell) for cell in (costs[0], costs[-1])]
    return {
        "alexnet-hours": hours,
        "alexnet-dedicated": hours * found.u_until_done(alexnet) / 100,
        **{f"u-{model}-all": found.u(cell) for model, cell in found.plan.models_all.items()},
        "u-alexnet": u["alexnet"],
        "u-densenet": u["densenet"],
        "u-least": min(u.values()),
        "u-dear": found.u(costs[-1]) - found.u(costs[0]),
        "u-dear-up": found.u(found.plan.dear_up) - found.u(costs[0]),
        "sublinear": change(lost[1], lost[0] * costs[-1].cost_factor / costs[0].cost_factor),
    }


def lost_share(found: ExperimentResults, cell: Cell) -> float:
    """Of all that could have been trained on the nodes held, what rescaling and preemption took."""
    result = found.rows[cell].result
    lost = float(result["rescale_cost_samples"]) + float(result["preemption_cost_samples"])
    return lost / ((found.rows[cell].samples + lost) or NAN)


def _replayer(found: ExperimentResults) -> Measured:
    plan, base = found.plan, found.rows[found.plan.base]
    trainers = found.inputs.arrivals["whole", DIVERSE, 0]
    gaps = np.diff([arrival.at_s for arrival in trainers])
    at_start = [
        a.trainer for a in found.inputs.arrivals_of(plan.base)[: plan.base.max_parallel] if a.at_s <= found.week.start_s
    ]
    paid = sum(trainer.scale_up_s * max(trainer.curve.per_s) for trainer in at_start)
    told = {}
    if found.told_trainers and gaps.sum() > 0:
        told = {"poisson": float(gaps.std() / gaps.mean()), "gap": float(gaps.mean())}
    return told | {
        "all-events": found.u(plan.all_events) - found.u(plan.base),
        "stall": found.u(plan.all_events) - found.u(plan.stall),
        "random-map": 100 * paid / (base.samples or NAN),
        "big-m-loss": found.big_m.loss,
        "big-m-binds": found.big_m.binds,
        "big-m-u": 100 * (found.big_m.samples - base.samples) / (base.static or NAN),
    }


_PARTS: tuple[Callable[[ExperimentResults], Measured], ...] = (
    _log, _curves, _solving, _forward, _over_time, _diverse, _parallel, _models, _replayer,
)  # fmt: skip
