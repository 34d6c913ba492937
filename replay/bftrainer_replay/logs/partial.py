"""Signs in the records themselves that a log has only a part of the cluster's jobs.

Slurm and the servers of PBS number jobs one after another, and some jobs of any cluster fail: a log
of one account, of one state, or with gaps in most places between its numbers is a selection. What
its missing jobs held counts as idle.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

import numpy as np
from numpy.typing import NDArray

LEAST_JOBS = 20
"""Jobs below which a cluster of one account is likely."""
LEAST_JOBS_OF_ONE_STATE = 200
"""Jobs from which on a cluster where no job fails and none is canceled is unlikely."""
_IDS_AT_ONCE = 50
_LEAST_GROUPS = 4
_DENSE = 0.6
"""Least share of the ids that a whole log has at the median place. Of the whole logs of
docs/site-logs.md that keep the scheduler's ids, the logs of three days that were selected by end
have 0.76, and the others have 1.0.
"""
_DENSE_OF_ONE_PARTITION = 0.95
"""The same for a log of one partition, which may be all of a small cluster: then its ids are dense.
The partition of pozidriv with 91 % of the jobs has 0.69, and 42 % of its nodes are idle, not 30 %;
wagap, the whole log of one partition, has 1.0.
"""


def signs_of_a_part(
    jobs: int,
    accounts: Set[str],
    account_word: str,
    states: Set[str],
    partitions: Set[str],
    missing_ids: float,
) -> Iterator[str]:
    """Yield, in words, what shows that the log has a part of the jobs only; nothing if it looks
    whole.

    ``accounts``, ``states`` and ``partitions`` are those of all jobs (empty: the log does not
    tell); ``account_word`` is the format's word for an account, and ``missing_ids`` is from
    :func:`missing_share`.
    """
    account = min(accounts, default="")
    if account and len(accounts) == 1 and jobs >= LEAST_JOBS:
        yield f"all jobs belong to {account_word} {account[:32]}"
    state = min(states, default="")
    if state and len(states) == 1 and jobs >= LEAST_JOBS_OF_ONE_STATE:
        yield f"all {jobs:,} jobs have the state {state}"
    missing = f"{missing_ids:.0%} of the job ids between those of the log are missing"
    partition = min(partitions, default="")
    if missing_ids > 1 - _DENSE:
        yield missing
    elif partition and len(partitions) == 1 and missing_ids > 1 - _DENSE_OF_ONE_PARTITION:
        yield f"all jobs are of partition {partition[:32]}, and {missing}"


def missing_share(ids: NDArray[np.float64]) -> float:
    """Return the share of job ids that the log lacks, at the median place between its first and
    last id.

    0 if there are too few ids to tell. The median is not sensitive to the ends of a log, where the
    ids are sparse (jobs submitted long ago, jobs that have not ended), nor to a scheduler that
    begins its numbers again.
    """
    ids = np.sort(ids[np.isfinite(ids)])
    n_groups = (len(ids) - 1) // _IDS_AT_ONCE
    if n_groups < _LEAST_GROUPS:
        return 0.0
    edges = ids[: n_groups * _IDS_AT_ONCE + 1 : _IDS_AT_ONCE]
    # Between two edges, a log without gaps has as many ids as numbers.
    density = _IDS_AT_ONCE / np.maximum(np.diff(edges), _IDS_AT_ONCE)
    return 1.0 - float(np.median(density))
