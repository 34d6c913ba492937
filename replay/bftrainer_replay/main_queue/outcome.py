"""What a pilot harvests from a simulated queue, and how long main jobs wait for it: with each way
of making way, without a pilot, and with starts that come a few seconds late at random.

Backfill is chaotic: a start that comes a second late may give a slot to another job, and move the
waits of both by hours. So the delay of a job is measured at the instant at which the scheduler
would have started it without held nodes, and whole schedules are compared with those whose starts
are late at random.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bftrainer_replay.main_queue.backfill import Backfill
from bftrainer_replay.main_queue.cluster import Schedule, simulate
from bftrainer_replay.main_queue.jobs import MainJobs
from bftrainer_replay.main_queue.ways import PilotRules

LATE_S, VERY_LATE_S = 60.0, 600.0


@dataclass(frozen=True, slots=True)
class Delays:
    """The delays of main jobs in seconds; ``late`` and ``very_late`` are the shares of jobs with
    more than a minute and more than ten. ``by_node_s`` is the mean weighted by node-seconds.
    """

    mean_s: float
    by_node_s: float
    p90_s: float
    p99_s: float
    longest_s: float
    delayed: float
    late: float
    very_late: float

    @classmethod
    def of(cls, delay_s: NDArray[np.float64], weights: NDArray[np.float64]) -> Delays:
        """Return the delays of jobs; ``weights`` are their node-seconds."""
        p90_s, p99_s = np.quantile(delay_s, (0.9, 0.99), method="higher").tolist()
        return cls(
            float(delay_s.mean()),
            float(np.average(delay_s, weights=weights)),
            p90_s,
            p99_s,
            float(delay_s.max()),
            float((delay_s > 0).mean()),
            float((delay_s > LATE_S).mean()),
            float((delay_s > VERY_LATE_S).mean()),
        )


@dataclass(frozen=True, slots=True)
class Waits:
    """Mean seconds from the submission of a job to its start, of all jobs alike and weighted by
    node-seconds.
    """

    mean_s: float
    by_node_s: float


@dataclass(frozen=True, slots=True)
class WayOutcome:
    """What one way makes of a log. ``harvest``: held node-hours less what the starts of holders
    cost, as a share of the node-hours that main jobs leave. ``starts``: of holders, for each node
    and day; ``releases``: how often a day the pilot releases nodes for main jobs.
    """

    rules: PilotRules
    harvest: float
    starts: float
    releases: float
    delays: Delays
    waits: Waits


@dataclass(frozen=True, slots=True)
class QueueOutcome:
    """A log under several ways. ``jobs`` main jobs in ``days``; ``idle_share`` of the node-hours is
    left by main jobs without a pilot. ``random_waits``: of schedules without a pilot in which each
    start is 0 to ``noise_s`` late.
    """

    backfill: str
    jobs: int
    jobs_in_log: int
    machine_nodes: int
    days: float
    idle_share: float
    plain: Waits
    noise_s: float
    random_waits: tuple[Waits, ...]
    ways: tuple[WayOutcome, ...]
    notes: tuple[str, ...]

    def way(self, name: str) -> WayOutcome:
        """Return the outcome of a way such as ``yield`` or ``life:600``."""
        return next(outcome for outcome in self.ways if outcome.rules.name == name)

    @property
    def random_range(self) -> tuple[Waits, Waits]:
        """The least and the largest waits with random delays; the plain ones are among them."""
        every = (self.plain, *self.random_waits)
        return (
            Waits(min(w.mean_s for w in every), min(w.by_node_s for w in every)),
            Waits(max(w.mean_s for w in every), max(w.by_node_s for w in every)),
        )


def outcome_of(
    jobs: MainJobs,
    backfill: Backfill,
    every_rules: Iterable[PilotRules],
    random_runs: int = 8,
    jobs_in_log: int = 0,
    on_run: Callable[[], None] | None = None,
) -> QueueOutcome:
    """Simulate a queue without a pilot, with random delays, and with a pilot under each of the
    rules. ``on_run`` is called after each simulation.
    """
    every_rules = tuple(every_rules)
    is_counted = np.array(jobs.is_counted)
    weights = np.array(jobs.nodes, dtype=np.float64) * np.array(jobs.run_s)

    def waits_of(schedule: Schedule) -> Waits:
        wait_s = np.array(schedule.start_s) - np.array(jobs.submit_s)
        return Waits(
            float(wait_s[is_counted].mean()),
            float(np.average(wait_s[is_counted], weights=weights[is_counted])),
        )

    def simulated(rules: PilotRules | None, noise_s: float = 0.0, seed: int = 1) -> Schedule:
        schedule = simulate(jobs, backfill, rules, noise_s, seed)
        if on_run is not None:
            on_run()
        return schedule

    plain = simulated(None)
    noise_s = max((rules.noise_s for rules in every_rules), default=4.0)
    random_waits = tuple(
        waits_of(simulated(None, noise_s, seed)) for seed in range(1, random_runs + 1)
    )
    days = jobs.span_s / 86400
    ways = []
    for rules in every_rules:
        schedule = simulated(rules)
        tally = schedule.tally
        used_s = tally.held_node_s - rules.start_s * tally.holder_starts
        ways.append(
            WayOutcome(
                rules,
                max(used_s, 0.0) / max(tally.available_node_s, 1e-9),
                tally.holder_starts / max(days, 1e-9) / jobs.machine_nodes,
                tally.releases / max(days, 1e-9),
                Delays.of(np.array(schedule.delay_s)[is_counted], weights[is_counted]),
                waits_of(schedule),
            )
        )
    return QueueOutcome(
        backfill.name,
        int(is_counted.sum()),
        max(jobs_in_log, int(is_counted.sum())),
        jobs.machine_nodes,
        days,
        plain.tally.available_node_s / max(jobs.span_s * jobs.machine_nodes, 1e-9),
        waits_of(plain),
        noise_s,
        random_waits,
        tuple(ways),
        jobs.notes,
    )


def rows_of(outcome: QueueOutcome) -> list[Sequence[str]]:
    """Return a row of text for each way: see :data:`HEADINGS`."""
    return [
        (
            way.rules.name,
            f"{way.harvest:.1%}",
            f"{way.delays.mean_s:,.1f} s",
            f"{way.delays.by_node_s:,.1f} s",
            f"{way.delays.p90_s:,.0f} s",
            f"{way.delays.p99_s:,.0f} s",
            f"{way.delays.late:.2%}",
            f"{way.delays.very_late:.2%}",
            f"{way.waits.mean_s / max(outcome.plain.mean_s, 1e-9):.3f}",
            f"{way.waits.by_node_s / max(outcome.plain.by_node_s, 1e-9):.3f}",
        )
        for way in outcome.ways
    ]


HEADINGS = (
    "way",
    "harvest",
    "mean delay",
    "by node-hours",
    "p90",
    "p99",
    "over 60 s",
    "over 600 s",
    "mean wait, x",
    "by node-hours, x",
)
