"""The figures of one replay, as in ``summary.json`` and the output of ``--json``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bftrainer.decide.allocation.objectives import one_node_rate
from bftrainer.decide.domain.model import Trainer
from bftrainer_replay.analysis.plain_jobs import plain_jobs
from bftrainer_replay.analysis.window_fragments import pool_sizes_of
from bftrainer_replay.logs.event_log import format_time
from bftrainer_replay.simulation.bounds import Bounds
from bftrainer_replay.simulation.play import (
    ReplayOutcome,
    Scenario,
    equivalent_nodes,
    ran_out_s,
    trainings_of,
)
from bftrainer_replay.simulation.time_to_done import TimeToDone, time_to_done


@dataclass(frozen=True, slots=True)
class Latency:
    """Wall-clock seconds per decision of the policy, solver included."""

    p50: float
    p99: float
    max: float


@dataclass(frozen=True, slots=True)
class Summary:
    """docs/concepts.md explains every figure; shares are fractions (0.834), not percent.

    ``work_share`` is the trainings' outcome in one-node hours per idle node-hour, ``pool_share``
    that of pools that fill, and ``plain_share`` that of plain one-node jobs on all idle nodes (None
    without a pool). ``done`` are the times from submission to the end.
    """

    policy: str
    work_share: float | None
    pool_share: float | None
    plain_share: float | None
    done: TimeToDone
    efficiency: float | None
    no_cost_bound: float | None
    start_bound: float | None
    resource_integral_node_h: float
    eq_nodes: float
    pool_events: int
    decisions: int
    outcome_samples: float
    static_outcome_samples: float
    outcome_one_node_h: float
    rescale_cost_samples: float
    preemption_cost_samples: float
    preemptions: int
    rescales: int
    unused_node_h: float
    completed: int
    submitted: int
    work_ran_out_at: str | None
    bound_work_ran_out_at: str | None
    decision_s: Latency
    wall_s: float


def summarize(policy: str, scenario: Scenario, outcome: ReplayOutcome, bounds: Bounds) -> Summary:
    """Return all figures of a replay; U and the bounds are None if A_s (``bounds.static``) is 0.

    A_s is the samples on a constant number of nodes, to which these are relative.
    """
    static = bounds.static
    trainings = [run for run in outcome.runs if not run.trainer.fill]
    pools = [run for run in outcome.runs if run.trainer.fill]
    pool_h = sum(run.samples / run.trainer.curve.at(1) / 3600 for run in pools)
    used_node_s = sum(run.node_s for run in outcome.runs)
    integral_s = pool_sizes_of(scenario.window).node_s()
    integral_h = integral_s / 3600
    work_h = sum(run.samples / one_node_rate(run.trainer) / 3600 for run in trainings)
    return Summary(
        policy=policy,
        work_share=_ratio(work_h, integral_h),
        pool_share=_ratio(pool_h, integral_h) if pools else None,
        plain_share=_plain_share(scenario, pools[0].trainer) if pools else None,
        done=time_to_done(scenario.window, trainings_of(scenario).arrivals, trainings),
        efficiency=_ratio(outcome.totals.samples, static),
        no_cost_bound=_ratio(bounds.no_cost, static),
        start_bound=None if bounds.start is None else _ratio(bounds.start, static),
        resource_integral_node_h=integral_h,
        eq_nodes=equivalent_nodes(scenario.window),
        pool_events=1 + len(scenario.window.events),
        decisions=outcome.decisions,
        outcome_samples=outcome.totals.samples,
        static_outcome_samples=static,
        outcome_one_node_h=work_h,
        rescale_cost_samples=outcome.totals.lost_to_rescale,
        preemption_cost_samples=outcome.totals.lost_to_preemption,
        preemptions=sum(run.preemptions for run in trainings),
        rescales=sum(run.rescales for run in trainings),
        unused_node_h=(integral_s - used_node_s) / 3600,
        completed=sum(run.finished_s is not None for run in trainings),
        submitted=len(trainings),
        work_ran_out_at=_time_text(ran_out_s(outcome, scenario)),
        bound_work_ran_out_at=_time_text(bounds.ran_out_s),
        decision_s=_latency_of(outcome.decision_s),
        wall_s=outcome.wall_s,
    )


def _ratio(part: float, whole: float) -> float | None:
    """Divide ``part`` by ``whole``; None if there is nothing to divide by."""
    return part / whole if whole else None


def _plain_share(scenario: Scenario, pool: Trainer) -> float:
    """Return the share of the idle node-hours that plain one-node jobs would use, if they started
    as fast as this pool's tasks.
    """
    largest = max(pool_sizes_of(scenario.window).nodes.max(initial=0), 1)
    return plain_jobs(scenario.window, (largest,), pool.growth_s)[0].share


def _latency_of(decision_s: Sequence[float]) -> Latency:
    """Median, 99th percentile and maximum of the decisions' times; 0 without decisions."""
    times_s = np.array(decision_s or (0.0,))
    p50, p99, worst = (float(value) for value in np.percentile(times_s, (50, 99, 100)))
    return Latency(p50, p99, worst)


def _time_text(at_s: float | None) -> str | None:
    """A moment of the log as text."""
    return None if at_s is None else format_time(at_s)
