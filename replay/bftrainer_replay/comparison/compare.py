"""Policies on one log and workload, with the same denominator of U."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

from bftrainer.decide.domain.ports import Policy
from bftrainer.decide.domain.sizes import largest_legal, sizes_of
from bftrainer.errors import UserError
from bftrainer_replay.simulation.bounds import Bounds
from bftrainer_replay.simulation.completion import Completion, completion
from bftrainer_replay.simulation.losses import FAMILIES
from bftrainer_replay.simulation.play import OnTime, Scenario, play
from bftrainer_replay.simulation.replay_world import Arrival
from bftrainer_replay.simulation.summary import Summary, summarize


@dataclass(frozen=True, slots=True)
class RankedPolicy:
    """One policy's results; ``felt`` are completion times and fairness.

    ``longest_wait_s`` is the longest time of any trainer without nodes, from its admission on.
    """

    summary: Summary
    felt: Completion
    longest_wait_s: float

    @property
    def name(self) -> str:
        """The policy as named on the command line."""
        return self.summary.policy

    def as_dict(self) -> dict[str, object]:
        """Return the results as a JSON object; NaN becomes null."""
        felt = {}
        for name, value in asdict(self.felt).items():
            felt[name] = None if value != value else value
        return {**asdict(self.summary), "completion": felt, "longest_wait_s": self.longest_wait_s}


def enriched(arrivals: Sequence[Arrival], requested: int) -> tuple[Arrival, ...]:
    """Give trainers a requested size and a loss curve, which only some policies use and a trainer
    table does not have.

    A trainer without a request gets the largest legal size up to ``requested`` nodes, or else its
    smallest size. Its loss curve is one of the families in ``simulation/losses.py``, chosen by the
    trainer's name, the same on every machine.
    """
    families = sorted(FAMILIES)
    made = []
    for arrival in arrivals:
        trainer = arrival.trainer
        size = trainer.requested_nodes or largest_legal(trainer, requested) or sizes_of(trainer)[0]
        digest = int(hashlib.sha256(trainer.id.encode()).hexdigest()[:8], 16)
        complete = replace(trainer, requested_nodes=size, reports_loss=True)
        losses = arrival.losses or FAMILIES[families[digest % len(families)]]
        made.append(replace(arrival, trainer=complete, losses=losses))
    return tuple(made)


def rank_policy(
    name: str, scenario: Scenario, policy: Policy, bounds: Bounds, on_time: OnTime | None = None
) -> RankedPolicy:
    """Replay a scenario under one policy; return the results by which it is ranked."""
    outcome = play(scenario, policy, on_time=on_time, keep_entries=False)
    trained = [run for run in outcome.runs if not run.trainer.fill]
    return RankedPolicy(
        summarize(name, scenario, outcome, bounds),
        completion(scenario.arrivals, trained),
        max((run.longest_wait_s(scenario.window.end_s) for run in trained), default=0.0),
    )


def ranked(results: Sequence[RankedPolicy]) -> tuple[RankedPolicy, ...]:
    """Sort by outcome in one-node hours, then by mean completion time."""
    if not results:
        raise UserError("no policy to compare: none can run these trainers")
    return tuple(
        sorted(
            results, key=lambda p: (-p.summary.outcome_one_node_h, p.felt.mean_s, p.summary.policy)
        )
    )


def lost_share(row: RankedPolicy, lost_samples: float) -> float | None:
    """Return ``lost_samples`` as a share of the possible samples (trained or lost); None if there
    are none.
    """
    s = row.summary
    whole = s.outcome_samples + s.preemption_cost_samples + s.rescale_cost_samples
    return lost_samples / whole if whole else None


def _hours(seconds: float) -> str:
    return "-" if seconds != seconds else f"{seconds / 3600:,.2f}"


def _number(value: float) -> str:
    return "-" if value != value else f"{value:.2f}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def columns(ranking: Sequence[RankedPolicy]) -> Sequence[tuple[str, Callable[[RankedPolicy], str]]]:
    """The columns that have a value; that of pools, and U, may have none."""
    shown = []
    for heading, cell in COLUMNS:
        if {cell(row) for row in ranking} != {"-"}:
            shown.append((heading, cell))
    return shown


COLUMNS: tuple[tuple[str, Callable[[RankedPolicy], str]], ...] = (
    ("work", lambda p: _percent(p.summary.work_share)),
    ("pools", lambda p: _percent(p.summary.pool_share)),
    ("plain one-node jobs", lambda p: _percent(p.summary.plain_share)),
    ("done", lambda p: f"{p.felt.completed:,}"),
    ("mean h", lambda p: p.summary.done.text(p.summary.done.mean_h)),
    ("p95 h", lambda p: p.summary.done.text(p.summary.done.p95_h)),
    ("last h", lambda p: p.summary.done.text(p.summary.done.last_h)),
    ("longest wait h", lambda p: _hours(p.longest_wait_s)),
    ("one-node hours", lambda p: f"{p.summary.outcome_one_node_h:,.0f}"),
    ("U", lambda p: _percent(p.summary.efficiency)),
    ("queueing h", lambda p: _hours(p.felt.queueing_s)),
    ("Jain", lambda p: _number(p.felt.jain)),
    ("worst slowdown", lambda p: _number(p.felt.worst_slowdown)),
    ("lost to preemption", lambda p: _percent(lost_share(p, p.summary.preemption_cost_samples))),
    ("lost to rescaling", lambda p: _percent(lost_share(p, p.summary.rescale_cost_samples))),
    ("p50 ms", lambda p: f"{1e3 * p.summary.decision_s.p50:.2f}"),
    ("p99 ms", lambda p: f"{1e3 * p.summary.decision_s.p99:.2f}"),
)
"""Columns of the ranking: heading and text. Work is in one-node hours per idle node-hour; mean, p95
and last are times from submission until a trainer is done; the longest wait is without nodes.
Milliseconds are of one decision, including the solver, on this machine.
"""
