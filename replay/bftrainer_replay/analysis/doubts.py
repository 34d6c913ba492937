"""What may be wrong with the idle share of a log: other readings of it, and signs that jobs are
missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bftrainer.counted import counted
from bftrainer_replay.analysis.characterize import Characteristics
from bftrainer_replay.logs.model import IdleBound, LogWindow
from bftrainer_replay.logs.silent import LEAST_H

SEEMS_TO_LACK_JOBS = 0.45
"""Share of the idle node-time in which a waiting job fits. A log with this share or more seems to
lack jobs.

The whole logs of docs/site-logs.md (nine of them) have shares up to 0.38. With the jobs of one
account or of one state only, the same logs have 0.51 to 0.64, since nodes with a missing job look
idle.
"""
_LEAST_IDLE = 0.05
"""Idle share below which few moments decide the share in which a job fits, so it is no sign."""


@dataclass(frozen=True, slots=True)
class IdleDoubts:
    """How far the idle share can be trusted: the least and the largest over all readings of the
    log, these readings, and what the log seems to lack.
    """

    least: float
    most: float
    bounds: tuple[IdleBound, ...] = ()
    lacks_jobs: str = ""

    def sentences(self) -> Iterator[str]:
        """Yield the sentences that a reader of the idle share should see."""
        if self.bounds:
            readings = "; ".join(
                f"{bound.idle_share:.1%} {bound.condition}" for bound in self.bounds
            )
            yield f"The idle share is between {self.least:.1%} and {self.most:.1%}: {readings}."
        if self.lacks_jobs:
            yield self.lacks_jobs


def doubts_of(window: LogWindow, figures: Characteristics) -> IdleDoubts:
    """Return the doubts about the idle share of a window, of which ``figures`` are the results."""
    bounds = tuple(_idle_bounds(window))
    shares = (figures.idle_share, *(bound.idle_share for bound in bounds))
    return IdleDoubts(min(shares), max(shares), bounds, _lacks_jobs(window, figures))


def _idle_bounds(window: LogWindow) -> Iterator[IdleBound]:
    """Yield other readings of the log's idle share, each with the condition under which it holds.

    Those for jobs that share nodes are from the importer. One more holds if nodes that ran no job
    for long were out of service: this time then counts neither as idle nor as time of the cluster.
    """
    yield from window.site.bounds
    silent = window.site.silent
    if silent is not None:
        nodes = counted(silent.nodes, "node")
        yield IdleBound(
            silent.idle_share_without,
            f"if the {nodes} that ran no job for {LEAST_H:g} hours or more were {silent.likely}",
        )


def _lacks_jobs(window: LogWindow, figures: Characteristics) -> str:
    """Return a text that the log seems to lack jobs, and why; empty if there is no sign of that."""
    signs = (*window.site.missing_jobs, *_unfilled_idle_sign(window, figures))
    if not signs:
        return ""
    return (
        f"This log seems to lack jobs: {'; '.join(signs)}. Nodes with jobs that are missing count "
        "as idle: export the jobs of all users, accounts, partitions and states."
    )


def _unfilled_idle_sign(window: LogWindow, figures: Characteristics) -> Iterator[str]:
    """Yield a sign that jobs are missing, if a waiting job fits in much of the idle node-time.

    A scheduler would have started that job; so the nodes were probably not idle, but had jobs that
    the log lacks.
    """
    causes = figures.idle_while
    if causes is None or window.queue is None:
        return
    if window.queue.only_smallest or window.site.bounds:
        return  # the share is no measure here: jobs may be larger, or share nodes
    if figures.idle_share < _LEAST_IDLE or causes.fillable_share < SEEMS_TO_LACK_JOBS:
        return
    yield (
        f"in {causes.fillable_share:.0%} of the idle node-time, a waiting job fits, which a "
        "scheduler would have started"
    )
