"""The waiting jobs of a job log: from when to when each waits, and what keeps it from starting."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from typing import Any

import numpy as np

from bftrainer_replay.logs.dialect import Dialect
from bftrainer_replay.logs.jobs import JobTable
from bftrainer_replay.logs.model import Queue
from bftrainer_replay.logs.needs import BEFORE_ELIGIBLE, Block, Fact, JobNeeds


def queue_of(table: JobTable, facts: Set[Fact], dialect: Dialect) -> Queue | None:
    """The queue, or None if no job of the log ever waited (submit times missing, or equal to the start).

    Its columns are those of the table, which is put in their order: a log may have 44 million jobs.

    A dependency, a begin time or a hold keeps a job from being eligible: it is in the queue twice, from its submission with the
    reason and from when it is eligible without. Where the two times are equal, the log does not tell them apart, and the
    reason counts for the whole wait.
    """
    waited = np.isnan(table.start_s) | (table.start_s > table.eligible_s)
    if not waited.any():
        return None
    early = np.array([each.block in BEFORE_ELIGIBLE for each in table.all_needs])[table.needs]
    twice = np.flatnonzero(early & (table.eligible_s > table.submit_s))
    free = {JobNeeds(n.partition, n.constraint, Block.NONE, n.cores, n.devices): 0 for n in table.all_needs}
    all_needs = (*table.all_needs, *free)
    place = {needs: len(table.all_needs) + k for k, needs in enumerate(free)}
    freed = np.array(
        [place[JobNeeds(n.partition, n.constraint, Block.NONE, n.cores, n.devices)] for n in table.all_needs],
        dtype=np.int32,
    )
    until_s = np.where(np.isfinite(table.eligible_s[twice]), table.eligible_s[twice], table.end_s[twice])
    columns = {
        "eligible_s": table.submit_s[twice], "submit_s": table.submit_s[twice], "start_s": until_s, "end_s": until_s,
        "asked": table.asked[twice], "limit_s": table.limit_s[twice], "needs": table.needs[twice],
    }  # fmt: skip
    if len(twice):
        table.needs[twice] = freed[table.needs[twice]]
        more: dict[str, Any] = {name: np.concatenate((getattr(table, name), columns[name])) for name in columns}
        table = replace(table, **more)
    order = np.argsort(table.eligible_s, kind="stable")
    for column in {id(column): column for column in (getattr(table, name) for name in columns)}.values():
        if column.flags.writeable:  # else all are alike
            column[:] = column[order]
    return Queue(
        table.submit_s, table.eligible_s, table.start_s, table.end_s, table.asked, table.limit_s, table.needs, all_needs,
        frozenset(facts), dialect=dialect,
    )  # fmt: skip
