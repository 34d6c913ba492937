"""lsb.acct, bhist -l and bacct -l. The texts are minimal examples by hand after real ones; those
marked ``data`` are real.
"""

from __future__ import annotations

import os
import re
import tarfile
from pathlib import Path

import pytest
from support.data import data_file
from support.reading_logs import PLAIN, changes, read, totals

from bftrainer.errors import InputFileError
from bftrainer_replay.logs.event_log import format_time
from bftrainer_replay.logs.open import open_log

T = 1_600_000_000


def record(
    submit: int,
    start: int,
    end: int,
    hosts: list[str],
    version: str = "10.1",
    slots: int = 4,
    asked: str = "0",
) -> str:
    """A JOB_FINISH record as far as the job status and beyond; the command holds quotes, blanks and
    numbers.
    """
    listed = " ".join([str(len(hosts)), *(f'"{host}"' for host in hosts)])
    return (
        f'"JOB_FINISH" "{version}" {end} 17 1000 33554482 {slots} {submit} 0 0 {start} "user" '
        '"queue" "span[ptile=4]" "" "" '
        f'"login" "dir" "" "out" "err" "1.17" {asked} {listed} 64 60.0 "name" "echo ""a  b"" 3 '
        '""c"";#BSUB -n 4" 1.5 0.5 0 0'
    )


JOBS = [
    record(T, T, T + 100, ["4*h1"]),
    record(T, T, T + 200, ["4*h2", "4*h3"], slots=8, asked='2 "h1" "h2"'),
    record(T + 50, T + 300, T + 400, ["h1", "h1", "h2"], version="9.11", slots=3),
]


def test_job_finish(tmp_path: Path) -> None:
    found = read(tmp_path, "\n".join([*JOBS, record(T + 300, T + 300, T + 900, ["4*h3"])]) + "\n")
    assert changes(found) == [(0, ["h1"], []), (100, ["h2", "h3"], []), (200, [], [])]
    assert totals(found) == (4, 4, 0, 0)
    assert found.log.queue.nodes.tolist() == [1, 2, 2, 1]


def test_other_records_are_counted_and_jobs_that_never_started_wait(tmp_path: Path) -> None:
    other = '"EVENT_ADRSV_FINISH" "10.1" 1600000000 1 2'
    never = record(T + 60, 0, T + 700, [], slots=16)
    found = read(
        tmp_path,
        "\n".join([*JOBS, other, never, record(T + 800, T + 800, T + 900, ["4*h3"])]) + "\n",
    )
    assert totals(found) == (6, 5, 1, 0)
    assert "1 EVENT_ADRSV_FINISH records" in found.totals[0]
    assert 4 in found.log.queue.nodes.tolist()  # 16 slots over 4 a host
    assert any(
        "never started" in remark and "4 per node (the most frequent" in remark
        for remark in found.remarks
    )


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('"4*h1" 64', '"4*h1" 65', "job status '65'"),
        ('1 "4*h1"', '9 "4*h1"', "ends within the list of its 9 execution hosts|job status"),
        ('1 "4*h1"', 'x "4*h1"', "not a number of execution hosts"),
        ('"err" "1.17"', '"err""1.17"', "not a number|no blank|fields|status|ends within"),
        (f" {T} 0 0 {T} ", f" {T} 0 0 {T + 900} ", "ends 800 s before"),
        ('"user"', '"user', "quotes|no blank"),
        ('"4*h1"', '"4*"', "not an execution host"),
        ('"4*h1"', '"9999999*h1"', "not an execution host"),
    ],
)
def test_bad_records(tmp_path: Path, old: str, new: str, problem: str) -> None:
    text = "\n".join([*JOBS[1:], JOBS[0].replace(old, new, 1)]) + "\n"
    with pytest.raises(InputFileError, match=rf"log:3: .*(?:{problem})"):
        read(tmp_path, text)
    assert totals(read(tmp_path, text, skip_bad=True)) == (3, 2, 0, 1)


