"""Ctrl-C and SIGTERM end a command that replays in several processes at once, and none of them
stays.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from replay.commands import executed

from bftrainer.system.own_programs import module_command
from bftrainer_replay.cli.sweeping import TenthLines, note_slow_replays, progress_of_reading

LONG_S = 120.0


def wait_for(what: Callable[[], bool]) -> None:
    end_s = time.monotonic() + LONG_S
    while not what():
        assert time.monotonic() < end_s
        time.sleep(0.05)


def session(leader: int) -> dict[int, int]:
    """The processes of a session but for its leader, with their parents."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, parent, _, of = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(of) == leader and int(folder.name) != leader and state != "Z":
            parents[int(folder.name)] = int(parent)
    return parents


def workers(leader: int) -> list[int]:
    """The processes that the fork server has forked."""
    return [process for process, parent in session(leader).items() if parent != leader]


@pytest.mark.parametrize(
    ("number", "status", "line"),
    [
        (signal.SIGINT, 130, "bftrainer: interrupted"),
        (signal.SIGHUP, 129, "bftrainer: ended by SIGHUP"),
    ],
)
def test_a_signal_ends_a_report_and_its_processes_whatever_they_do(
    tmp_path: Path, number: signal.Signals, status: int, line: str
) -> None:
    """A terminal signals all processes. The workers are stopped, as if their replays took for
    ever.
    """
    executed("replay", "generate", "--nodes", 64, "--days", 1, "--out", tmp_path / "log.csv")
    command = [
        *module_command("bftrainer"),
        "replay",
        "report",
        f"{tmp_path}/log.csv",
        "--jobs",
        "2",
    ]
    with subprocess.Popen(
        [*command, "--out", f"{tmp_path}/out"],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as report:
        wait_for(lambda: len(workers(report.pid)) == 2)
        for worker in workers(report.pid):
            os.kill(worker, signal.SIGSTOP)
        end_s = time.monotonic() + LONG_S
        while report.poll() is None and time.monotonic() < end_s:  # whoever waits types it again
            os.killpg(report.pid, number)
            time.sleep(0.05)
        try:
            assert report.poll() == status
            assert report.stderr is not None
            told = [text for text in report.stderr.read().splitlines() if text]
            assert [text for text in told if not text.startswith("note: ")][-1:] == [line], told
            assert "Traceback" not in "".join(told)
            wait_for(lambda: not session(report.pid))
        finally:
            for process in (*session(report.pid), *([report.pid] if report.poll() is None else [])):
                os.kill(process, signal.SIGKILL)


def test_a_signal_while_workers_start_leaves_one_line_and_no_process(tmp_path: Path) -> None:
    """As ``timeout`` ends a command: the signal comes when the first of two workers is there."""
    executed("replay", "generate", "--nodes", 64, "--days", 10, "--out", tmp_path / "log.csv")
    command = [*module_command("bftrainer"), "replay", "report", f"{tmp_path}/log.csv", "--full"]
    with subprocess.Popen(
        [*command, "--jobs", "2", "--out", f"{tmp_path}/out"],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as report:
        wait_for(lambda: bool(workers(report.pid)) or report.poll() is not None)
        report.send_signal(signal.SIGTERM)
        assert report.wait(LONG_S) == 143
        wait_for(lambda: not session(report.pid))
        assert report.stderr is not None
        lines = [text for text in report.stderr.read().splitlines() if text]
        assert lines[1:] == ["bftrainer: ended by SIGTERM"], lines
    assert list((tmp_path / "out").rglob("*")) == []


def test_without_a_terminal_there_is_a_line_per_tenth(capsys: pytest.CaptureFixture[str]) -> None:
    now_s = 0.0
    lines = TenthLines("replays", lambda: now_s)
    for percent in range(101):
        now_s += 1.0
        lines.show(percent / 100)
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "replays: 10 %, about 2 min left"
    assert told[-1] == "replays: 90 %, about 10 s left"
    assert [text.split(" %")[0] for text in told] == [
        f"replays: {10 * tenth}" for tenth in range(1, 10)
    ]


def test_a_short_command_has_no_lines_of_progress(capsys: pytest.CaptureFixture[str]) -> None:
    lines = TenthLines("replays", lambda: 0.0)
    for percent in range(101):
        lines.show(percent / 100)
    assert capsys.readouterr().err == ""


def test_reading_a_large_log_has_a_line_per_tenth(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    now_s = 0.0
    files = [tmp_path / name for name in ("july.txt", "august.txt")]
    for path in files:
        path.touch()
        os.truncate(path, 50_000_000)
    with progress_of_reading(files, lambda: now_s) as on_bytes:
        assert on_bytes is not None
        for _ in range(100):
            now_s += 1.0
            on_bytes(1_000_000)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "reading july.txt: 10 %, about 2 min left"
    assert lines[-1] == "reading july.txt: 90 %, about 10 s left"
    assert len(lines) == 9


def test_reading_a_small_or_missing_log_has_none(tmp_path: Path) -> None:
    with progress_of_reading([tmp_path / "missing"]) as on_bytes:
        assert on_bytes is None


def test_long_replays_in_python_say_what_makes_them_faster(
    capsys: pytest.CaptureFixture[str],
) -> None:
    note_slow_replays(59.0, has_engine=False)
    note_slow_replays(600.0, has_engine=True)
    assert capsys.readouterr().err == ""
    note_slow_replays(600.0, has_engine=False)
    assert "took 10 min in Python" in capsys.readouterr().err
