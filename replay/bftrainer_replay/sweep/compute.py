"""Computes one task. The result is the same in every process, on every machine, in any order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bftrainer.decide.allocation.chain import build_allocator
from bftrainer.decide.domain.ports import Policy
from bftrainer.decide.policies.settings import PolicySettings
from bftrainer.plugins import build_policy, find_objective
from bftrainer_replay.analysis.window_fragments import pool_sizes_of
from bftrainer_replay.logs.model import of_nodes
from bftrainer_replay.simulation.bounds import Bounds
from bftrainer_replay.simulation.learned_curves import without_curves
from bftrainer_replay.simulation.play import ReplayOutcome, Scenario, play
from bftrainer_replay.simulation.replay_world import Arrival
from bftrainer_replay.simulation.summary import summarize
from bftrainer_replay.sweep.cell import POOL, Cell, Inputs, Task
from bftrainer_replay.sweep.detail import detail_of
from bftrainer_replay.sweep.result_files import Result
from bftrainer_replay.sweep.results import SUMMED, added_up
from bftrainer_replay.workload.workload import one_node_pool

_SOLVE_S = 10.0


def compute(task: Task, inputs: Inputs) -> Result:
    """Return the result of a task as a JSON object; with ``split``, the sum over the pilots.

    ``split`` divides nodes and trainers among several pilots, each of which is a replay.
    """
    cell = task.cell
    scenario = scenario_of(cell, inputs)
    if task.kind == POOL:
        return {"pool_node_h": _pool_node_h(scenario, policy_of(cell))}
    if cell.split == 1:
        result, _ = replayed(cell, scenario)
        return result
    parts = []
    for number in range(cell.split):
        result, _ = replayed(cell, _part_of_pilot(scenario, number, cell.split))
        parts.append(result)
    # The pilots run at the same time: the span is not a sum.
    return {**added_up(parts), "span_h": parts[0]["span_h"]}


def _part_of_pilot(whole: Scenario, number: int, split: int) -> Scenario:
    """Return the scenario of one of ``split`` pilots: every so-many-th node and trainer.

    P_jmax, the limit of concurrent trainers, is divided as well.
    """
    names = {name for event in whole.window.events for name in event.change.joined}
    window = of_nodes(whole.window, sorted(names | whole.window.initial)[number::split])
    places = whole.max_parallel
    return replace(
        whole,
        window=window,
        arrivals=whole.arrivals[number::split],
        max_parallel=None if places is None else max(round(places / split), 1),
    )


def replayed(cell: Cell, whole: Scenario) -> tuple[dict[str, object], ReplayOutcome]:
    """Replay a scenario under the cell's policy; return the result to store, and the outcome.

    The outcome has journal entries if the cell has ``detail``.
    """
    outcome = play(whole, policy_of(cell), keep_entries=cell.detail)
    summary = summarize(cell.policy, whole, outcome, Bounds())
    hours = [
        (run.finished_s - run.started_s) / 3600
        for run in outcome.runs
        if run.finished_s is not None and run.started_s is not None
    ]
    result: dict[str, object] = {
        name: getattr(summary, name) for name in SUMMED if name != "span_h"
    }
    result |= {
        "span_h": whole.window.service_s / 3600,
        "work_ran_out_at": summary.work_ran_out_at,
        "mean_runtime_h": float(np.mean(hours)) if hours else None,
        "wall_s": outcome.wall_s,
    }
    if cell.detail:
        result["detail"] = detail_of(whole, outcome)
    return result, outcome


def _pool_node_h(whole: Scenario, policy: Policy) -> float:
    """Return the work, in one-node hours, of a pool of tasks that gets all nodes the trainings
    leave.

    Its tasks are independent, take one node each, and take the trainings' mean time to start.
    """
    largest = max(int(pool_sizes_of(whole.window).nodes.max(initial=0)), 1)
    start_s = float(
        np.mean([whole.cost_model.costs_of(arrival.trainer).growth_s for arrival in whole.arrivals])
    )
    pool = Arrival(whole.window.start_s, one_node_pool("pool", largest, start_s))
    outcome = play(replace(whole, arrivals=(*whole.arrivals, pool)), policy, keep_entries=False)
    return next(run.samples for run in outcome.runs if run.trainer.id == "pool") / 3600


def scenario_of(cell: Cell, inputs: Inputs) -> Scenario:
    """Return the scenario of a cell, with its settings applied to the trainers.

    ``cost_factor`` multiplies their rescale costs; with ``curves`` to be learned, the policy is
    told no curves.
    """
    arrivals = inputs.arrivals_of(cell)
    if cell.cost_factor != 1.0:
        arrivals = tuple(_with_costs(arrival, cell.cost_factor) for arrival in arrivals)
    if cell.curves == "learn":
        arrivals = without_curves(arrivals)
    return Scenario(
        window=inputs.windows[cell.log],
        arrivals=arrivals,
        # In a cell, 0 stands for no value.
        max_parallel=cell.max_parallel or None,
        cost_model=cell.cost_model,
        decide_on=cell.decide_on,
        checkpoint_s=cell.checkpoint_s or None,
        noise=cell.noise,
        noise_seed=cell.seed,
    )


def policy_of(cell: Cell) -> Policy:
    """Build the policy of a cell. Raises :class:`~bftrainer.errors.UnknownNameError` if there is no
    policy or objective of the cell's name.
    """
    allocator = build_allocator("exact", _SOLVE_S)
    return build_policy(
        cell.policy,
        PolicySettings(allocator, find_objective(cell.objective), cell.forward_s, cell.seed),
    )


def _with_costs(arrival: Arrival, factor: float) -> Arrival:
    """Return the arrival with all rescale costs of its trainer multiplied by ``factor``."""
    trainer = arrival.trainer
    costly_trainer = replace(
        trainer,
        scale_up_s=factor * trainer.scale_up_s,
        scale_down_s=factor * trainer.scale_down_s,
        start_s=None if trainer.start_s is None else factor * trainer.start_s,
    )
    return replace(arrival, trainer=costly_trainer)
