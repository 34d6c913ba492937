"""Computes one task. The result is the same in every process, on every machine, in any order."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bftrainer.allocation.chain import build_allocator
from bftrainer.domain.events import PoolChanged
from bftrainer.domain.ports import Policy
from bftrainer.plugins import build_policy, find_objective
from bftrainer.policies.settings import PolicySettings
from bftrainer_replay.logs.event_log import format_time
from bftrainer_replay.logs.model import LogWindow, PoolEvent
from bftrainer_replay.logs.node_list import spread
from bftrainer_replay.simulation.bins import bin_edges
from bftrainer_replay.simulation.bounds import Bounds, start_bound, without_costs
from bftrainer_replay.simulation.curve_error import with_curve_error
from bftrainer_replay.simulation.play import (
    ReplayOutcome,
    Scenario,
    play,
    static_outcome,
    static_outcomes,
)
from bftrainer_replay.simulation.summary import Summary, summarize
from bftrainer_replay.simulation.time_to_done import fluid_bound, time_to_done
from bftrainer_replay.simulation.world import Arrival
from bftrainer_replay.sweep.cell import Cell, Inputs, Task, TaskKind
from bftrainer_replay.sweep.detail import detail_of
from bftrainer_replay.sweep.results import SUMMED
from bftrainer_replay.sweep.store import Result

_SOLVE_S = 10.0


def compute(task: Task, inputs: Inputs) -> Result:
    """The result of a task."""
    cell = task.cell
    whole = scenario_of(cell, inputs)
    if task.kind is TaskKind.STATIC:
        return {"samples": static_outcome(whole)}
    if task.kind is TaskKind.STATIC_BINS:
        return {"samples": static_outcomes(whole, bin_edges(whole.window).tolist())}
    if task.kind is TaskKind.BOUND:
        found = without_costs(whole)
        return {
            "samples": found.no_cost,
            "work_ran_out_at": None if found.ran_out_s is None else format_time(found.ran_out_s),
        }
    if task.kind is TaskKind.START_BOUND:
        return {"samples": start_bound(whole)}
    began_s = time.process_time()
    parts = _split(whole, cell.split)
    outcomes = [play(part, policy_of(cell), keep_entries=cell.detail) for part in parts]
    summaries = [summarize(cell.policy, s, o, 0.0, Bounds(0.0)) for s, o in zip(parts, outcomes, strict=True)]
    result: dict[str, object] = {name: sum(getattr(s, name) for s in summaries) for name in SUMMED if name != "span_h"}
    ended = [s.work_ran_out_at for s in summaries if s.work_ran_out_at is not None]
    result |= {
        "span_h": (whole.window.span_s - whole.window.unknown_s) / 3600,
        "pool_events": 1 + len(whole.window.events),
        "work_ran_out_at": min(ended) if ended else None,
        "all_done_s": _all_done_s(outcomes),
        "longest_wait_h": max((r.longest_wait_s(whole.window.end_s) for o in outcomes for r in o.runs), default=0.0)
        / 3600,
        **_times(whole, outcomes),
        **_runtimes(outcomes),
        "timing": {"cpu_s": time.process_time() - began_s, **_timing(summaries, outcomes)},
    }
    if cell.detail:
        result["detail"] = detail_of(parts[0], outcomes[0])
    return result


def scenario_of(cell: Cell, inputs: Inputs) -> Scenario:
    """The scenario of a cell, before the cluster is split."""
    arrivals = inputs.arrivals_of(cell)
    if cell.cost_factor != 1.0:
        arrivals = tuple(_with_costs(arrival, cell.cost_factor) for arrival in arrivals)
    arrivals = with_curve_error(arrivals, cell.knows, cell.seed, by_model=cell.lessons == "model")
    return Scenario(
        inputs.windows[cell.log], arrivals, cell.max_parallel or None, cell.cost_model, cell.decide_on, noise=cell.noise,
        noise_seed=cell.seed, checkpoint_s=cell.checkpoint_s,
    )  # fmt: skip


def policy_of(cell: Cell) -> Policy:
    """The policy of a cell. Raises :class:`~bftrainer.errors.UnknownNameError` for its names."""
    allocator = build_allocator(cell.solver, _SOLVE_S)
    return build_policy(
        cell.policy, PolicySettings(allocator, find_objective(cell.objective), cell.forward_s, cell.seed)
    )


def _with_costs(arrival: Arrival, factor: float) -> Arrival:
    own = arrival.trainer
    start_s = None if own.start_s is None else factor * own.start_s
    up_s, down_s = factor * own.scale_up_s, factor * own.scale_down_s
    trainer = replace(own, scale_up_s=up_s, scale_down_s=down_s, start_s=start_s)
    return replace(arrival, trainer=trainer)


def _split(whole: Scenario, parts: int) -> list[Scenario]:
    """Logical clusters: nodes and trainers are dealt out in turn, P_jmax is divided (rounded up)."""
    if parts == 1:
        return [whole]
    window = whole.window
    seen = sorted(window.initial.union(*(event.change.joined for event in window.events)))
    order = spread(tuple(seen), len(seen))
    return [
        replace(
            whole,
            window=_only(window, frozenset(order[i::parts]), parts),
            arrivals=whole.arrivals[i::parts],
            max_parallel=None if whole.max_parallel is None else -(-whole.max_parallel // parts),
        )
        for i in range(parts)
    ]


def _only(window: LogWindow, nodes: frozenset[str], parts: int) -> LogWindow:
    events = []
    for event in window.events:
        joined, left = event.change.joined & nodes, event.change.left & nodes
        if joined or left:
            events.append(PoolEvent(event.at_s, PoolChanged(joined, left)))
    size = -(-window.machine_nodes // parts)
    return replace(window, initial=window.initial & nodes, events=tuple(events), machine_nodes=size, queue=None)


def _all_done_s(outcomes: Sequence[ReplayOutcome]) -> float | None:
    """When the last trainer ended; None if any has not."""
    ends = [run.finished_s for outcome in outcomes for run in outcome.runs]
    return None if None in ends else max((end for end in ends if end is not None), default=None)


def _times(whole: Scenario, outcomes: Sequence[ReplayOutcome]) -> dict[str, object]:
    """Hours from submission to the end, and their fluid bound."""
    done = time_to_done(whole.window, whole.arrivals, [run for outcome in outcomes for run in outcome.runs])
    bound = fluid_bound(whole.window, whole.arrivals)
    return {
        "mean_done_h": done.mean_h,
        "p95_done_h": done.p95_h,
        "last_done_h": done.last_h,
        "bound_mean_done_h": None if bound is None else bound.mean_h,
        "bound_last_done_h": None if bound is None else bound.last_h,
    }


def _runtimes(outcomes: Sequence[ReplayOutcome]) -> dict[str, object]:
    """Mean hours from first start to end, and from admission to end, of the trainers that ended: overall and by model.

    The time from admission is the runtime of the paper's Tables 3 and 4, as the authors' replayer measures it.
    """
    hours: dict[str, list[float]] = {}
    served: dict[str, list[float]] = {}
    samples: dict[str, float] = {}
    for outcome in outcomes:
        for run in outcome.runs:
            model = run.trainer.model
            samples[model] = samples.get(model, 0.0) + run.samples
            if run.finished_s is not None and run.started_s is not None and run.admitted_s is not None:
                hours.setdefault(model, []).append((run.finished_s - run.started_s) / 3600)
                served.setdefault(model, []).append((run.finished_s - run.admitted_s) / 3600)
    ended, all_served = ([hour for each in found.values() for hour in each] for found in (hours, served))
    models = {
        model: {
            "completed": len(hours.get(model, ())),
            "mean_runtime_h": float(np.mean(hours[model])) if model in hours else None,
            "mean_served_h": float(np.mean(served[model])) if model in served else None,
            "samples": samples[model],
        }
        for model in sorted(samples)
    }
    return {
        "mean_runtime_h": float(np.mean(ended)) if ended else None,
        "mean_served_h": float(np.mean(all_served)) if all_served else None,
        "models": models,
    }


def _timing(summaries: Sequence[Summary], outcomes: Sequence[ReplayOutcome]) -> dict[str, float]:
    return {
        "wall_s": sum(outcome.wall_s for outcome in outcomes),
        "decision_p50_s": max(s.decision_s.p50 for s in summaries),
        "decision_p99_s": max(s.decision_s.p99 for s in summaries),
    }
