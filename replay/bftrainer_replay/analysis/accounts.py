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
"""The headings of :attr:`AccountFigures.cells` but the first."""
_MAX_ROWS = 20


@dataclass(frozen=True, slots=True)
class AccountFigures:
    """Jobs of one account or QOS that ran in the window, their node-hours in it and the part of
    those of all jobs.

    ``wait_h`` is their mean wait, ``waiting`` the mean number of waiting jobs, ``fillable_share``
    the part of all idle node-time that these could have used.
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
    """Measure the accounts (or QOS) of a window's jobs, those of most node-hours first; empty if
    the log has only one, or no queue.
    """
    queue = window.queue
    if queue is None:
        return ()
    name_of_needs = [getattr(needs, kind) for needs in queue.all_needs]
    names = list(dict.fromkeys(name_of_needs))
    if len(names) < 2:
        return ()
    number = {name: place for place, name in enumerate(names)}
    of_needs = np.array([number[name] for name in name_of_needs])
    sums = _sums(window, queue, of_needs, len(names))
    rows = []
    largest = np.argsort(-sums[1], kind="stable")[:_MAX_ROWS].tolist()
    for place in largest:
        if not sums[0, place]:
            continue
        jobs_of_payer = queue.of_needs(of_needs == place)
        causes = idle_causes(replace(window, queue=jobs_of_payer), MOST_WORK // len(largest))
        del jobs_of_payer  # a copy, before that of the next one
        jobs, node_s, wait_s, waiting_s = sums[:, place].tolist()
        rows.append(
            AccountFigures(
                names[place] or "(none)",
                int(jobs),
                node_s / 3600,
                node_s / sums[1].sum(),
                wait_s / jobs / 3600,
                waiting_s / window.span_s,
                0.0 if causes is None else causes.fillable_share,
            )
        )
    return tuple(rows) if len(rows) > 1 else ()


def _sums(
    window: LogWindow, queue: Queue, of_needs: NDArray[np.int64], count: int
) -> NDArray[np.float64]:
    """Sum per account, as rows of an array: jobs that ran, their node-seconds, the waits of these
    jobs, and seconds that jobs waited in the window.

    ``of_needs`` is the account, as a column of that array, of each of the queue's needs.
    """
    sums = np.zeros((4, count))
    for part in queue.parts():
        start_s = queue.start_s[part].clip(window.start_s, window.end_s)
        end_s = queue.end_s[part].clip(window.start_s, window.end_s)
        run_s = np.nan_to_num(end_s - start_s)
        waiting_s = queue.waited_s(part, window.start_s, window.end_s)
        wait_s = np.nan_to_num(queue.start_s[part] - queue.eligible_s[part]) * (run_s > 0)
        weights = (run_s > 0, run_s * queue.nodes[part], wait_s, waiting_s)
        for total, weight in zip(sums, weights, strict=True):
            total += np.bincount(of_needs[queue.needs[part]], weight, count)
    return sums
