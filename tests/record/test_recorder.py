"""The recorder on a cluster in memory: what is written is what was idle, whatever fails, stops or
jumps meanwhile.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import math
import os
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.command_line import bftrainer
from support.fakes_jobs import FakeClock

from bftrainer.cluster.model import (
    Availability,
    Device,
    Hidden,
    Idle,
    NodeView,
    Observation,
    PendingJob,
)
from bftrainer.cluster.windows import PilotJobs
from bftrainer.errors import InputFileError, SchedulerError, StoreError, UserError
from bftrainer_replay.analysis.characterize import characterize
from bftrainer_replay.analysis.idle_causes import IdleCause
from bftrainer_replay.logs.event_log import read_event_log, write_event_log
from bftrainer_replay.logs.model import EventLog, restricted_log
from bftrainer_replay.recording.cluster_recorder import ClusterRecorder, RecordingTotals
from bftrainer_replay.recording.file import RecordFile
from bftrainer_replay.recording.samples import sample_of

OURS = PilotJobs(assume_window_s=math.inf)
T0 = 1_767_225_600.0  # 2026-01-01


class Script:
    """A scheduler that shows, look by look, which nodes are idle; None is a failure. Ten seconds a
    look.
    """

    def __init__(
        self, clock: FakeClock, *idle: str | None, waiting: tuple[tuple[PendingJob, ...], ...] = ()
    ) -> None:
        self.clock, self.idle, self.waiting, self.looks = clock, idle, waiting, 0
        self.hidden: frozenset[Hidden] = frozenset()

    def observe(self) -> Observation:
        place, self.looks = self.looks, self.looks + 1
        names = self.idle[min(place, len(self.idle) - 1)]
        if names is None:
            raise SchedulerError("made up: no answer")
        nodes = tuple(
            NodeView(n, Availability.FREE if n in names else Availability.BUSY, ("main",))
            for n in "abcdef"
        )
        pending = self.waiting[min(place, len(self.waiting) - 1)] if self.waiting else ()
        return Observation(self.clock.at_s, nodes, pending, hidden=self.hidden)


def record(
    path: Path, script: Script, looks: int | None = None, for_s: float = math.inf
) -> RecordingTotals:
    """As many looks as the script has, ten seconds apart; the clock stands after the last one."""
    file = RecordFile(path)
    try:
        recorder = ClusterRecorder(script, lambda seen: sample_of(seen, OURS), file, script.clock)
        wanted = script.looks + (len(script.idle) if looks is None else looks)
        return recorder.run(for_s, lambda: script.looks >= wanted)
    finally:
        file.close()


def rows(path: Path) -> list[str]:
    return path.read_text().splitlines()[1:]


def states(log: EventLog) -> list[tuple[float, str]]:
    """(seconds since T0, who is idle) after each event."""
    idle: frozenset[str] = frozenset()
    found = []
    for event in log.events:
        idle = (idle - event.change.left) | event.change.joined
        found.append((round(event.at_s - T0, 3), "".join(sorted(idle))))
    return found


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(T0)


def test_nodes_count_from_the_first_look_that_shows_them_and_one_record_idles_do_not(
    tmp_path: Path, clock: FakeClock
) -> None:
    path = tmp_path / "idle.csv"
    totals = record(path, Script(clock, "ab", "abc", "ac", "acd", "ac", "ac", "a"))
    assert path.read_text() == (
        "time,joined,left,nodes,waiting\n"
        "2026-01-01T00:00:00,a b,,6,\n"
        "2026-01-01T00:00:10,c,,6,\n"
        "2026-01-01T00:00:20,,b,6,\n"
        "2026-01-01T00:01:00,,c,6,\n"
    )
    assert (totals.polls, totals.rows, totals.failed, totals.gaps) == (7, 4, 0, 0)
    log = read_event_log(path)
    assert (log.machine_nodes, log.gaps) == (6, ())
    assert states(log) == [(0, "ab"), (10, "abc"), (20, "ac"), (60, "a")]


def test_by_gpu_the_idle_gpus_of_idle_and_shared_nodes_are_recorded(
    tmp_path: Path, clock: FakeClock
) -> None:
    ours, path = replace(OURS, cpus_per_gpu=2, mib_per_gpu=1000), tmp_path / "idle.csv"
    states = {0: Availability.BUSY, 4: Availability.FREE}

    class Gpus(Script):
        def observe(self) -> Observation:
            text = self.idle[self.looks]
            assert text is not None
            self.looks += 1
            nodes = (
                NodeView(
                    n,
                    states.get(k, Availability.SHARED),
                    ("main",),
                    (Device("", 4),),
                    8,
                    idle=Idle(k, 6, 9000, 9000),
                )
                for n, k in zip("ab", map(int, text), strict=True)
            )
            return Observation(
                self.clock.at_s, (*nodes, NodeView("c", Availability.FREE, ("main",)))
            )

    for script in (Gpus(clock, "44", "42", "42", "02"), Gpus(clock, "02", "21", "21")):
        with closing(RecordFile(path, by_gpu=True)) as file:
            recorder = ClusterRecorder(
                script, lambda seen: sample_of(seen, ours, None, by_gpu=True), file, clock
            )
            recorder.run(
                10.0 * len(script.idle), lambda script=script: script.looks == len(script.idle)
            )  # type: ignore[misc]
    lines = [line.partition("T")[2] for line in path.read_text().splitlines()[2:]]
    assert path.read_text().startswith("# unit=gpu a:4 b:4\ntime,joined,left,nodes,waiting\n")
    assert lines == [
        "00:00:00,a:4 b:2,,8,",
        "00:00:30,,a:4,8,",
        "00:00:40,a:2,b:1,8,",
        "00:00:50,,,8,",
    ]
    log = read_event_log(path)
    assert log.gpus is not None
    assert log.gpus.per_node == {"a": 4, "b": 4}
    with pytest.raises(InputFileError, match="is not a recorded log by node"):
        RecordFile(path)


def test_a_row_a_minute_and_the_last_look_are_written_whether_anything_changed_or_not(
    tmp_path: Path, clock: FakeClock
) -> None:
    path = tmp_path / "idle.csv"
    record(path, Script(clock, *["ab"] * 15))
    assert [row.split(",")[0][-5:] for row in rows(path)] == ["00:00", "01:00", "02:00", "02:20"]
    assert read_event_log(path).events[-1].at_s == T0 + 140


def test_a_short_failure_changes_nothing_and_a_long_one_is_a_gap(
    tmp_path: Path, clock: FakeClock
) -> None:
    path = tmp_path / "idle.csv"
    totals = record(path, Script(clock, "ab", "ab", None, "ab", "ab"))
    assert (totals.failed, totals.gaps) == (1, 0)
    assert states(read_event_log(path)) == [
        (0, "ab"),
        (50, "ab"),
    ]  # after the failure it waited twice as long
    long = tmp_path / "long.csv"
    totals = record(long, Script(clock, "ab", "ab", None, None, None, None, "bc", "bc", "bc"))
    assert (totals.failed, totals.gaps) == (4, 1)
    begin = clock.at_s
    log = read_event_log(long)
    assert len(log.gaps) == 1
    assert log.gaps[0][1] - log.gaps[0][0] == pytest.approx(10 + 20 + 40 + 60 + 60 - 0.001)
    assert [idle for _, idle in states(log)] == ["ab", "ab", "", "bc", "bc"]
    assert "1 gap in the record, 0.05 h in all" in log.note
    assert begin > log.gaps[0][1]


def test_gaps_are_neither_idle_nor_busy(tmp_path: Path, clock: FakeClock) -> None:
    path = tmp_path / "idle.csv"
    record(path, Script(clock, *["ab"] * 361))
    clock.at_s += 3600 * 5
    record(path, Script(clock, *["ab"] * 361))
    log = read_event_log(path)
    found = characterize(restricted_log(log))
    assert found.span_h == pytest.approx(2.0, abs=0.01)
    assert found.unknown_h == pytest.approx(5.0, abs=0.01)
    assert found.eq_nodes == pytest.approx(2.0, abs=0.01)
    assert found.idle_share == pytest.approx(2 / 6, abs=0.01)
    assert (found.joins, found.leaves, found.events, found.fragments) == (0, 0, 1, 4)
    assert (found.idle_nodes_min, found.idle_nodes_median, found.idle_nodes_max) == (2, 2, 2)
    inside = characterize(restricted_log(log, start_s=T0 + 1800, end_s=T0 + 7200))
    assert (inside.unknown_h, inside.idle_nodes_min) == (pytest.approx(1.0, abs=0.01), 2)
    again = tmp_path / "converted.csv"
    write_event_log(again, log)
    assert read_event_log(again).gaps == log.gaps


def test_a_restart_at_once_goes_on_and_a_late_one_marks_what_it_missed(
    tmp_path: Path, clock: FakeClock
) -> None:
    path = tmp_path / "idle.csv"
    record(path, Script(clock, "ab", "ab", "ab"))
    clock.at_s += 10
    totals = record(path, Script(clock, "abc", "abc"))  # c since the first look of the second run
    assert totals.gaps == 0
    assert states(read_event_log(path)) == [(0, "ab"), (20, "ab"), (30, "abc"), (40, "abc")]
    clock.at_s += 600
    totals = record(path, Script(clock, "a", "a", "a"))
    log = read_event_log(path)
    assert totals.gaps == 1
    assert states(log)[-3:] == [(40.001, ""), (640, "a"), (660, "a")]
    assert log.gaps == ((T0 + 40.001, T0 + 640),)
    clock.at_s += 600
    record(path, Script(clock, "a"))  # one look proves nothing, but it ends what was known
    assert rows(path)[-1].endswith(",,?,,")
    clock.at_s += 600
    record(path, Script(clock, "a", "a"))
    assert [row for row in rows(path) if "?" in row] == [
        "2026-01-01T00:00:40.001,,?,,",
        "2026-01-01T00:11:00.001,,?,,",
    ]
    assert [round(end - start) for start, end in read_event_log(path).gaps] == [600, 1200]


def test_half_a_line_is_cut_off_and_the_record_goes_on(tmp_path: Path, clock: FakeClock) -> None:
    path = tmp_path / "idle.csv"
    record(path, Script(clock, "ab", "ab", "ab"))
    whole = path.read_bytes()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        file = RecordFile(path)
        file.close()
        lines = whole[:end].count(b"\n")
        assert path.read_bytes() == b"".join(whole.splitlines(keepends=True)[: max(lines, 1)])
        assert file.truncated_bytes == (end - len(path.read_bytes()) if lines else end)


def test_what_waited_is_in_the_record_without_transitions(tmp_path: Path, clock: FakeClock) -> None:
    big, small = PendingJob("1", "u", ("main",), 4), PendingJob("2", "u", ("main",), 2)
    window = PendingJob("backfill window 1", "", (), 1, T0 + 900, frozenset("a"))
    path = tmp_path / "idle.csv"
    waiting = ((big, window), (big,), (big, small), (big,), (big, small), (big, small), ())
    record(path, Script(clock, *["abc"] * 7, waiting=waiting))
    assert [row.rpartition(",")[2] for row in rows(path)] == ["4", "2", ""]
    log = read_event_log(path)
    found = characterize(restricted_log(log)).idle_while
    assert found is not None
    # 3 nodes for 40 s while only the job of 4 waits, for 20 s while that of 2 does.
    assert found.of(IdleCause.TOO_LARGE) * 3600 == pytest.approx(120)
    assert found.of(IdleCause.FITS) * 3600 == pytest.approx(
        60
    )  # how many small ones wait is not in the record
    assert found.of(IdleCause.NO_JOB) == 0


def test_a_site_that_hides_jobs_is_recorded_without_them(tmp_path: Path, clock: FakeClock) -> None:
    script = Script(clock, "abc", "abc", "abc")
    script.hidden = frozenset({Hidden.JOBS})
    totals = record(tmp_path / "idle.csv", script)
    log = read_event_log(tmp_path / "idle.csv")
    assert totals.hidden == {Hidden.JOBS}
    assert states(log)[0] == (0, "abc")
    assert log.queue is None


def test_a_server_whose_clock_stands_or_goes_back(tmp_path: Path, clock: FakeClock) -> None:
    class Stuck(Script):
        def observe(self) -> Observation:
            seen = super().observe()
            return Observation(
                T0 + (100 if self.looks < 4 else self.clock.at_s - T0 - 7200), seen.nodes
            )

    totals = record(tmp_path / "idle.csv", Stuck(clock, *["ab"] * 5))
    assert (totals.stale, totals.rows) == (4, 0)


def test_a_record_with_gaps_goes_through_every_command(tmp_path: Path, clock: FakeClock) -> None:
    path, trainers = tmp_path / "idle.csv", tmp_path / "trainers.csv"
    job = PendingJob("1", "u", ("main",), 6)
    for idle in ("abcd", "abc", ""):
        record(path, Script(clock, *[idle] * 200, waiting=((job,),)))
        clock.at_s += 1800
    ended = bftrainer("replay", "characterize", path, "--json")
    assert ended.status == 0, ended
    found = json.loads(ended.out)
    assert (found["unknown_h"], found["span_h"]) == (
        pytest.approx(1.0, abs=0.01),
        pytest.approx(1.66, abs=0.01),
    )
    assert "note: 2 gaps in the record, 1.0" in ended.err
    assert found["idle_while"]["too_large"] == pytest.approx(found["node_hours"])
    made = bftrainer(
        "replay", "workload", "hpo", "--count", 5, "--start", "2026-01-01", "--out", trainers
    )
    assert made.status == 0, made
    ended = bftrainer(
        "replay", "run", path, "--trainers", trainers, "--json", "--out", tmp_path / "run"
    )
    assert ended.status == 0, ended
    assert "gaps in the record" in ended.err
    assert bftrainer("replay", "convert", path, "--out", tmp_path / "short.csv.gz").status == 0
    assert read_event_log(tmp_path / "short.csv.gz").gaps == read_event_log(path).gaps


def test_what_the_recorder_refuses(tmp_path: Path, clock: FakeClock) -> None:
    with pytest.raises(UserError, match=r"expected a name ending in \.csv"):
        RecordFile(tmp_path / "idle.csv.gz")
    other = tmp_path / "other.csv"
    other.write_text("time,joined,left\n2026-01-01T00:00:00,a,\n")
    with pytest.raises(InputFileError, match="is not a recorded log"):
        RecordFile(other)
    assert other.read_text().endswith("a,\n")
    path = tmp_path / "idle.csv"
    first = RecordFile(path)
    with pytest.raises(UserError, match="in use by another recorder"):
        RecordFile(path)
    first.close()
    RecordFile(path).close()
    (tmp_path / "damaged.csv").write_text(
        "time,joined,left,nodes,waiting\n2026-01-01T00:00:00,,a,6,\n"
    )
    with pytest.raises(InputFileError, match=r"damaged\.csv:2: node a leaves"):
        RecordFile(tmp_path / "damaged.csv")


@pytest.mark.parametrize(
    ("last", "problem"),
    [
        (
            "of another program",
            r"notes\.csv: ends with b'of another program', which is no row of a recorded log",
        ),
        ("2026-01-01T00:01:00,,a", r"notes\.csv:2: node a leaves"),
    ],
)
def test_nothing_is_cut_from_a_file_whose_rows_are_not_a_recorder_s(
    last: str, problem: str, tmp_path: Path
) -> None:
    header = "time,joined,left,nodes,waiting\n"
    rows = "2026-01-01T00:00:00,,a,6,\n" if "leaves" in problem else ""
    (tmp_path / "notes.csv").write_text(header + rows + last)
    with pytest.raises(UserError, match=problem):
        RecordFile(tmp_path / "notes.csv")
    assert (tmp_path / "notes.csv").read_text() == header + rows + last


def test_whoever_may_only_read_a_record_can_not_lock_it_and_a_pipe_is_refused(
    tmp_path: Path,
) -> None:
    (tmp_path / "idle.csv").touch(0o644)
    with (tmp_path / "idle.csv").open("rb") as reader:
        fcntl.flock(reader, fcntl.LOCK_EX)
        RecordFile(tmp_path / "idle.csv").close()
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(UserError, match=r"pipe\.csv: is not a regular file"):
        RecordFile(tmp_path / "pipe.csv")


def test_a_full_disk_leaves_whole_lines(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "idle.csv"
    record(path, Script(clock, "ab", "ab"))
    before = path.read_bytes()
    real = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda handle, data: real(handle, data[:7]))
        with pytest.raises(StoreError, match="the disk is full"):
            record(path, Script(clock, "c", "c"))
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("2026-01-01T00:00:10,b,?,6,", "node b joins at the start of a gap"),
        ("2026-01-01T00:00:10,,,x,", "nodes is 'x', expected a whole number above 0"),
        ("2026-01-01T00:00:10,,,6,0", "waiting is '0', expected a whole number above 0"),
        ("2026-01-01T00:00:10,,,6", "has 4 fields, expected 5"),
        ("2026-01-01T00:00:10,,? a,6,", "node ? leaves but is not in the pool"),
    ],
)
def test_a_bad_row_is_refused_with_its_line(tmp_path: Path, row: str, complaint: str) -> None:
    path = tmp_path / "idle.csv"
    path.write_text(f"time,joined,left,nodes,waiting\n2026-01-01T00:00:00,a,,6,\n{row}\n")
    with pytest.raises(InputFileError, match=r"idle\.csv:3: ") as caught:
        read_event_log(path)
    assert complaint in str(caught.value)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.lists(
            st.one_of(st.none(), st.sets(st.sampled_from("abcd")).map("".join)),
            min_size=1,
            max_size=12,
        ),
        min_size=1,
        max_size=4,
    ),
    st.lists(st.sampled_from([0.0, 30.0, 500.0]), min_size=4, max_size=4),
)
def test_whatever_happens_the_file_is_a_log_and_idle_nodes_were_seen_idle(
    tmp_path: Path, runs: list[list[str | None]], pauses: list[float]
) -> None:
    path = tmp_path / "drawn.csv"
    path.unlink(missing_ok=True)
    clock = FakeClock(T0)
    seen: list[tuple[float, frozenset[str]]] = []
    for idle, pause_s in zip(runs, pauses, strict=False):

        class Watching(Script):
            def observe(self) -> Observation:
                shown = super().observe()
                names = frozenset(
                    n.name for n in shown.nodes if n.availability is Availability.FREE
                )
                seen.append((shown.at_s, names))
                return shown

        record(path, Watching(clock, *idle))
        clock.at_s += pause_s
    if not rows(path):
        return
    if rows(path)[-1].endswith("?,,") and len(rows(path)) == 1:
        raise AssertionError("a gap begins nothing")
    log = read_event_log(path)
    # Of two looks at one time of the server the first counts, unless its recorder ended on it: one
    # look proves nothing.
    looks: dict[float, frozenset[str]] = {}
    for at_s, names in seen:
        looks[at_s] = looks.get(at_s, frozenset()) | names
    pool: frozenset[str] = frozenset()
    for event in log.events:
        pool = (pool - event.change.left) | event.change.joined
        in_gap = (
            any(start <= event.at_s < end for start, end in log.gaps) or event.at_s not in looks
        )
        assert pool <= looks.get(event.at_s, frozenset()) or in_gap
        if event.at_s not in looks:
            assert not pool
    # Unknown is what lies further apart than a minute, and nothing else.
    for start_s, end_s in log.gaps:
        assert end_s - start_s > 59
    for one, other in itertools.pairwise(sorted(looks)):
        if one >= log.events[0].at_s and other <= log.events[-1].at_s and other - one > 60:
            assert any(start <= one + 0.001 and end >= other for start, end in log.gaps)