BHIST = """
Job <101>, Job Name <a>, User <u>, Project <default>, Status <DONE>, Queue <normal>, Comma
                     nd <sleep 100>
Wed Oct 14 20:00:00: Submitted from host <login1>, CWD <$HOME>, 8 Task(s), Requested Reso
                     urces <span[ptile=4]>;
Wed Oct 14 20:00:00: Dispatched 8 Task(s) on Host(s) <4*h1> <4*h2>, Allocated 8 Slot(s
                     ) on Host(s) <4*h1> <4
                     *h2>, Effective RES_REQ <select[type == any] order[r15s:pg] >;
Wed Oct 14 20:10:00: Completed <done>.

Accounting information about this job:
     CPU_T     WAIT     TURNAROUND   STATUS     HOG_FACTOR    MEM    SWAP
      0.10        0            101     done         0.0010     7M      0M
------------------------------------------------------------------------------

Job <102>, User <u>, Project <default>, Status <DONE>, Queue <normal>, Command <x>
Wed Oct 14 20:05:00: Submitted from host <login1>, 4 Processors Requested;
Wed Oct 14 20:20:00: Started on 4 Hosts/Processors <4*h1>, Execution Home </home/u>;
Wed Oct 14 20:30:00: Done successfully. The CPU time used is 0.1 seconds;

Job <103[2]>, User <u>, Project <default>, Status <RUN>, Queue <normal>, Command <x>
Wed Oct 14 20:05:00: Submitted from host <login1>;
Wed Oct 14 20:05:00: Dispatched to <h3>;
Wed Oct 14 20:06:00: Starting (Pid 77);

Job <104>, User <u>, Project <default>, Status <EXIT>, Queue <normal>, Command <x>
Wed Oct 14 20:31:00: Submitted from host <login1>, 8 Task(s);
Wed Oct 14 20:40:00: Exited; job killed by owner;
"""


def test_paragraphs_of_bhist_and_bacct(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(BHIST)
    os.utime(
        path, (1_700_000_000, 1_700_000_000)
    )  # 2023: the 14th of October was a Wednesday in 2020
    found = open_log(path, PLAIN)
    assert totals(found) == (4, 4, 0, 0)
    assert format_time(found.log.events[0].at_s) == "2020-10-14T20:10:00"
    assert changes(found) == [
        (0, ["h1", "h2"], []),
        (600, [], ["h1"]),
        (1200, ["h1"], []),
        (1260, [], []),
    ]
    assert sorted(found.log.queue.nodes.tolist()) == [1, 1, 2, 2]


def test_a_year_may_stand_there(tmp_path: Path) -> None:
    found = read(
        tmp_path, re.sub(r"^(Wed Oct 14 [0-9:]{8}):", r"\1 2009:", BHIST, flags=re.MULTILINE)
    )
    assert 1_255_000_000 < found.log.events[0].at_s < 1_256_000_000


def test_a_bad_host_in_a_paragraph(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match=r"log:2: .*not an execution host"):
        read(tmp_path, BHIST.replace("<4*h1> <4\n", "<x*h1> <4\n"))


@pytest.mark.data
def test_real_records(tmp_path: Path) -> None:
    """XDMoD's LSF records (9.11): whole records are read; one that is cut off is refused."""
    with tarfile.open(data_file("slurm-formats/scheduler-output-samples.tar.gz")) as archive:
        name = next(
            each
            for each in archive.getnames()
            if each.endswith("xdmod-shredder-lsf/accounting-logs.log")
        )
        content = archive.extractfile(name)
        data = content.read()
    found = read(tmp_path, data, skip_bad=True)
    read_, used, _, skipped = totals(found)
    assert read_ == len([line for line in data.splitlines() if line])
    assert used == read_ - skipped
    assert used >= 2
    assert len(found.log.nodes()) <= 8 + 4
