"""Past jobs from sacct and from a file, for ``bftrainer audit``: recorded answers, and lines that are
none.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command_line import bftrainer, complaint
from support.recorded_slurm import recorded

from bftrainer.cluster.main_delays import main_delays
from bftrainer.cluster.past_jobs import Outage
from bftrainer.errors import CommandError, InputFileError
from bftrainer_clusters.slurm.past_jobs import COLUMNS, file_log, live_log

NOW_S = 1795913800.0
HOLDERS = "18423002\n18423003\n18423004\n18423005\n"
HEADER = "JobIDRaw|Partition|NNodes|Eligible|Start|End|TimelimitRaw|NodeList|JobName\n"


class Sacct:
    """Answers as recorded; ``argv`` are the calls."""

    def __init__(self, jobs: str = "", holders: str = HOLDERS, *, has_events: bool = True) -> None:
        self.jobs = jobs or recorded("audit.jobs.txt")
        self.holders, self.has_events = holders, has_events
        self.argv: list[list[str]] = []

    def __call__(self, argv: list[str]) -> str:
        self.argv.append(argv)
        if argv[0] == "scontrol":
            return recorded("site-recommended.partitions.txt").replace("[01-08]", "[01-04]")
        if argv[0] == "sacctmgr":
            if not self.has_events:
                raise CommandError(argv, "no slurmdbd")
            return recorded("audit.events.txt")
        return self.holders if any(word.startswith("--name=") for word in argv) else self.jobs


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """sacct printed the recorded file there."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_a_recorded_delay_is_found_to_the_second() -> None:
    log = live_log(0.5, Sacct(), NOW_S)
    assert (len(log.jobs), log.skipped, log.remarks) == (5, 0, ())
    assert log.partitions["main"] >= {"node01", "node04"}
    assert Outage("node01", 1795913720.0, 1795913720.0) in log.outages
    (delay,) = main_delays(log)
    assert (delay.job.id, delay.seconds, delay.missing) == ("18423006", 12.0, 2)


def test_sacct_is_asked_for_no_text_of_users() -> None:
    """A job's name may hold a line that looks like another job."""
    assert not {"JobName", "Comment", "AdminComment", "WorkDir"} & set(COLUMNS)
    sacct = Sacct()
    live_log(2.5, sacct, NOW_S)
    days = [argv[argv.index("-S") + 1] for argv in sacct.argv if argv[0] == "sacct"]
    assert len(days) == 6, "two calls for each day"
    assert days[0] == "2026-11-26T12:56:40"


def test_jobs_of_two_days_are_one_job() -> None:
    log = live_log(3.0, Sacct(), NOW_S)
    assert len({job.id for job in log.jobs}) == len(log.jobs) == 5


def test_without_events_the_result_says_so() -> None:
    log = live_log(0.5, Sacct(has_events=False), NOW_S)
    assert log.outages == ()
    assert "times at which nodes were down are not known" in log.remarks[0]


def test_where_no_job_of_others_is_seen_the_result_says_so() -> None:
    """The recorded jobs are root's."""
    assert live_log(0.5, Sacct(), NOW_S, "root").remarks == ()
    assert live_log(0.5, Sacct(), NOW_S, "ann").remarks == ()
    own = recorded("audit.jobs.txt").replace("|root|", "|ann|")
    (remark,) = live_log(0.5, Sacct(own), NOW_S, "ann").remarks
    assert "slurmdbd may hide them" in remark


def test_a_file_with_names_of_jobs(tmp_path: Path, utc: None) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text(recorded("audit.file.txt"))
    log = file_log(path)
    assert [job.is_holder for job in log.jobs] == [True] * 4 + [False]
    assert log.skipped == 1, "the rest of a name"
    (delay,) = main_delays(log)
    assert delay.seconds == 12.0


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("7|main|2|100|130|200|60|n[1-2]|a|b|c", (2, 100.0, 130.0, 200.0)),
        ("7|main|2|100|130|Unknown|60|n[1-2]|a", (2, 100.0, 130.0, None)),
        ("7|main|2|100|Unknown|Unknown|60|None assigned|a", (2, 100.0, None, None)),
        ("7|main|2|100|None|150|60|None assigned|a", (2, 100.0, 150.0, 150.0)),
        ("7|main|2|Unknown|Unknown|Unknown|60||held", None),
        ("7.batch|main|2|100|130|200|60|n1|batch", None),
    ],
)
def test_rows(row: str, expected: tuple[object, ...] | None, tmp_path: Path) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text(HEADER + "1|main|1|1|1|2|1|n1|x\n" + row + "\n")
    log = file_log(path)
    assert log.skipped == 0
    facts = [
        (job.size, job.eligible_s, job.start_s, job.end_s) for job in log.jobs if job.id == "7"
    ]
    assert facts == ([] if expected is None else [expected])
    assert all(job.limit_s in (60.0, 3600.0) for job in log.jobs)


