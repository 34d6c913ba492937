"""Which main jobs a log tells of, and why a log does not tell what a scheduler would do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from replay.main_queue.logs_by_hand import HEADER, busy_log, row, window_from
from replay.windows import window

from bftrainer_replay.logs.columns import Times
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.main_queue.jobs import CannotTell, MainJobs, main_jobs_of


def told(log: LogWindow) -> MainJobs:
    jobs = main_jobs_of(log)
    assert isinstance(jobs, MainJobs), jobs
    return jobs


def untold(log: LogWindow) -> str:
    jobs = main_jobs_of(log)
    assert isinstance(jobs, CannotTell)
    return jobs.why


def test_jobs_are_those_of_the_log(tmp_path: Path) -> None:
    log = window_from(busy_log(tmp_path / "log.swf"))
    jobs = told(log)
    assert jobs.machine_nodes == 8
    assert list(jobs.submit_s) == sorted(jobs.submit_s)
    assert jobs.submit_s[0] == 0.0
    assert all(limit >= run for limit, run in zip(jobs.limit_s, jobs.run_s, strict=True))
    queue = log.queue
    assert queue is not None
    inside = (queue.eligible_s[:] >= log.start_s) & (queue.eligible_s[:] <= log.end_s)
    assert sum(jobs.is_counted) == inside.sum()
    assert len(jobs) - sum(jobs.is_counted) < 20


def test_jobs_that_ran_before_the_window_run_on_and_do_not_count() -> None:
    """One runs from -50 to 100 s with a limit of 400 s, one waits from -20 to 100 s, others come at
    10 s.
    """
    count = 100
    log = with_jobs(
        eligible_s=[-60, -20, *[10] * count],
        start_s=[-50, 100, *[500] * count],
        end_s=[100, 200, *[540] * count],
        limit_s=[400, 300, *[200] * count],
        nodes=[8, 4, *[1] * count],
    )
    jobs = told(log)
    assert jobs.is_counted == (False, False, *[True] * count)
    assert jobs.submit_s[:3] == (0.0, 0.0, 10.0)
    assert (jobs.run_s[:3], jobs.limit_s[:3]) == ((100.0, 100.0, 40.0), (350.0, 300.0, 200.0))
    assert jobs.nodes[:3] == (8, 4, 1)


def with_jobs(**columns: list[float]) -> LogWindow:
    """A window of 8 nodes from 0 to 1,000 s with a queue, without idle nodes."""
    from bftrainer_replay.logs.model import Queue

    times = {
        name: Times.from_seconds(np.array(values, dtype=np.float64))
        for name, values in columns.items()
        if name != "nodes"
    }
    return window(1000.0, (), queue=Queue(nodes=np.array(columns["nodes"]), **times))


def test_a_log_without_submissions_does_not_tell(tmp_path: Path) -> None:
    assert "no times of submission" in untold(window(1000.0, "ab", (10.0, "a")))
    rows = [row(k, 100 * k, 0, 50, 1, 60) for k in range(1, 300)]
    log = tmp_path / "log.swf"
    log.write_text(HEADER.format(8) + "".join(rows))
    assert "jobs that never waited" in untold(window_from(log))


def test_a_log_without_limits_does_not_tell(tmp_path: Path) -> None:
    why = untold(window_from(busy_log(tmp_path / "log.swf", limits=False)))
    assert why.startswith("100% of the jobs have no time limit")


def test_a_log_of_few_jobs_does_not_tell(tmp_path: Path) -> None:
    why = untold(window_from(busy_log(tmp_path / "log.swf", jobs=60)))
    assert "jobs of the log ran, and no share of so few" in why


def test_a_log_of_shared_nodes_does_not_tell(tmp_path: Path) -> None:
    log = window_from(busy_log(tmp_path / "log.swf"))
    assert log.queue is not None
    twice = replace(log, queue=replace(log.queue, nodes=np.minimum(2 * log.queue.nodes, 8)))
    assert "jobs share nodes (1." in untold(twice)


def test_jobs_larger_than_this_part_of_the_log_do_not_tell(tmp_path: Path) -> None:
    log = window_from(busy_log(tmp_path / "log.swf"))
    assert "asked for more than the 4 nodes" in untold(replace(log, machine_nodes=4))


def test_what_changes_the_conclusions_is_noted(tmp_path: Path) -> None:
    log = window_from(busy_log(tmp_path / "log.swf"))
    assert told(log).notes == ()
    closed = replace(log, outages=((log.start_s, log.start_s + 0.02 * log.span_s),))
    assert any("hours of outages and gaps" in note for note in told(closed).notes)
