"""Several records of one job of Slurm: runs that a requeue ended, and the parts of a run between
changes of the job's nodes.

``sacct`` without ``-D`` leaves out all runs of a job before its last requeue, so that their nodes
look idle. A requeue gives a job a new submit time: such a job was submitted after jobs with higher
ids. Checked with Slurm 22.05.8 and later.
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
    """Collects the ids, states and submit times of all records, to recognize the runs of a job.

    Ids are kept as hashes, which takes less memory.
    """

    def __init__(self) -> None:
        # Parallel arrays over the records: what follows the order of submissions, hash, time.
        """Begin without records."""
        self._numbers, self._id_hashes, self._submits_s = array("d"), array("q"), array("d")
        self._ended_for_rerun: set[int] = set()  # hashes
        self._parents: set[int] = set()  # hashes of the ids of arrays and heterogeneous jobs
        self._resized_s: dict[str, float] = {}  # the time of the latest change of nodes, by id
        self._has_requeued = False  # some record has the state REQUEUED
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
        """Add a record; return the time from which the job had the record's nodes.

        This is later than its start if its nodes were changed. ``number`` is an id that follows the
        order of submissions: by default ``job_id`` without the task of an array or the part of a
        heterogeneous job.
        """
        # A record that a change of nodes closed is a part of a run, not a run of its own.
        if state == RESIZING and math.isfinite(end_s):
            since_s = self._after_change(job_id, start_s)
            if len(self._resized_s) < _MOST_RESIZED:
                self._resized_s[job_id] = end_s
            return since_s
        if end_s < self._first_end_s:
            self._first_end_s = end_s
        id_hash = hash(job_id)
        if state in RERUN:
            self._ended_for_rerun.add(id_hash)
            self._has_requeued |= state == "REQUEUED"
        parent = job_id.partition("_")[0].partition("+")[0]  # 123_4 and 123+0 -> 123
        if parent != job_id and len(self._parents) < _MOST_PARENTS:
            self._parents.add(hash(parent))
        if job_id in self._resized_s:
            # The submit time of the last part is that of the change: it tells nothing of a requeue.
            return self._after_change(job_id, start_s)
        number = parent if number is None else number
        if len(self._id_hashes) < _MOST_JOBS and math.isfinite(submit_s):
            self._numbers.append(
                float(number) if number.isdecimal() and len(number) < 16 else math.nan
            )
            self._id_hashes.append(id_hash)
            self._submits_s.append(submit_s)
        return start_s

    def repeated_ids(self) -> int:
        """Return the number of records with a job id that Slurm cannot have written.

        That is a further record of a job that no requeue or change of nodes explains, or a record
        with the id of an array or heterogeneous job whose tasks or parts have records of their own.
        Such records can come from line breaks in a job's name: text of a user that looks like a
        record.
        """
        hashes = np.frombuffer(self._id_hashes, dtype=np.int64)
        ids, n_records = np.unique(hashes, return_counts=True)
        was_rerun = np.isin(ids, _as_array(self._ended_for_rerun))
        has_parts = np.isin(ids, _as_array(self._parents))
        return int((n_records - 1)[~was_rerun].sum() + n_records[has_parts].sum())

    def remark(self, source: Source) -> None:
        """Warn if the log lacks runs that ended by a requeue; remark if it does not tell.

        sacct without -D leaves out all runs before the last requeue. Sets the source's share of
        missing ids.
        """
        source.missing_ids = missing_share(np.frombuffer(self._numbers, dtype=np.float64))
        hashes = np.frombuffer(self._id_hashes, dtype=np.int64)
        if not len(hashes) or self._has_several_runs(hashes):
            return  # sacct ran with -D
        n_resubmitted = self._resubmitted_count()
        # With more, ids do not follow the order of submissions, and tell nothing.
        if 0 < n_resubmitted <= max(1, _MOST_SHARE * len(hashes)):
            jobs_were = f"{n_resubmitted:,} jobs were" if n_resubmitted > 1 else "1 job was"
            source.warnings.append(
                f"{jobs_were} requeued (submitted after jobs with higher ids), but the log lacks "
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
        """Return the latest change of the job's nodes or, if that is later, its start."""
        changed_s = self._resized_s.get(job_id, -math.inf)
        return changed_s if changed_s > start_s else start_s

    def _has_several_runs(self, hashes: NDArray[np.int64]) -> bool:
        """Return whether the log has several runs of a job, one of which a requeue ended.

        Then sacct ran with -D, which lists all runs.
        """
        if self._has_requeued:
            return True
        if not self._ended_for_rerun:
            return False
        ended = _as_array(self._ended_for_rerun)
        _, n_runs = np.unique(hashes[np.isin(hashes, ended)], return_counts=True)
        return bool((n_runs > 1).any())

    def _resubmitted_count(self) -> int:
        """Return the number of jobs that were submitted clearly after a job with a higher id.

        Ids ascend, so these jobs were requeued, which gave them a new submit time. Jobs submitted
        before the first end in the log do not count: their earlier runs were before the log.
        """
        numbers = np.frombuffer(self._numbers, dtype=np.float64)
        submits_s = np.frombuffer(self._submits_s, dtype=np.float64)
        order = np.argsort(submits_s, kind="stable")
        numbers, submits_s = numbers[order], submits_s[order]
        highest_so_far = np.fmax.accumulate(numbers)
        n_clearly_before = np.searchsorted(submits_s, submits_s - _GRACE_S)
        counts = (n_clearly_before > 0) & (submits_s > self._first_end_s)
        highest_before = highest_so_far[n_clearly_before[counts] - 1]
        return int((highest_before > numbers[counts]).sum())


def _as_array(hashes: set[int]) -> NDArray[np.int64]:
    return np.fromiter(hashes, dtype=np.int64, count=len(hashes))
