"""Tells whether a broker's lists leave out main jobs that wait: they are compared with the lists
that a pilot has read itself before and after.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from bftrainer_clusters.slurm.job_list import JobList, waits
from bftrainer_clusters.slurm.published import CLOCKS_S


@dataclass
class ListAudit:
    """The jobs that waited on the pilot's latest own list, ``at_s`` by this host's clock, and those
    of them that a later list of the broker's does not show as waiting.
    """

    _waiting: frozenset[str] = frozenset()
    _at_s: float = -math.inf
    _not_waiting: frozenset[str] = frozenset()

    def is_disproved_by(self, own: JobList, at_s: float) -> bool:
        """Record a list of the pilot's own, complete at ``at_s``. Returns whether a broker's list
        was false: a job has waited before that list and after it, and did not wait on it.
        """
        waiting = _waiting_jobs(own)
        is_false = not self._not_waiting.isdisjoint(waiting)
        self._waiting, self._at_s, self._not_waiting = waiting, at_s, frozenset()
        return is_false

    def lacks(self, published: JobList, at_s: float) -> bool:
        """Record a broker's list, read from Slurm at ``at_s``. Returns whether a job is missing
        that has waited: it was canceled, or the list is false or old.
        """
        if not self._waiting:
            return False
        if at_s >= self._at_s + CLOCKS_S:
            self._not_waiting |= self._waiting - _waiting_jobs(published)
        return not self._waiting <= {job["%A"] for job in published.jobs}


def _waiting_jobs(jobs: JobList) -> frozenset[str]:
    """Return the IDs of the main jobs that wait."""
    return frozenset(job["%A"] for job in jobs.jobs if waits(job) and not job["%j"])