@pytest.mark.parametrize("reason", ["None", "Resources", "QOSMaxJobsPerUserLimit"])
def test_a_job_that_waited_for_something_else_too(reason: str) -> None:
    text = recorded("audit.jobs.txt").replace("|5|1|None|", f"|5|1|{reason}|")
    (delay,) = main_delays(live_log(0.5, Sacct(text), NOW_S))
    assert delay.job.other_reason == (reason if reason.startswith("QOS") else "")


@pytest.mark.parametrize(
    "row",
    [
        "x y|main|1|1|1|2|1|n1|bad id",
        "7|main|many|1|1|2|1|n1|bad number",
        "7|main|1|yesterday|1|2|1|n1|bad time",
        "7|main|1|1|1|2|1|n[1-999999999]|too many nodes",
        "7|main",
    ],
)
def test_rows_that_cannot_be_read_are_counted(row: str, tmp_path: Path) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text(HEADER + "1|main|1|1|1|2|1|n1|x\n" + row + "\n")
    log = file_log(path)
    assert (len(log.jobs), log.skipped) == (1, 1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ":1: is no header with the columns nnodes"),
        ("1|2|3\n", ":1: is no header"),
        ("JobID|Start|End\n", "columns nnodes, eligible, nodelist, partition, jobname; make"),
        (HEADER, ": has no jobs, expected the output of: sacct -a -X"),
        (HEADER + "1" * 1_000_001 + "\n", ":2: is too long"),
    ],
)
def test_files_that_are_no_account(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text(text)
    with pytest.raises(InputFileError) as error:
        file_log(path)
    assert words in str(error.value)
    assert "\n" not in str(error.value)
    assert words in complaint(bftrainer("audit", path))


def test_a_pipe_that_nobody_writes_to_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "jobs.txt")
    with pytest.raises(InputFileError, match="is a named pipe, expected a file"):
        file_log(tmp_path / "jobs.txt")


@pytest.mark.parametrize("option", ["--within", "--days"])
def test_nan_is_no_number_of_seconds_or_days(option: str) -> None:
    assert "nan is not a finite number" in complaint(bftrainer("audit", option, "nan"))


def test_the_command_prints_a_table_and_one_line(tmp_path: Path, utc: None) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text(recorded("audit.file.txt"))
    ended = bftrainer("audit", path, env={"COLUMNS": "80"})
    assert ended.status == 0
    *_, row, verdict = ended.out.splitlines()
    assert row.split()[:1] == ["18423006"]
    assert verdict == (
        "1 of 1 main job waited longer than 5 s for held nodes in 21 s (worst: 12 s, job 18423006)"
    )
    assert max(map(len, ended.out.splitlines()[:-1])) <= 80
    assert "not counted: 1 record" in ended.err
    kind = bftrainer("audit", path, "--within", "12")
    assert "none of 1 main job waited longer than 12 s" in kind.out
    assert kind.status == 0


def test_the_command_prints_json(tmp_path: Path, utc: None) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text(recorded("audit.file.txt"))
    delay, summary = map(json.loads, bftrainer("audit", path, "--json").out.splitlines())
    assert (delay["job"], delay["delay_s"], delay["held"]) == ("18423006", 12.0, 4)
    assert (summary["main_jobs"], summary["holders"], summary["late"]) == (1, 4, 1)
    assert summary["worst_s"] == 12.0


def test_no_account_of_lsf() -> None:
    assert "expected slurm" in complaint(bftrainer("audit", "--scheduler", "lsf"))
    assert "expected slurm" in complaint(bftrainer("site-setup", "--scheduler", "lsf"))
