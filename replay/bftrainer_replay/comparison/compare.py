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
    """One policy's results; ``user_view`` are completion times and fairness.

    ``longest_wait_s`` is the longest time of any trainer without nodes, from its admission on.
    """

    summary: Summary
    user_view: Completion
    longest_wait_s: float

    @property
    def name(self) -> str:
        """The policy as named on the command line."""
        return self.summary.policy

    def as_dict(self) -> dict[str, object]:
        """Return the results as a JSON object; NaN becomes null."""
        completion_values = {
            name: None if value != value else value  # only NaN differs from itself
            for name, value in asdict(self.user_view).items()
        }
        return {
            **asdict(self.summary),
            "completion": completion_values,
            "longest_wait_s": self.longest_wait_s,
        }


def with_sizes_and_losses(arrivals: Sequence[Arrival], requested: int) -> tuple[Arrival, ...]:
    """Return the arrivals with a requested size and a loss curve for each trainer.

    Only some policies use these, and a trainer table does not have them. A trainer without a
    request gets the largest legal size up to ``requested`` nodes, or else its smallest size. Its
    loss curve is one of the families in ``simulation/losses.py``, chosen by the trainer's name, the
    same on every machine.
    """
    families = sorted(FAMILIES)
    complete = []
    for arrival in arrivals:
        trainer = arrival.trainer
        size = trainer.requested_nodes or largest_legal(trainer, requested) or sizes_of(trainer)[0]
        digest = int(hashlib.sha256(trainer.id.encode()).hexdigest()[:8], 16)
        with_request = replace(trainer, requested_nodes=size, reports_loss=True)
        losses = arrival.losses or FAMILIES[families[digest % len(families)]]
        complete.append(replace(arrival, trainer=with_request, losses=losses))
    return tuple(complete)


def rank_policy(
    name: str, scenario: Scenario, policy: Policy, bounds: Bounds, on_time: OnTime | None = None
) -> RankedPolicy:
    """Return the results of a replay under one policy, by which it is ranked.

    Pools that fill idle nodes do not count for completion times and waits.
    """
    outcome = play(scenario, policy, on_time=on_time, keep_entries=False)
    training_runs = [run for run in outcome.runs if not run.trainer.fill]
    waits_s = (run.longest_wait_s(scenario.window.end_s) for run in training_runs)
    return RankedPolicy(
        summary=summarize(name, scenario, outcome, bounds),
        user_view=completion(scenario.arrivals, training_runs),
        longest_wait_s=max(waits_s, default=0.0),
    )


def ranked(results: Sequence[RankedPolicy]) -> tuple[RankedPolicy, ...]:
    """Return the policies in order of their outcome in one-node hours, then of their mean
    completion time. Raises :class:`UserError` if there is none.
    """
    if not results:
        raise UserError("no policy to compare: none can run these trainers")
    return tuple(
        sorted(
            results,
            key=lambda row: (
                -row.summary.outcome_one_node_h,
                row.user_view.mean_s,
                row.summary.policy,
            ),
        )
    )


def lost_share(row: RankedPolicy, lost_samples: float) -> float | None:
    """Return ``lost_samples`` as a share of the possible samples; None if no sample was possible.

    Possible is what was trained or lost to preemptions and rescales.
    """
    summary = row.summary
    possible = (
        summary.outcome_samples + summary.preemption_cost_samples + summary.rescale_cost_samples
    )
    return lost_samples / possible if possible else None


def _hours_text(seconds: float) -> str:
    return "-" if seconds != seconds else f"{seconds / 3600:,.2f}"


def _number_text(value: float) -> str:
    return "-" if value != value else f"{value:.2f}"


def _percent_text(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def columns(ranking: Sequence[RankedPolicy]) -> Sequence[tuple[str, Callable[[RankedPolicy], str]]]:
    """Return the columns in which some policy has a value; without pools in the workload, for
    example, the column of pools has none.
    """
    filled = []
    for heading, cell in COLUMNS:
        if {cell(row) for row in ranking} != {"-"}:
            filled.append((heading, cell))
    return filled


COLUMNS: tuple[tuple[str, Callable[[RankedPolicy], str]], ...] = (
    ("work", lambda p: _percent_text(p.summary.work_share)),
    ("pools", lambda p: _percent_text(p.summary.pool_share)),
    ("plain one-node jobs", lambda p: _percent_text(p.summary.plain_share)),
    ("done", lambda p: f"{p.user_view.completed:,}"),
    ("mean h", lambda p: p.summary.done.text(p.summary.done.mean_h)),
    ("p95 h", lambda p: p.summary.done.text(p.summary.done.p95_h)),
    ("last h", lambda p: p.summary.done.text(p.summary.done.last_h)),
    ("longest wait h", lambda p: _hours_text(p.longest_wait_s)),
    ("one-node hours", lambda p: f"{p.summary.outcome_one_node_h:,.0f}"),
    ("U", lambda p: _percent_text(p.summary.efficiency)),
    ("queueing h", lambda p: _hours_text(p.user_view.queueing_s)),
    ("Jain", lambda p: _number_text(p.user_view.jain)),
    ("worst slowdown", lambda p: _number_text(p.user_view.worst_slowdown)),
    (
        "lost to preemption",
        lambda p: _percent_text(lost_share(p, p.summary.preemption_cost_samples)),
    ),
    ("lost to rescaling", lambda p: _percent_text(lost_share(p, p.summary.rescale_cost_samples))),
    ("p50 ms", lambda p: f"{1e3 * p.summary.decision_s.p50:.2f}"),
    ("p99 ms", lambda p: f"{1e3 * p.summary.decision_s.p99:.2f}"),
)
"""Columns of the ranking: heading and text. Work is in one-node hours per idle node-hour; mean, p95
and last are times from submission until a trainer is done; the longest wait is without nodes.
Milliseconds are of one decision, including the solver, on this machine.
"""
