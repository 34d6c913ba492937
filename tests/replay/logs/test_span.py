"""Which part of a log is trusted, and outages: the guesses, and the options that overrule them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.reading_logs import read

from bftrainer.errors import UserError
from bftrainer_replay.logs.event_log import format_time

T = 1_600_000_000
HOUR = 3600


def swf(rows: list[tuple[int, int, int, int]], nodes: int = 4) -> str:
    """(submit, wait, run, nodes) of each, in hours after T but for the wait in seconds."""
    lines = [f"; Version: 2.2\n; UnixStartTime: {T}\n; MaxNodes: {nodes}\n; MaxProcs: {nodes}"]
    lines += [
        f"{k} {int(s * HOUR)} {w} {int(r * HOUR)} {n} -1 -1 {n} 9 -1 1 1 1 -1 1 -1 -1 -1"
        for k, (s, w, r, n) in enumerate(rows)
    ]
    return "\n".join(lines) + "\n"


def edges(opened: object) -> tuple[float, float]:
    events = opened.log.events  # type: ignore[attr-defined]
    return (events[0].at_s - T) / HOUR, (events[-1].at_s - T) / HOUR


GUESS = {"warm_up_h": None, "cool_down_h": None}
BUSY = [(hour, 0, 1, 4) for hour in range(100)]


def test_a_full_machine_is_trusted_from_the_first_end_to_the_last_submission(
    tmp_path: Path,
) -> None:
    assert edges(read(tmp_path, swf(BUSY), **GUESS)) == (1, 99)


def test_an_empty_beginning_is_warm_up(tmp_path: Path) -> None:
    slow = [(0, 0, 1, 1), *((hour, 0, 8, 4) for hour in range(2, 100, 8))]
    found = read(tmp_path, swf(slow), **GUESS)
    assert edges(found)[0] == pytest.approx(1 + 8, abs=1.1)  # as long as jobs run
    assert any("warm-up" in remark and "guessed" in remark for remark in found.remarks)


def test_an_end_that_stays_empty_is_told(tmp_path: Path) -> None:
    thin = [*BUSY[:60], *((hour, 0, 1, 1) for hour in range(60, 100))]
    found = read(tmp_path, swf(thin), **GUESS)
    (remark,) = [text for text in found.remarks if text.startswith("at its ")]
    assert remark.startswith("at its end only 36% as many nodes are busy as on average")
    assert not any(text.startswith("at its ") for text in read(tmp_path, swf(thin)).remarks), (
        "hours were given"
    )
    assert not any(
        text.startswith("at its ") for text in read(tmp_path, swf(BUSY), **GUESS).remarks
    )


def test_a_job_logs_times_are_utc(tmp_path: Path) -> None:
    assert read(tmp_path, swf(BUSY)).log.clock == "UTC"
    events = "time,joined,left\n2021-01-01T00:00:00,a,\n2021-01-01T01:00:00,,a\n"
    assert read(tmp_path, events).log.clock == "the log's own clock"
    recorded = (
        "time,joined,left,nodes,waiting\n2021-01-01T00:00:00,a,,4,\n2021-01-01T01:00:00,,a,4,\n"
    )
    assert read(tmp_path, recorded).log.clock == "UTC"


def test_given_hours_overrule(tmp_path: Path) -> None:
    found = read(tmp_path, swf(BUSY), warm_up_h=24.0, cool_down_h=10.0)
    assert edges(found) == (25, 89)
    assert any("24.0 h (as specified)" in remark for remark in found.remarks)
    with pytest.raises(UserError, match="nothing is left"):
        read(tmp_path, swf(BUSY), warm_up_h=99.0)


def test_an_empty_machine_with_a_waiting_job_is_out(tmp_path: Path) -> None:
    rows = [*BUSY[:40], (40, 10 * HOUR, 1, 4), *BUSY[51:]]
    found = read(tmp_path, swf(rows), outages=("auto",))
    assert not any(event.change.joined for event in found.log.events)
    assert any(
        "1 outage excluded, 10.0 h" in remark and "--outage none" in remark
        for remark in found.remarks
    )
    assert sum(len(event.change.joined) for event in read(tmp_path, swf(rows)).log.events) == 4


def test_an_empty_machine_without_a_waiting_job_is_idle(tmp_path: Path) -> None:
    rows = [*BUSY[:40], (50, 0, 1, 4), *BUSY[51:]]
    found = read(tmp_path, swf(rows), outages=("auto",))
    assert sum(len(event.change.joined) for event in found.log.events) == 4
    (remark,) = [text for text in found.remarks if "none waits" in text]
    assert remark.startswith("no job runs for 10.0 h in all, in 1 periods of an hour or more")
    assert "2020-09-15T04:26:40/2020-09-15T14:26:40" in remark
    out = f"{format_time(T + 40 * HOUR)}/{format_time(T + 45 * HOUR)}"
    given = read(tmp_path, swf(rows), outages=(out,))
    joined = [event.at_s for event in given.log.events if event.change.joined]
    assert joined == [T + 45 * HOUR]


@pytest.mark.parametrize(
    "text", ["x", "2020-01-01", "2020-01-02/2020-01-01", "a/b", "2020-01-01/2020-01-02/2020-01-03"]
)
def test_odd_outages_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError, match="--outage"):
        read(tmp_path, swf(BUSY), outages=(text,))
