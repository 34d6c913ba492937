#!/usr/bin/env python3
"""What a pilot that yields would harvest if it knew the scheduler's mind: it releases nodes for the
main jobs that the scheduler would start if no node were held, and for no other.

    python tests/replay/main_queue/yield_bound.py LOG
    python tests/replay/main_queue/yield_bound.py LOG --backfill conservative

All other rules are those of ``bftrainer replay delays LOG --give-way yield --settled 0``.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import click
import numpy as np

from bftrainer.errors import UserError
from bftrainer_replay.cli.log_options import LogChoice, log_options, window_of
from bftrainer_replay.main_queue.backfill import BACKFILLS
from bftrainer_replay.main_queue.cluster import Cluster
from bftrainer_replay.main_queue.jobs import CannotTell, main_jobs_of
from bftrainer_replay.main_queue.looks import LookDecision, QueueView
from bftrainer_replay.main_queue.outcome import Delays
from bftrainer_replay.main_queue.ways import rules_of


@dataclass(slots=True)
class KnowsTheScheduler:
    """A pilot that asks the scheduler which jobs it would start if no node were held."""

    cluster: Cluster

    def decide(self, view: QueueView) -> LookDecision:
        """Decide after a look at the queue."""
        cluster = self.cluster
        available = len(view.idle) + len(view.leaving) + view.held.count
        starts = cluster.backfill.starts(
            view.now_s, available, lambda: cluster.running, cluster.pending, cluster.jobs
        )
        needed = sum(cluster.jobs.nodes[job] for job in starts)
        missing = max(needed - len(view.idle) - len(view.leaving), 0)
        released = view.held.youngest(min(missing, view.held.count), view.now_s)
        return LookDecision(released, bool(starts), bool(starts))


@click.command()
@log_options
@click.option("--backfill", type=click.Choice(list(BACKFILLS)), default="easy")
def main(choice: LogChoice, backfill: str) -> None:
    """Print the harvest of LOG, and the delays of its main jobs."""
    jobs = main_jobs_of(window_of(choice))
    if isinstance(jobs, CannotTell):
        raise UserError(f"{choice.log}: {jobs.why}")
    rules = rules_of("yield", settled_s=0.0)
    cluster = Cluster(jobs, BACKFILLS[backfill], rules, 0.0, random.Random(1))
    cluster._looks = KnowsTheScheduler(cluster)
    schedule = cluster.run()
    tally, counts = schedule.tally, np.array(jobs.is_counted)
    used_s = tally.held_node_s - rules.start_s * tally.holder_starts
    weights = (np.array(jobs.nodes) * np.array(jobs.run_s))[counts]
    delays = Delays.of(np.array(schedule.delay_s)[counts], weights)
    click.echo(
        f"harvest {used_s / tally.available_node_s:.1%}, p99 {delays.p99_s:.0f} s, "
        f"late {delays.late:.2%} / {delays.very_late:.2%}"
    )


if __name__ == "__main__":
    main()
