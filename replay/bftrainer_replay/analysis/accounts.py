"""Jobs by account or QOS: who uses the cluster, whose jobs wait, and whose could have used the idle
nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bftrainer_replay.analysis.idle_causes import MOST_WORK, idle_causes
from bftrainer_replay.logs.model import LogWindow, Queue

Payer: TypeAlias = Literal["account", "qos"]
READ = (
    "Jobs that ran; a node that jobs share counts for each of them. The last column is of all "
    "idle node-hours. Up to 20 rows, "
    "those of most node-hours."
)
HEADINGS = ("jobs", "node-hours", "share", "mean wait", "jobs waiting", "a waiting job fits")
"""The headings of :attr:`AccountFigures.cells` after the first, the word for an account."""
_MAX_ROWS = 20


@dataclass(frozen=True, slots=True)
class AccountFigures:
    """The number of jobs of one account or QOS that ran in the window, their node-hours in it, and
    their share of the node-hours of all jobs.

    ``wait_h`` is the mean wait of these jobs, ``waiting`` the mean number of waiting jobs, and
    ``fillable_share`` the part of all idle node-time that the waiting jobs could have used.
    """

    name: str
    jobs: int
    node_h: float
    share: float
    wait_h: float
    waiting: float
    fillable_share: float

    @property
    def cells(self) -> tuple[str, ...]:
        """The figures as a row of a table."""
        return (
            self.name,
            f"{self.jobs:,}",
            f"{self.node_h:,.0f}",
            f"{self.share:.1%}",
            f"{self.wait_h:,.1f} h",
            f"{self.waiting:,.1f}",
            f"{self.fillable_share:.1%}",
        )


def accounts_of(window: LogWindow, kind: Payer) -> tuple[AccountFigures, ...]:
    """Return the figures of each account (or QOS) of a window's jobs, those of most node-hours
    first.

    Empty if the log has fewer than two of them, or no queue. At most ``_MAX_ROWS`` rows.
    """
    queue = window.queue
    if queue is None:
        return ()
    name_of_needs = [getattr(needs, kind) for needs in queue.all_needs]
    names = list(dict.fromkeys(name_of_needs))
    if len(names) < 2:
        return ()
    index_of = {name: index for index, name in enumerate(names)}
    payer_of_needs = np.array([index_of[name] for name in name_of_needs])
    sums = _account_sums(window, queue, payer_of_needs, len(names))
    n_jobs, node_s, wait_s, waiting_s = sums
    rows = []
    largest = np.argsort(-node_s, kind="stable")[:_MAX_ROWS].tolist()
    for account in largest:
        if not n_jobs[account]:
            continue
        jobs_of_payer = queue.with_needs(payer_of_needs == account)
        # The limit on work holds for all accounts together.
        causes = idle_causes(replace(window, queue=jobs_of_payer), MOST_WORK // len(largest))
        del jobs_of_payer  # a copy, which is freed before the next one is made
        rows.append(
            AccountFigures(
                name=names[account] or "(none)",
                jobs=int(n_jobs[account]),
                node_h=float(node_s[account]) / 3600,
                share=float(node_s[account]) / node_s.sum(),
                wait_h=float(wait_s[account]) / float(n_jobs[account]) / 3600,
                waiting=float(waiting_s[account]) / window.span_s,
                fillable_share=0.0 if causes is None else causes.fillable_share,
            )
        )
    return tuple(rows) if len(rows) > 1 else ()


def _account_sums(
    window: LogWindow, queue: Queue, payer_of_needs: NDArray[np.int64], n_payers: int
) -> NDArray[np.float64]:
    """Return four sums per account, as the rows of an array: jobs that ran in the window, their
    node-seconds in it, the waits of these jobs, and the seconds that all jobs waited in the window.

    ``payer_of_needs[k]`` is the account (a column of the array) of ``queue.all_needs[k]``.
    """
    sums = np.zeros((4, n_payers))
    for part in queue.parts():
        start_s = queue.start_s[part].clip(window.start_s, window.end_s)
        end_s = queue.end_s[part].clip(window.start_s, window.end_s)
        # NaN: the job never started.
        run_s = np.nan_to_num(end_s - start_s)
        waiting_s = queue.waited_s(part, window.start_s, window.end_s)
        wait_s = np.nan_to_num(queue.start_s[part] - queue.eligible_s[part]) * (run_s > 0)
        weights = (run_s > 0, run_s * queue.nodes[part], wait_s, waiting_s)
        for total, weight in zip(sums, weights, strict=True):
            total += np.bincount(payer_of_needs[queue.needs[part]], weight, n_payers)
    return sums
