"""Nodes that were down, drained or reserved, and records that cannot be right: the idle share
before and after.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from replay.commands import executed
from replay.windows import window
from support.reading_logs import PLAIN, read

from bftrainer.errors import InputFileError, UserError
from bftrainer_replay.analysis.characterize import characterize
from bftrainer_replay.logs.model import SilentNodes, restricted_log
from bftrainer_replay.logs.open import OpenedLog
from bftrainer_replay.report.top import without_empty, without_silent

HEADER = "JobID|Submit|Start|End|TimelimitRaw|NNodes|NodeList|State\n"


def job(
    number: int,
    start_h: float,
    end_h: float | None,
    nodes: str,
    count: int = 1,
    limit_min: object = 60,
) -> str:
    """Hours after midnight of 1 February 2026."""
    end, state = ("Unknown", "RUNNING") if end_h is None else (at(end_h), "COMPLETED")
    return f"{number}|{at(start_h)}|{at(start_h)}|{end}|{limit_min}|{count}|{nodes}|{state}\n"


def at(hours: float) -> str:
    day, minutes = divmod(round(60 * hours), 1440)
    return f"2026-02-{1 + day:02d}T{minutes // 60:02d}:{minutes % 60:02d}:00"


def fortnight(quiet_from_h: float = 336.0) -> str:
    """14 days: n1 to n3 run a job of 18 hours a day, n4 only before ``quiet_from_h``."""
    lines = [
        job(10 * day + node, 24 * day, 24 * day + 18, f"n{node}", limit_min=1440)
        for day in range(15)
        for node in range(1, 5)
        if node < 4 or 24 * day < quiet_from_h
    ]
    return HEADER + "".join(lines)


def idle_share(opened: OpenedLog) -> float:
    return characterize(restricted_log(opened.log)).idle_share


def remark(opened: OpenedLog, start: str) -> str:
    found = [each for each in opened.remarks if re.match(start, each)]
    assert len(found) == 1, opened.remarks
    return found[0]


# The first lines are as Slurm 22.05.8 prints them.
EVENTS = """\
Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User
lab||2026-02-01T00:00:00|Unknown||Cluster Registered TRES|
lab|n1|2026-02-01T00:00:00|2026-02-01T00:00:00|UNK|cold-start|root(0)
lab|n4|2026-02-04T00:00:00|Unknown|DOWN*|broken fan, see log|root(0)
lab|unheard-of|2026-02-04T00:00:00|Unknown|DRAIN|test|root(0)
"""


def test_a_node_that_is_down_for_eleven_of_fourteen_days_is_not_idle(tmp_path: Path) -> None:
    (tmp_path / "events").write_text(EVENTS)
    before = read(tmp_path, fortnight(quiet_from_h=72))
    after = read(tmp_path, fortnight(quiet_from_h=72), node_events=tmp_path / "events")
    # The span is from 18:00 of the first day to 0:00 of the last: 318 h, in which each idles 6 h in
    # 24.
    down_h = 11 * 24
    assert idle_share(before) == pytest.approx((3 * 14 * 6 + 3 * 6 + down_h) / (4 * 318))
    assert idle_share(after) == pytest.approx((3 * 14 * 6 + 3 * 6) / (4 * 318 - down_h))
    silent = remark(before, "1 node ran no job for 48 h or more")
    assert "(n4; 1 of them to its end)" in silent
    assert "--node-events FILE" in silent
    assert silent.endswith(
        f"without these periods {(14 * 3 + 2) * 6 / (4 * 318 - 270):.1%} of the node-time is "
        f"idle, not {idle_share(before):.1%}"
    )
    silent_nodes = before.log.site.silent
    assert silent_nodes == SilentNodes(
        1, pytest.approx(idle_share(before)), pytest.approx((14 * 3 + 2) * 6 / (4 * 318 - 270))
    )
    assert after.log.site.silent is None
    share = f"{silent_nodes.idle_share_without:.1%}"
    assert (
        without_silent(restricted_log(before.log))
        == f"{share} if the 1 node that ran no job for 48 hours or more were down"
    )
    assert without_silent(restricted_log(after.log)) == ""
    told = remark(after, "264 node-hours")
    assert (
        f"({264 / (4 * 318):.1%} of all) were out of service or reserved while no job ran" in told
    )
    assert characterize(restricted_log(after.log)).down_node_h == pytest.approx(264)


@pytest.mark.parametrize(("empty_h", "told"), [(4, True), (0, False), (20, False)])
def test_rare_times_in_which_nearly_all_is_idle_are_named(empty_h: int, told: bool) -> None:
    """100 h on ten nodes: one is idle all the time, the other nine at once, or often: then the
    cluster just has few jobs.
    """
    empty = ((3600 * at_h, "bcdefghij") for at_h in (50.0, 50.0 + empty_h))
    log = window(360_000.0, "a", *empty if empty_h else (), nodes=10)
    text = without_empty(log, characterize(log))
    # 96 h with one node, 4 h with ten
    assert text == (
        "10.0% without 4 hours in which over half were idle, as around maintenance" if told else ""
    )


def test_a_node_that_is_down_while_a_job_runs_is_busy(tmp_path: Path) -> None:
    (tmp_path / "events").write_text(
        EVENTS.replace(
            "|n4|2026-02-04T00:00:00|Unknown", "|n4|2026-02-04T06:00:00|2026-02-04T20:00:00"
        )
    )
    found = read(tmp_path, fortnight(), node_events=tmp_path / "events")
    assert characterize(restricted_log(found.log)).down_node_h == pytest.approx(2)


@pytest.mark.parametrize(
    "text",
    [
        # scontrol show reservation and scontrol -o show reservation of 22.05.8, and sacctmgr's.
        "ReservationName=maint StartTime=2026-02-04T18:00:00 EndTime=2026-02-05T00:00:00 "
        "Duration=06:00:00\n"
        "   Nodes=n[1-2] NodeCnt=2 CoreCnt=4 Features=(null) PartitionName=(null) "
        "Flags=MAINT,SPEC_NODES\n   TRES=cpu=4\n\n"
        "ReservationName=all StartTime=2026-02-04T18:00:00 EndTime=2026-02-05T00:00:00\n   "
        "Nodes=(null) NodeCnt=0\n",
        "ReservationName=maint StartTime=2026-02-04T18:00:00 EndTime=2026-02-05T00:00:00 "
        "Nodes=n[1-2] NodeCnt=2 TRES=cpu=2\n",
        "Name|TimeStart|TimeEnd|NodeNames\nmaint|2026-02-04T18:00:00|2026-02-05T00:00:00|n[1-2]\n",
    ],
)
def test_reserved_nodes_are_not_idle(tmp_path: Path, text: str) -> None:
    (tmp_path / "reservations").write_text(text)
    before, after = (
        read(tmp_path, fortnight()),
        read(tmp_path, fortnight(), reservations=tmp_path / "reservations"),
    )
    idle_h = idle_share(before) * 4 * 318
    assert idle_share(after) == pytest.approx((idle_h - 2 * 6) / (4 * 318 - 2 * 6))


def test_no_reservations_are_none(tmp_path: Path) -> None:
    (tmp_path / "reservations").write_text("No reservations in the system\n")
    after = read(tmp_path, fortnight(), reservations=tmp_path / "reservations")
    assert idle_share(after) == idle_share(read(tmp_path, fortnight()))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", None),
        (
            "n1 2026-02-01\n",
            "is not a header with the nodes, start and end of each; expected the output of "
            "sacctmgr",
        ),
        ("NodeName|TimeStart|TimeEnd\nn1|yesterday|Unknown\n", "'yesterday' is not a time"),
        ("NodeName|TimeStart|TimeEnd\nn1|Unknown|Unknown\n", "has no start"),
        ("NodeName|TimeStart|TimeEnd\nn[1|2026-02-01T00:00:00|Unknown\n", "n[1"),
        ("NodeName|TimeStart|TimeEnd\nn1\n", "has 1 fields, expected at least 3"),
    ],
)
def test_what_is_not_an_event(tmp_path: Path, text: str, message: str | None) -> None:
    (tmp_path / "events").write_text(text)
    if message is None:
        read(tmp_path, fortnight(), node_events=tmp_path / "events")
        return
    with pytest.raises(InputFileError, match=re.escape(message)) as caught:
        read(tmp_path, fortnight(), node_events=tmp_path / "events")
    assert f"{tmp_path / 'events'}:" in str(caught.value)


def test_events_of_another_cluster(tmp_path: Path) -> None:
    (tmp_path / "events").write_text("NodeName|TimeStart|TimeEnd\nx1|2026-02-01T00:00:00|Unknown\n")
    with pytest.raises(
        UserError, match=r"none of the nodes .* names like n1, those have names like x1"
    ):
        read(tmp_path, fortnight(), node_events=tmp_path / "events")


def test_the_nodes_of_all_events_have_a_limit(tmp_path: Path) -> None:
    rows = "n[000000-199999]|2026-02-01T00:00:00|Unknown\n" * 50
    (tmp_path / "events").write_text(f"NodeName|TimeStart|TimeEnd\n{rows}")
    with pytest.raises(InputFileError, match="--max-bytes"):
        read(tmp_path, fortnight(), node_events=tmp_path / "events", max_bytes=100_000_000)


def test_a_runaway_job_ends_at_its_limit(tmp_path: Path) -> None:
    """n4's last job has no end: without its limit of a day, n4 is busy for eleven days more."""
    log = fortnight(quiet_from_h=72) + job(99, 72, None, "n4", limit_min=1440)
    kept, ended = read(tmp_path, log, runaways="keep"), read(tmp_path, log)
    told = remark(ended, "1 job has no end, and their time limit was over before the log's end")
    assert "which leaves 258 node-hours" in told
    assert "--runaways keep" in told
    # With a running job, the log is trusted to the last time in it, which is 18 h later.
    assert idle_share(kept) == pytest.approx((3 * 14 * 6 + 3 * 6) / (4 * 336))
    assert idle_share(ended) == pytest.approx((3 * 14 * 6 + 3 * 6 + 240) / (4 * 318))


