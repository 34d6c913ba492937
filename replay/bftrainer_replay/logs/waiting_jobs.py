"""The waiting jobs of a job log: from when to when each waits, and what keeps it from starting."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from typing import Any

import numpy as np

from bftrainer_replay.logs.dialect import Dialect
from bftrainer_replay.logs.job_needs import BEFORE_ELIGIBLE, Block, Fact
from bftrainer_replay.logs.jobs import JobTable
from bftrainer_replay.logs.model import Queue


def queue_of(table: JobTable, facts: Set[Fact], dialect: Dialect) -> Queue | None:
    """The queue, or None if no job of the log ever waited (submit times missing, or equal to the start).

    Its columns are those of the table, which is put in their order: a log may have 44 million jobs.

    A dependency, a begin time or a hold keeps a job from being eligible: it is in the queue twice, from its submission with the
    reason and from when it is eligible without. Where the two times are equal, the log does not tell them apart, and the
    reason counts for the whole wait.
    """
    if not any((~(table.start_s[part] <= table.eligible_s[part])).any() for part in table.parts()):
        return None
    early = np.array([each.block in BEFORE_ELIGIBLE for each in table.all_needs])
    twice = table.where(lambda part: early[table.needs[part]] & (table.eligible_s[part] > table.submit_s[part]))
    freed = dict.fromkeys(replace(each, block=Block.NONE) for each in table.all_needs)
    all_needs = (*table.all_needs, *freed)
    place = {needs: len(table.all_needs) + k for k, needs in enumerate(freed)}
    free = np.array([place[replace(each, block=Block.NONE)] for each in table.all_needs])
    if len(twice):
        eligible_s, submit_s = table.eligible_s[twice], table.submit_s[twice]
        until_s = np.where(np.isfinite(eligible_s), eligible_s, table.end_s[twice])
        held = {"eligible_s": submit_s, "start_s": until_s, "end_s": until_s, "limit_s": table.limit_s[twice]}
        needs = table.needs if len(all_needs) < 2**15 else table.needs.astype(np.int32)
        before, needs[twice] = needs[twice], free[needs[twice]]
        columns: dict[str, Any] = {name: getattr(table, name).plus(times) for name, times in held.items()}
        asked = np.concatenate((table.asked, table.asked[twice]))
        table = replace(table, asked=asked, needs=np.concatenate((needs, before)), **columns)
    times = (table.eligible_s, table.start_s, table.end_s, table.limit_s)
    eligible = table.eligible_s.kept
    if (eligible[1:] < eligible[:-1]).any():
        order = np.argsort(eligible, kind="stable")
        every = (*(each.kept for each in times), table.asked, table.needs)
        for column in {id(column): column for column in every}.values():
            column[:] = column[order]
    return Queue(
        *times[:3], table.asked, table.limit_s, table.needs, all_needs, frozenset(facts), dialect=dialect
    )  # fmt: skip
