"""sacct --parsable2, jobcomp/filetxt.

The texts are minimal examples made by hand after the real ones, which the tests marked ``data``
read where they are.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from support.data import data_file
from support.reading_logs import changes, read, totals

from bftrainer.errors import InputFileError, UserError
from bftrainer_replay.logs.open import open_log
from bftrainer_replay.logs.source import ImportOptions

HEADER = "JobID|Submit|Eligible|Start|End|NNodes|NodeList|State"
DAY = "2026-02-01T"


def line(
    job: str,
    submit: str,
    start: str,
    end: str,
    nodes: str,
    state: str = "COMPLETED",
    count: int = 1,
) -> str:
    times = [each if each[:1].isalpha() else DAY + each for each in (submit, submit, start, end)]
    return "|".join((job, *times, str(count), nodes, state))


THREE = [
    line("1", "00:00:00", "00:00:00", "01:00:00", "cn1"),
    line("2", "00:00:00", "00:00:00", "02:00:00", "cn[2-3]", count=2),
    line("3", "00:30:00", "02:30:00", "03:00:00", "cn[1-3]", count=3),
]
IDLE = [
    (0, ["cn1"], []),
    (3600, ["cn2", "cn3"], []),
    (5400, [], []),
]  # what starts at the very end is not seen


def sacct(*lines: str, header: str = HEADER) -> str:
    return "\n".join((header, *lines)) + "\n"


def with_end(*lines: str) -> str:
    """With a last job, so that the log reaches to 02:30."""
    return sacct(*lines, line("9", "02:30:00", "02:30:00", "04:00:00", "cn9"))


def test_idle_nodes_and_the_queue(tmp_path: Path) -> None:
    found = read(tmp_path, with_end(*THREE))
    names = [
        (at, [n for n in j if n != "cn9"], [n for n in k if n != "cn9"])
        for at, j, k in changes(found)
    ]
    assert names == IDLE
    assert totals(found) == (4, 4, 0, 0)
    queue = found.log.queue
    assert queue.nodes.tolist() == [1, 2, 3, 1]
    assert (queue.start_s[:] - queue.eligible_s[:]).tolist() == [0, 0, 7200, 0]
    assert found.log.note == ""


def test_any_order_of_columns_bars_in_names_and_trailing_bars(tmp_path: Path) -> None:
    plain = read(tmp_path, with_end(*THREE))
    rows = [row.split("|") for row in with_end(*THREE).splitlines()]
    for order in ([7, 6, 5, 4, 3, 2, 1, 0], [3, 1, 0, 2, 4, 6, 5, 7]):
        text = "\n".join("|".join(row[k] for k in order) for row in rows) + "\n"
        assert read(tmp_path, text).log.events == plain.log.events
    names = ["JobName", "a|b", "", "|||", "x"]
    text = (
        "\n".join(
            "|".join((*row[:4], name, *row[4:])) for row, name in zip(rows, names, strict=True)
        )
        + "\n"
    )
    assert read(tmp_path, text).log.events == plain.log.events
    text = "".join("|".join(row) + "|\n" for row in rows)  # sacct --parsable
    assert read(tmp_path, text).log.events == plain.log.events


def test_steps_arrays_het_jobs_and_jobs_that_never_ran(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        sacct(
            *THREE,
            line("1.batch", "00:00:00", "00:00:00", "01:00:00", "cn1"),
            line("1.0", "00:00:00", "00:00:00", "01:00:00", "cn1"),
            line("4_7", "00:00:00", "00:00:00", "01:00:00", "cn4"),
            line("5+0", "00:00:00", "00:00:00", "01:00:00", "cn5"),
            line("5+1", "00:00:00", "00:00:00", "01:00:00", "cn6"),
            line("6_[1-3,8%2]", "00:00:00", "Unknown", "Unknown", "None assigned", "PENDING"),
            line("7", "00:00:00", "None", "02:00:00", "None assigned", "CANCELLED by 0"),
            line("8", "02:30:00", "02:30:00", "Unknown", "cn1", "RUNNING"),
            line("10", "00:00:00", "00:00:00", "00:00:00", "", "FAILED", 0),
        ),
    )
    assert totals(found) == (12, 9, 3, 0)
    assert "2 steps" in found.totals[0]
    assert sum(math.isnan(start) for start in found.log.queue.start_s[:]) == 5
    assert set(found.log.nodes()) == {"cn1", "cn2", "cn3", "cn4", "cn5", "cn6"}


def test_a_job_that_was_never_eligible_never_waits(tmp_path: Path) -> None:
    held = f"4|{DAY}00:00:00|Unknown|Unknown|Unknown|1|None assigned|PENDING"
    queue = read(tmp_path, with_end(*THREE, held)).log.queue
    assert queue.eligible_s[:][-1] == math.inf


def test_running_jobs_keep_their_nodes(tmp_path: Path) -> None:
    found = read(
        tmp_path, sacct(*THREE, line("4", "00:10:00", "00:30:00", "00:30:00", "cn4", "RUNNING"))
    )
    assert (
        found.log.events[-1].at_s - found.log.events[0].at_s == 7200
    )  # to 03:00, the last time there is
    assert "cn4" not in {name for event in found.log.events[1:] for name in event.change.joined}


def test_without_node_list_nodes_are_simulated_and_marked(tmp_path: Path) -> None:
    rows = [row.split("|") for row in with_end(*THREE).splitlines()]
    found = read(tmp_path, "\n".join("|".join(row[:6]) for row in rows) + "\n", machine_nodes=4)
    assert found.log.note.startswith("nodes simulated by first-fit")
    assert "simulated by first-fit" in found.log.source
    assert all(name.startswith("firstfit-") for name in found.log.nodes())


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ("1|x", "has 2 fields, expected 8"),
        (
            line("1", "00:00:00", "00:00:00", "01:00:00", "cn1", "FLYING"),
            "job state 'FLYING' is unknown",
        ),
        (line("1", "00:00:00", "02:00:00", "01:00:00", "cn1"), "ends 3,600 s before it starts"),
        (
            line("1", "00:00:00", "00:00:00", "01:00:00", "None assigned"),
            "the job ran, but its node list is None assigned",
        ),
        (line("1", "00:00:00", "00:00:00", "01:00:00", "cn[1-2]"), "names 2 nodes, the job has 1"),
        (line("1", "00:00:00", "00:00:00", "01:00:00", "cn[1-"), "bracket"),
        (
            line("1", "00:00:00", "00:00:00", "01:00:00", "other[1-2]"),
            "names 2 nodes, the job has 1",
        ),
        (line("1", "00:00:00", "00:00:00", "25:00:00", "cn1"), "is not a time"),
        (line("1", "Unknown", "Unknown", "Unknown", "cn1"), "no submit"),
        (line("1_[x]", "00:00:00", "Unknown", "Unknown", ""), "not a job id of an array"),
    ],
)
def test_bad_lines_are_refused_or_counted(tmp_path: Path, bad: str, problem: str) -> None:
    text = with_end(THREE[0], bad, *THREE[1:])
    with pytest.raises(InputFileError) as refusal:
        read(tmp_path, text)
    assert refusal.value.where == f"{tmp_path / 'log'}:3"
    assert problem in refusal.value.problem
    skipped = read(tmp_path, text, skip_bad=True)
    assert totals(skipped) == (5, 4, 0, 1)
    assert problem in skipped.totals[1]
    assert (
        skipped.log.events == read(tmp_path, with_end(*THREE)).log.events
    )  # nodes that only bad lines name are no nodes


def test_the_zone_of_the_log(tmp_path: Path) -> None:
    utc, zurich = (
        read(tmp_path, with_end(*THREE)),
        read(tmp_path, with_end(*THREE), timezone="Europe/Zurich"),
    )
    assert utc.log.events[0].at_s - zurich.log.events[0].at_s == 3600
    assert any("--timezone" in remark for remark in utc.remarks)
    assert not any("--timezone" in remark for remark in zurich.remarks)
    epochs = with_end(*THREE)
    for hour in range(5):
        for half in ("00", "30"):
            stamp = 1769904000 + 3600 * hour + 60 * int(half)
            epochs = epochs.replace(f"{DAY}0{hour}:{half}:00", str(stamp))
    assert read(tmp_path, epochs, timezone="Europe/Zurich").log.events == utc.log.events


JOBCOMP = (
    "JobId={id} UserId=u(1) GroupId=g(1) Name={name} JobState=COMPLETED Partition=main "
    "TimeLimit=6 StartTime={start} "
    "EndTime={end} NodeList={nodes} NodeCnt={count} ProcCnt=2 WorkDir=/h ReservationName= "
    "Tres=cpu=1 Account= QOS= "
    "WcKey= Cluster=c SubmitTime={submit} EligibleTime={submit} DerivedExitCode=0:0 ExitCode=0:0 \n"
)


def test_jobcomp(tmp_path: Path) -> None:
    rows = [
        ("00:00:00", "00:00:00", "01:00:00", "cn1", 1),
        ("00:00:00", "00:00:00", "02:00:00", "cn[2-3]", 2),
        ("00:30:00", "02:30:00", "03:00:00", "cn[1-3]", 3),
        ("02:30:00", "02:30:00", "04:00:00", "cn9", 1),
    ]
    text = "".join(
        JOBCOMP.format(
            id=k,
            name="a b=c NodeCnt=7",
            submit=DAY + s,
            start=DAY + a,
            end=DAY + e,
            nodes=n,
            count=c,
        )
        for k, (s, a, e, n, c) in enumerate(rows)
    )
    assert read(tmp_path, text).log.events == read(tmp_path, with_end(*THREE)).log.events
    with pytest.raises(InputFileError, match=r"log:2: the node list names 2 nodes, the job has 3"):
        read(tmp_path, text.replace("NodeCnt=2", "NodeCnt=3"))


@pytest.mark.data
def test_a_real_cluster() -> None:
    """sacct and jobcomp of a 22.05 cluster: every record is read."""
    folder = data_file("../samples/slurm-22.05.8")
    options = ImportOptions(debounce_s=0, warm_up_h=0, cool_down_h=0, outages=("none",))
    for name in (
        "after_preempt",
        "planned",
        "future_resv",
        "planned_with_placeholders",
        "pyslurm_moment",
    ):
        assert totals(open_log(folder / f"{name}.sacct.txt", options))[3] == 0, name
    assert totals(open_log(folder / "jobcomp_filetxt.log", options))[3] == 0


COLUMNS = "JobID|Cluster|User|Submit|Start|End|NNodes|NodeList|State\n"


def of_cluster(number: int, cluster: str = "a", user: str = "ann", day: int = 1) -> str:
    times = f"2026-02-{day:02d}T00:00:00|2026-02-{day:02d}T00:00:00|2026-02-{day:02d}T12:00:00"
    return f"{number}|{cluster}|{user}|{times}|1|n{number % 4}|COMPLETED\n"


def test_months_that_overlap_or_were_written_one_after_another(tmp_path: Path) -> None:
    january = COLUMNS + "".join(of_cluster(k, day=k) for k in range(1, 20))
    february = COLUMNS + "".join(of_cluster(k, day=k) for k in range(15, 28))
    found = read(tmp_path, january + february)
    assert totals(found) == (32 + 1, 27, 6, 0)
    assert "5 that are in the log twice" in found.totals[0]
    assert "1 repeated headers" in found.totals[0]


def test_several_clusters_need_a_choice(tmp_path: Path) -> None:
    both = COLUMNS + "".join(of_cluster(k, "ab"[k % 2], f"u{k % 3}", day=k) for k in range(1, 28))
    with pytest.raises(
        UserError, match=r"has jobs of 2 clusters: b \(14\), a \(13\); choose one with --cluster"
    ):
        read(tmp_path, both)
    assert totals(read(tmp_path, both, cluster="b"))[1] == 14
    with pytest.raises(UserError, match="--cluster needs the column Cluster"):
        read(tmp_path, both.replace("Cluster", "Other"), cluster="b")


def test_a_log_that_lacks_its_times_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(
        InputFileError, match="the sacct columns lack Start, End; run sacct with --format="
    ):
        read(tmp_path, "JobID|Submit|NNodes|State\n1|2026-02-01T00:00:00|1|COMPLETED\n")


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (
            (COLUMNS + of_cluster(1)).encode("utf-16"),
            "is UTF-16 text, expected UTF-8; convert it: iconv",
        ),
        (b'{"nodes": []}', "is JSON without a list of jobs; for Slurm, run the sacct command"),
        (
            b"\x28\xb5\x2f\xfd\x04\x00",
            "is compressed by zstd, expected text, gzip, bzip2 or xz; run zstd -d",
        ),
    ],
)
def test_what_is_no_plain_text_is_named(tmp_path: Path, data: bytes, told: str) -> None:
    with pytest.raises(InputFileError, match=re.escape(told)):
        read(tmp_path, data)


def test_a_log_of_bad_lines_is_refused_unless_their_share_is_named(tmp_path: Path) -> None:
    good = "".join(of_cluster(k, day=1 + k % 27) for k in range(1, 90))
    bad = "".join(f"{k}|a|ann|yesterday|-|-|1|n1|COMPLETED\n" for k in range(100, 111))
    with pytest.raises(
        UserError,
        match=r"11 of 100 jobs cannot be read \(11.0%\), so the idle share would be wrong",
    ):
        read(tmp_path, COLUMNS + good + bad, skip_bad=True)
    found = read(tmp_path, COLUMNS + good + bad, skip_bad=True, most_bad=0.2)
    (told,) = [each for each in found.remarks if each.startswith("11 jobs were skipped (11.0%)")]
    assert re.search(
        r"what they held counts as idle: [\d.]+% of the node-time, or down to [\d.]+% if they "
        r"were as large as",
        told,
    )


def test_what_skipped_jobs_held_is_bounded_by_the_largest_jobs(tmp_path: Path) -> None:
    """One of a thousand jobs can hold most of the node-time: no mean tells what a skipped one
    held.
    """
    small = "".join(
        f"{k}|a|ann|2026-02-01T00:00:{k % 60:02d}|2026-02-01T00:00:{k % 60:02d}|2026-02-01T00:01:00|1|n1|COMPLETED\n"
        for k in range(100)
    )
    large = "200|a|ann|2026-02-01T00:00:00|2026-02-01T00:00:00|2026-02-01T12:00:00|50|n[1-50]|COMPLETED\n"
    last = "201|a|ann|2026-02-02T00:00:00|2026-02-02T00:00:00|2026-02-02T00:00:10|50|n[1-50]|COMPLETED\n"
    bad = "202|a|ann|yesterday|-|-|1|n1|COMPLETED\n"
    found = read(tmp_path, COLUMNS + small + large + bad + last, skip_bad=True)
    (told,) = [text for text in found.remarks if text.startswith("1 job was skipped")]
    assert "50.0% of the node-time, or down to 0.1% if" in told
