"""Jobs of which sacct has several records: runs that a requeue ended, and parts of a run between
changes of its nodes.

The texts have the layout that Slurm 22.05.8 printed for a job that was requeued and for one that
was resized.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.data import data_file
from support.reading_logs import PLAIN, read, totals

from bftrainer_replay.analysis.characterize import characterize
from bftrainer_replay.logs.model import restricted_log
from bftrainer_replay.logs.open import OpenedLog, open_log

HEADER = "JobID|Submit|Start|End|ElapsedRaw|NNodes|NodeList|State\n"
SAMPLES = "../samples/reports-2026-11"
DAY = "2026-01-05T"


def row(
    job: str, submit: str, start: str, end: str, count: int, nodes: str, state: str = "COMPLETED"
) -> str:
    times = "|".join(DAY + clock for clock in (submit, start, end))
    return f"{job}|{times}||{count}|{nodes}|{state}\n"


def idle_share(opened: OpenedLog) -> float:
    return characterize(restricted_log(opened.log)).idle_share


FILL = "".join(
    row(f"{100 + hour}", f"{hour:02d}:00:00", f"{hour:02d}:00:00", f"{hour:02d}:30:00", 1, "n1")
    for hour in range(1, 13)
)
LAST_RUN = row("50", "08:30:00", "08:31:00", "09:00:00", 1, "n1")
FIRST_RUN = row("50", "00:00:00", "01:30:00", "02:00:00", 1, "n1", "PREEMPTED")


def test_lost_runs_of_a_requeued_job_are_a_warning(tmp_path: Path) -> None:
    found = read(tmp_path, HEADER + FILL + LAST_RUN)
    (warning,) = [
        text for text in found.remarks if "requeued (submitted after jobs with higher ids)" in text
    ]
    assert warning.startswith("1 job was requeued")
    assert "-D" in warning
    assert warning in found.log.note, "it goes with every result"


def test_a_log_without_any_requeue_cannot_tell(tmp_path: Path) -> None:
    found = read(tmp_path, HEADER + FILL)
    assert any("sacct ran without -D" in text for text in found.remarks)
    assert not found.log.note


@pytest.mark.parametrize("state", ["PREEMPTED", "REQUEUED", "NODE_FAIL"])
def test_a_log_with_all_runs_says_nothing(tmp_path: Path, state: str) -> None:
    found = read(tmp_path, HEADER + FIRST_RUN.replace("PREEMPTED", state) + FILL + LAST_RUN)
    assert not [text for text in found.remarks if "-D" in text]
    assert totals(found) == (14, 14, 0, 0)


def test_runs_before_the_log_are_not_missing(tmp_path: Path) -> None:
    """A log of jobs that ended in some days has the last run of a job that was requeued before
    them.
    """
    requeued = row("50", "00:10:00", "00:20:00", "03:00:00", 1, "n2")
    early = row("99", "00:00:00", "00:30:00", "01:00:00", 1, "n1")
    assert not read(tmp_path, HEADER + early + requeued + FILL).log.note


def test_ids_that_do_not_follow_the_submissions_tell_nothing(tmp_path: Path) -> None:
    """After MaxJobId, ids begin again."""
    again = "".join(
        row(f"{hour}", f"{hour:02d}:10:00", f"{hour:02d}:30:00", f"{hour:02d}:40:00", 1, "n1")
        for hour in range(2, 13)
    )
    found = read(tmp_path, HEADER + FILL + again)
    assert not found.log.note


RESIZED = (
    row("3", "00:00:00", "00:00:00", "02:00:00", 2, "n[1-2]", "RESIZING"),
    row("3", "02:00:00", "00:00:00", "08:00:00", 1, "n1"),
    row("4", "08:00:00", "08:00:00", "10:00:00", 2, "n[1-2]"),
    row("5", "10:00:00", "10:00:00", "10:00:10", 2, "n[1-2]"),
)


def test_the_record_before_a_change_of_nodes_ends_there(tmp_path: Path) -> None:
    found = read(tmp_path, HEADER + "".join(RESIZED))
    assert totals(found) == (4, 4, 0, 0)
    assert idle_share(found) == pytest.approx(0.375)
    completed = read(tmp_path, HEADER + "".join(RESIZED).replace("RESIZING", "COMPLETED"))
    assert idle_share(completed) == idle_share(found)


def test_nodes_that_a_job_gets_later_were_not_its_before(tmp_path: Path) -> None:
    first = row("2", "00:00:00", "00:00:00", "01:00:00", 1, "n2")
    small = row("3", "00:00:00", "00:00:00", "05:00:00", 1, "n1", "RESIZING")
    large = row("3", "05:00:00", "00:00:00", "09:00:00", 2, "n[1-2]")
    found = read(tmp_path, HEADER + first + small + large + RESIZED[3])
    # n2 is idle from 1 to 5 h and both from 9 to 10 h, of two nodes in 9 hours.
    assert idle_share(found) == pytest.approx(6 / 18)
    assert not found.log.note, "the submit time of the second record is that of the change"


def test_a_change_of_nodes_that_goes_on_still_runs(tmp_path: Path) -> None:
    changing = row("3", "00:00:00", "00:00:00", "02:00:00", 2, "n[1-2]", "RESIZING").replace(
        f"{DAY}02:00:00", "Unknown"
    )
    found = read(
        tmp_path, HEADER + changing + row("4", "01:00:00", "01:00:00", "02:00:00", 1, "n3")
    )
    assert "1 of them still running" in " ".join(found.remarks)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "share", "warns"),
    [
        ("sacct-requeued-runs/all.txt", 0.0005, False),
        ("sacct-requeued-runs/last.txt", 0.6088, True),
        ("sacct-resized-job/resized.txt", 0.375, False),
    ],
)
def test_samples(name: str, share: float, warns: bool) -> None:
    opened = open_log(data_file(f"{SAMPLES}/{name}"), PLAIN)
    assert idle_share(opened) == pytest.approx(share, abs=6e-5)
    assert ("lacks all runs before the last" in opened.log.note) == warns


@pytest.mark.data
@pytest.mark.parametrize(
    "name",
    [
        "sacct-requeued-runs/recorded-D.txt",
        "sacct-requeued-runs/recorded-documented.txt",
        "sacct-resized-job/recorded-22.05.8.txt",
    ],
)
def test_recorded_requeues_and_changes_of_nodes(name: str) -> None:
    opened = open_log(data_file(f"{SAMPLES}/{name}"), PLAIN)
    read_records, used, ignored, skipped = totals(opened)
    assert (used, ignored, skipped) == (read_records, 0, 0)
