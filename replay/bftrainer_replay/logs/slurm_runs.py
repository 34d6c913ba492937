"""Several records of one job of Slurm: runs that a requeue ended, and parts of a run between
changes of its nodes.

``sacct`` without ``-D`` leaves out all runs of a job before its last requeue, so that their nodes
look idle. A requeue gives a job a new submit time: such a job was submitted after jobs with higher
ids. Slurm 22.05.8 and later were looked at.
"""

from __future__ import annotations

import math
from array import array

import numpy as np
from numpy.typing import NDArray

from bftrainer_replay.logs.partial import missing_share
from bftrainer_replay.logs.slurm_state import RERUN, RESIZING
from bftrainer_replay.logs.source import Source

_MOST_RESIZED = 100_000
_MOST_JOBS = 50_000_000
_MOST_PARENTS = 1_000_000
_GRACE_S = 60.0
"""Submissions at about the same time may get their ids in another order."""
_MOST_SHARE = 0.1
"""Share of jobs that seem requeued beyond which ids do not follow the submissions, as after a reset
of the first id.
"""


class JobRuns:
    """The runs of all jobs, as their ids, states and submit times tell of them."""

    def __init__(self) -> None:
        self._number, self._name, self._submit_s = array("d"), array("q"), array("d")
        self._ended_for_rerun: set[int] = set()
        self._resized_s: dict[str, float] = {}
        self._parents: set[int] = set()
        self._has_requeued = False
        self._first_end_s = math.inf

    def add(
        self,
        job_id: str,
        state: str,
        submit_s: float,
        start_s: float,
        end_s: float,
        number: str | None = None,
    ) -> float:
        """Note a record; return the time from which the job had the record's nodes, which is later
        than its start if its nodes were changed.

        ``number`` is what follows the order of submissions: by default the id without the task of
        an array or the part of a heterogeneous job.
        """
        if state == RESIZING and math.isfinite(end_s):
            since_s = self._after_change(job_id, start_s)
            if len(self._resized_s) < _MOST_RESIZED:
                self._resized_s[job_id] = end_s
            return since_s
        if end_s < self._first_end_s:
            self._first_end_s = end_s
        name = hash(job_id)
        if state in RERUN:
            self._ended_for_rerun.add(name)
            self._has_requeued |= state == "REQUEUED"
        parent = job_id.partition("_")[0].partition("+")[0]
        if parent != job_id and len(self._parents) < _MOST_PARENTS:
            self._parents.add(hash(parent))
        if job_id in self._resized_s:  # its submit time is that of the change
            return self._after_change(job_id, start_s)
        number = job_id.partition("_")[0].partition("+")[0] if number is None else number
        if len(self._name) < _MOST_JOBS and math.isfinite(submit_s):
            self._number.append(
                float(number) if number.isdecimal() and len(number) < 16 else math.nan
            )
            self._name.append(name)
            self._submit_s.append(submit_s)
        return start_s

    def repeated_ids(self) -> int:
        """Return the number of records whose job id Slurm does not give twice: another record of
        the job that no requeue or change of nodes explains, or a job beside the parts of its own
        id.

        Such records can come from line breaks in a job's name: text of a user that looks like a
        record.
        """
        names = np.frombuffer(self._name, dtype=np.int64)
        ids, records = np.unique(names, return_counts=True)
        rerun = np.isin(ids, _as_array(self._ended_for_rerun))
        has_parts = np.isin(ids, _as_array(self._parents))
        return int((records - 1)[~rerun].sum() + records[has_parts].sum())

    def remark(self, source: Source) -> None:
        """Warn if the log lacks runs that ended by a requeue; remark if it does not tell whether it
        lacks any.
        """
        source.missing_ids = missing_share(np.frombuffer(self._number, dtype=np.float64))
        names = np.frombuffer(self._name, dtype=np.int64)
        if not len(names) or self._has_several_runs(names):
            return
        missing = self._resubmitted()
        if 0 < missing <= max(1, _MOST_SHARE * len(names)):
            jobs = f"{missing:,} jobs were" if missing > 1 else "1 job was"
            source.warnings.append(
                f"{jobs} requeued (submitted after jobs with higher ids), but the log lacks "
                "all runs before "
                "the last: their nodes count as idle; run sacct again with -D (--duplicates)"
            )
            return
        source.remarks.append(
            "no run of the log ended by a requeue (REQUEUED, or PREEMPTED or NODE_FAIL beside "
            "another run of the same job): if "
            "jobs are requeued at your site, sacct ran without -D, and the nodes of all runs "
            "but the last count as idle"
        )

    def _after_change(self, job_id: str, start_s: float) -> float:
        changed_s = self._resized_s.get(job_id, -math.inf)
        return changed_s if changed_s > start_s else start_s

    def _has_several_runs(self, names: NDArray[np.int64]) -> bool:
        """Return whether the log has both a run that a requeue ended and another run of the same
        job.
        """
        if self._has_requeued:
            return True
        if not self._ended_for_rerun:
            return False
        ended = _as_array(self._ended_for_rerun)
        _, runs = np.unique(names[np.isin(names, ended)], return_counts=True)
        return bool((runs > 1).any())

    def _resubmitted(self) -> int:
        """Return the number of jobs that were submitted clearly after a job with a higher id: ids
        ascend, so they were requeued.

        Jobs submitted before the first end in the log do not count: their earlier runs were before
        the log.
        """
        number, submit_s = (
            np.frombuffer(column, dtype=np.float64) for column in (self._number, self._submit_s)
        )
        order = np.argsort(submit_s, kind="stable")
        number, submit_s = number[order], submit_s[order]
        highest = np.fmax.accumulate(number)
        earlier = np.searchsorted(submit_s, submit_s - _GRACE_S)
        after = (earlier > 0) & (submit_s > self._first_end_s)
        return int((highest[earlier[after] - 1] > number[after]).sum())


def _as_array(names: set[int]) -> NDArray[np.int64]:
    return np.fromiter(names, dtype=np.int64, count=len(names))
