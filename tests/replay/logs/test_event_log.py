"""The event log: each broken rule is one line with its place; what is written reads back the
same.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replay.windows import window

from bftrainer.decide.domain.events import PoolChanged
from bftrainer.errors import InputFileError
from bftrainer_replay.logs.event_log import format_time, parse_time, read_event_log, write_event_log
from bftrainer_replay.logs.model import EventLog, PoolEvent

HEADER = "time,joined,left\n"
LISTED = "# unit=gpu a:4 b:8\n" + HEADER
GPUS = LISTED + "2021-01-01T00:00:00,a:2,\n2021-01-01T00:01:00,"
FIRST = "2021-01-01T00:00:00,a b,\n"
SECOND = HEADER + FIRST + "2021-01-01T00:01:00,"


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("", "", "is empty, expected the header time,joined,left"),
        (HEADER, "", "has a header and no rows, expected the initial state"),
        (
            "time,joined,gone\n" + FIRST,
            ":1",
            "columns are 'time,joined,gone', expected 'time,joined,left'",
        ),
        ("time,joined,left,note\n" + FIRST, ":1", "expected 'time,joined,left'"),
        (
            HEADER + FIRST + "2021-01-01T00:01:00,c\n",
            ":3",
            "has 2 fields, expected 3 (time,joined,left)",
        ),
        (HEADER + FIRST + "\n", ":3", "has 0 fields, expected 3"),
        (
            HEADER + "yesterday,a,\n",
            ":2",
            "time 'yesterday' is not ISO 8601, expected a time like 2021-02-10T20:21:15",
        ),
        (HEADER + "2021-02-30T00:00:00,a,\n", ":2", "is not ISO 8601"),
        (
            HEADER + FIRST + "2020-12-31T23:59:59,c,\n",
            ":3",
            "is not later than 2021-01-01T00:00:00 on the previous line",
        ),
        (HEADER + FIRST + "2021-01-01T00:00:00,c,\n", ":3", "is not later than"),
        (SECOND + ",c\n", ":3", "node c leaves but is not in the pool, expected an earlier join"),
        (SECOND + ",a a\n", ":3", "node a leaves twice"),
        (SECOND + "b,\n", ":3", "node b joins but is already in the pool"),
        (SECOND + "c c,\n", ":3", "node c joins twice"),
        (SECOND + "a,a\n", ":3", "node a joins and leaves in one row, expected one or"),
        (HEADER + "2021-01-01T00:00:00\0,a,\n", ":2", "has a NUL character, expected text"),
        # In GPUs
        (
            LISTED + "2021-01-01T00:00:00,a,\n",
            ":3",
            "'a' is not node:k, expected the GPUs (1 to 1024) of a node",
        ),
        (LISTED + "2021-01-01T00:00:00,a:0,\n", ":3", "'a:0' is not node:k"),
        (LISTED + "2021-01-01T00:00:00,a:1 a:1,\n", ":3", "node a is named twice"),
        (
            LISTED + "2021-01-01T00:00:00,a:5,\n",
            ":3",
            "5 GPUs of node a are idle, expected at most 4 (line 1)",
        ),
        (
            LISTED + "2021-01-01T00:00:00,c:1,\n",
            ":3",
            "1 GPUs of node c are idle, expected at most 0 (line 1)",
        ),
        (GPUS + ",a:3\n", ":4", "3 GPUs of node a leave, expected at most the 2"),
        (GPUS + "a:1,a:1\n", ":4", "node a:2 joins and leaves in one row"),
        ("# unit=gpu a:4 a:4\n" + HEADER, ":1", "node a is named twice"),
        ("# unit=gpu\ntime\n", ":2", "columns are 'time'"),
    ],
)
def test_a_broken_rule_is_told_with_its_place(
    tmp_path: Path, text: str, place: str, problem: str
) -> None:
    path = tmp_path / "log.csv"
    path.write_text(text)
    with pytest.raises(InputFileError) as error:
        read_event_log(path)
    assert error.value.where == f"{path}{place}"
    assert problem in error.value.problem
    assert "\n" not in str(error.value)


def test_foreign_bytes_are_told(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes((HEADER + "2021-01-01T00:00:00,caf").encode() + b"\xe9,\n")
    with pytest.raises(InputFileError, match="is not UTF-8 text"):
        read_event_log(path)
    with pytest.raises(InputFileError, match=r"missing\.csv: cannot be read: No such file"):
        read_event_log(tmp_path / "missing.csv")
    with pytest.raises(InputFileError, match="cannot be read: Is a directory"):
        read_event_log(tmp_path)


def test_an_event_of_a_very_large_machine_reads_back(tmp_path: Path) -> None:
    log = EventLog(
        (PoolEvent(0.0, PoolChanged(frozenset(f"node{i:06d}" for i in range(20_000)))),), ""
    )
    write_event_log(tmp_path / "log.csv", log)
    assert read_event_log(tmp_path / "log.csv").events == log.events


def test_the_text_is_sorted_and_nothing_else_is_left_behind(tmp_path: Path) -> None:
    events = (
        PoolEvent(parse_time("2021-01-01T00:00:00"), PoolChanged(frozenset(("n10", "n02", "n01")))),
        PoolEvent(
            parse_time("2021-01-01T00:00:10.5"),
            PoolChanged(frozenset(("n03",)), frozenset(("n10", "n01"))),
        ),
    )
    path = tmp_path / "deep" / "log.csv"
    write_event_log(path, EventLog(events, ""))
    assert path.read_text() == (
        "time,joined,left\n2021-01-01T00:00:00,n01 n02 n10,\n2021-01-01T00:00:10.500,n03,n01 n10\n"
    )
    write_event_log(path, EventLog(events[:1], ""))
    assert path.read_text().count("\n") == 2
    assert [file.name for file in path.parent.iterdir()] == ["log.csv"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("old")
    unwritable = EventLog((PoolEvent(0.0, PoolChanged(frozenset(("\ud800",)))),), "")
    with pytest.raises(UnicodeEncodeError):
        write_event_log(path, unwritable)
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["log.csv"]


@st.composite
def logs(draw: st.DrawFn) -> EventLog:
    """Any legal log; times on a grid of milliseconds, which is what the format holds."""
    names = draw(st.sets(st.text("abcxyz0189.-_é", min_size=1, max_size=4), min_size=1, max_size=6))
    times_ms = sorted(draw(st.sets(st.integers(0, 4_000_000_000_000), min_size=1, max_size=12)))
    flips = ((at_ms / 1000, draw(st.sets(st.sampled_from(sorted(names))))) for at_ms in times_ms)
    return EventLog(window(0.0, "", *flips).events, "drawn")


@settings(deadline=None)
@given(log=logs(), suffix=st.sampled_from((".csv", ".csv.gz")))
def test_what_is_written_reads_back_the_same(
    tmp_path_factory: pytest.TempPathFactory, log: EventLog, suffix: str
) -> None:
    folder = tmp_path_factory.mktemp("round")
    one, two = folder / f"one{suffix}", folder / f"two{suffix}"
    write_event_log(one, log)
    again = read_event_log(one)
    assert again.events == log.events
    assert again.source == str(one)
    write_event_log(two, again)
    assert two.read_bytes() == one.read_bytes()


@settings(deadline=None)
@given(st.integers(0, 4_000_000_000_000))
def test_times_survive_their_text(at_ms: int) -> None:
    assert parse_time(format_time(at_ms / 1000)) == at_ms / 1000
