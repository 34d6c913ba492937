"""The figures of one replay, as in ``summary.json`` and the output of ``--json``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bftrainer.decide.allocation.objectives import one_node_rate
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
    """U and the bounds are None if A_s is 0."""
    static = bounds.static
    runs = [run for run in outcome.runs if not run.trainer.fill]
    pool_h = sum(
        run.samples / run.trainer.curve.at(1) / 3600 for run in outcome.runs if run.trainer.fill
    )
    pools = [run.trainer for run in outcome.runs if run.trainer.fill]
    most = max(pool_sizes_of(scenario.window).nodes.max(initial=0), 1) if pools else 1
    used_node_s = sum(run.node_s for run in outcome.runs)
    integral = pool_sizes_of(scenario.window).node_s()
    took = np.array(outcome.decision_s or (0.0,))
    p50, p99, worst = (float(x) for x in np.percentile(took, (50, 99, 100)))
    ended_s = ran_out_s(outcome, scenario)
    work_h = sum(run.samples / one_node_rate(run.trainer) / 3600 for run in runs)
    return Summary(
        policy=policy,
        work_share=work_h / (integral / 3600) if integral else None,
        pool_share=pool_h / (integral / 3600) if integral and pools else None,
        plain_share=plain_jobs(scenario.window, (most,), pools[0].growth_s)[0].share
        if pools
        else None,
        done=time_to_done(scenario.window, trainings_of(scenario).arrivals, runs),
        efficiency=outcome.totals.samples / static if static else None,
        no_cost_bound=bounds.no_cost / static if static else None,
        start_bound=bounds.start / static if static and bounds.start is not None else None,
        resource_integral_node_h=integral / 3600,
        eq_nodes=equivalent_nodes(scenario.window),
        pool_events=1 + len(scenario.window.events),
        decisions=outcome.decisions,
        outcome_samples=outcome.totals.samples,
        static_outcome_samples=static,
        outcome_one_node_h=work_h,
        rescale_cost_samples=outcome.totals.lost_to_rescale,
        preemption_cost_samples=outcome.totals.lost_to_preemption,
        preemptions=sum(run.preemptions for run in runs),
        rescales=sum(run.rescales for run in runs),
        unused_node_h=(integral - used_node_s) / 3600,
        completed=sum(run.finished_s is not None for run in runs),
        submitted=len(runs),
        work_ran_out_at=None if ended_s is None else format_time(ended_s),
        bound_work_ran_out_at=None if bounds.ran_out_s is None else format_time(bounds.ran_out_s),
        decision_s=Latency(p50, p99, worst),
        wall_s=outcome.wall_s,
    )
