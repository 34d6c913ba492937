"""Computes one task. The result is the same in every process, on every machine, in any order."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from bftrainer.allocation.chain import build_allocator
from bftrainer.domain.ports import Policy
from bftrainer.plugins import build_policy, find_objective
from bftrainer.policies.settings import PolicySettings
from bftrainer_replay.logs.event_log import format_time
from bftrainer_replay.simulation.bins import bin_edges
from bftrainer_replay.simulation.bounds import Bounds, start_bound, without_costs
from bftrainer_replay.simulation.play import (
    ReplayOutcome,
    Scenario,
    play,
    static_outcome,
    static_outcomes,
)
from bftrainer_replay.simulation.summary import summarize
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
    outcome = play(whole, policy_of(cell), keep_entries=cell.detail)
    summary = summarize(cell.policy, whole, outcome, 0.0, Bounds(0.0))
    result: dict[str, object] = {name: getattr(summary, name) for name in SUMMED if name != "span_h"}
    result |= {
        "span_h": (whole.window.span_s - whole.window.unknown_s) / 3600,
        "pool_events": 1 + len(whole.window.events),
        "work_ran_out_at": summary.work_ran_out_at,
        "all_done_s": _all_done_s(outcome),
        "longest_wait_h": max((r.longest_wait_s(whole.window.end_s) for r in outcome.runs), default=0.0) / 3600,
        **_times(whole, outcome),
        **_runtimes(outcome),
        "timing": {
            "cpu_s": time.process_time() - began_s,
            "wall_s": outcome.wall_s,
        },
    }
    if cell.detail:
        result["detail"] = detail_of(whole, outcome)
    return result


def scenario_of(cell: Cell, inputs: Inputs) -> Scenario:
    """The scenario of a cell."""
    arrivals = inputs.arrivals_of(cell)
    if cell.cost_factor != 1.0:
        arrivals = tuple(_with_costs(arrival, cell.cost_factor) for arrival in arrivals)
    return Scenario(inputs.windows[cell.log], arrivals, cell.max_parallel or None, cell.cost_model, cell.decide_on)


def policy_of(cell: Cell) -> Policy:
    """The policy of a cell. Raises :class:`~bftrainer.errors.UnknownNameError` for its names."""
    allocator = build_allocator("exact", _SOLVE_S)
    return build_policy(
        cell.policy, PolicySettings(allocator, find_objective(cell.objective), cell.forward_s, cell.seed)
    )


def _with_costs(arrival: Arrival, factor: float) -> Arrival:
    own = arrival.trainer
    start_s = None if own.start_s is None else factor * own.start_s
    up_s, down_s = factor * own.scale_up_s, factor * own.scale_down_s
    trainer = replace(own, scale_up_s=up_s, scale_down_s=down_s, start_s=start_s)
    return replace(arrival, trainer=trainer)


def _all_done_s(outcome: ReplayOutcome) -> float | None:
    """When the last trainer ended; None if any has not."""
    ends = [run.finished_s for run in outcome.runs]
    return None if None in ends else max((end for end in ends if end is not None), default=None)


def _times(whole: Scenario, outcome: ReplayOutcome) -> dict[str, object]:
    """Hours from submission to the end, and their fluid bound."""
    done = time_to_done(whole.window, whole.arrivals, outcome.runs)
    bound = fluid_bound(whole.window, whole.arrivals)
    return {
        "mean_done_h": done.mean_h,
        "p95_done_h": done.p95_h,
        "last_done_h": done.last_h,
        "bound_mean_done_h": None if bound is None else bound.mean_h,
        "bound_last_done_h": None if bound is None else bound.last_h,
    }


def _runtimes(outcome: ReplayOutcome) -> dict[str, object]:
    """Mean hours from first start to end, and from admission to end, of the trainers that ended: overall and by model.

    The time from admission is the runtime of the paper's Tables 3 and 4, as the authors' replayer measures it.
    """
    hours: dict[str, list[float]] = {}
    served: dict[str, list[float]] = {}
    samples: dict[str, float] = {}
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
