"""Jobs by account or QOS: who uses the cluster, whose jobs wait, and whose could have used the idle
nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from bftrainer_replay.analysis.idle_causes import MOST_WORK, idle_causes
from bftrainer_replay.logs.model import LogWindow

Payer: TypeAlias = Literal["account", "qos"]
READ = (
    "Jobs that ran; a node that jobs share counts for each of them. The last column is of all "
    "idle node-hours. Up to 20 rows, "
    "those of most node-hours."
)
HEADINGS = ("jobs", "node-hours", "share", "mean wait", "jobs waiting", "a waiting job fits")
"""Of :attr:`AccountFigures.cells` but the first."""
_MOST = 20


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
    """Those of most node-hours first; empty if the log has only one, or no queue."""
    queue = window.queue
    names = [] if queue is None else [getattr(each, kind) for each in queue.all_needs]
    number = {name: place for place, name in enumerate(dict.fromkeys(names))}
    if queue is None or len(number) < 2:
        return ()
    of_needs, sums = np.array([number[name] for name in names]), np.zeros((4, len(number)))
    for part in queue.parts():
        start, end = (
            times[part].clip(window.start_s, window.end_s) for times in (queue.start_s, queue.end_s)
        )
        run_s, waiting_s = (
            np.nan_to_num(end - start),
            queue.waited_s(part, window.start_s, window.end_s),
        )
        wait_s = np.nan_to_num(queue.start_s[part] - queue.eligible_s[part]) * (run_s > 0)
        for total, each in zip(
            sums, (run_s > 0, run_s * queue.nodes[part], wait_s, waiting_s), strict=True
        ):
            total += np.bincount(of_needs[queue.needs[part]], each, len(number))
    found = []
    largest = np.argsort(-sums[1], kind="stable")[:_MOST].tolist()
    for place, name in ((place, list(number)[place]) for place in largest if sums[0, place]):
        mine = queue.of_needs(of_needs == place)
        causes = idle_causes(replace(window, queue=mine), MOST_WORK // len(largest))
        del mine  # a copy of its jobs, before the next one
        jobs, node_s, wait_s, waiting_s = sums[:, place].tolist()
        found.append(
            AccountFigures(
                name or "(none)",
                int(jobs),
                node_s / 3600,
                node_s / sums[1].sum(),
                wait_s / jobs / 3600,
                waiting_s / window.span_s,
                0.0 if causes is None else causes.fillable_share,
            )
        )
    return tuple(found) if len(found) > 1 else ()
