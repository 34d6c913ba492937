"""What a real log shows: the promises of a pilot that yields, and the harm of one that does not."""

from __future__ import annotations

import pytest
from replay.main_queue.logs_by_hand import window_from
from support.data import data_file

from bftrainer_replay.main_queue.backfill import Easy
from bftrainer_replay.main_queue.jobs import MainJobs, main_jobs_of
from bftrainer_replay.main_queue.outcome import outcome_of
from bftrainer_replay.main_queue.ways import rules_of

KTH = "pwa-swf/KTH-SP2-1996-2.1-cln.swf.gz"


@pytest.mark.data
@pytest.mark.slow
def test_six_weeks_of_a_real_queue() -> None:
    """Source: the Parallel Workloads Archive, KTH SP2 1996 (cleaned)."""
    jobs = main_jobs_of(window_from(data_file(KTH)))
    assert isinstance(jobs, MainJobs)
    ways = [rules_of(way, settled_s=0.0) for way in ("yield", "life:600", "life:7200", "keep")]
    outcome = outcome_of(jobs.first(3000), Easy(), ways, random_runs=1)
    yields, short, long, keep = outcome.ways
    assert yields.harvest >= 0.97
    assert yields.delays.p99_s == 3.0
    assert yields.delays.late <= 0.005
    assert yields.delays.very_late <= 0.001
    assert 0.05 < short.delays.late < long.delays.late < keep.delays.late
    assert short.delays.mean_s < long.delays.mean_s < keep.delays.mean_s