def test_a_job_that_still_runs_within_its_limit_is_no_runaway(tmp_path: Path) -> None:
    found = read(tmp_path, fortnight() + job(99, 353, None, "n1"))
    assert not [each for each in found.remarks if "have no end" in each]


def test_one_record_of_2036_is_left_out(tmp_path: Path) -> None:
    log = fortnight() + job(99, 0, 1, "n1").replace("2026", "2036")
    kept, dropped = read(tmp_path, log, outliers="keep"), read(tmp_path, log)
    assert idle_share(kept) > 0.98
    assert idle_share(dropped) == pytest.approx(idle_share(read(tmp_path, fortnight())))
    told = remark(dropped, "1 job left out, dated 2036-02-01T00:00:00")
    assert "--outliers keep" in told


def test_an_end_in_2036_is_no_end(tmp_path: Path) -> None:
    log = fortnight(quiet_from_h=72) + job(99, 72, 73, "n4", limit_min=1440).replace(
        "2026-02-04T01", "2036-02-04T01"
    )
    assert idle_share(read(tmp_path, log)) == pytest.approx((3 * 14 * 6 + 3 * 6 + 240) / (4 * 318))


def test_the_options_reach_the_report(tmp_path: Path) -> None:
    (tmp_path / "events").write_text(EVENTS)
    (tmp_path / "sacct.txt").write_text(fortnight(quiet_from_h=72))
    plain = ("--debounce-s", 0, "--warm-up-h", 0, "--cool-down-h", 0, "--outage", "none")
    ended = executed(
        "replay",
        "characterize",
        tmp_path / "sacct.txt",
        *plain,
        "--node-events",
        tmp_path / "events",
    )
    assert re.search(r"out of service or reserved, in no share +264 node-h", ended.out)
    assert PLAIN.node_events is None
