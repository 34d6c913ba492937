"""Ctrl-C and SIGTERM end a command that replays in several processes at once, and none of them
stays.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from replay.commands import executed

from bftrainer_replay.cli.sweeping import TenthLines

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
        (signal.SIGTERM, 143, "bftrainer: ended by SIGTERM"),
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
        sys.executable,
        "-m",
        "bftrainer",
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


INTERRUPTED_WHILE_INPUTS_ARE_SENT = """
import os, signal
from bftrainer_replay.sweep.run_tasks import do_all

class Store:
    def get(self, task):
        return None

class InterruptsItsParent:
    def __reduce__(self):
        return os.kill, (os.getpid(), signal.SIGINT)

if __name__ == "__main__":
    inputs = InterruptsItsParent(), bytes(10_000_000)
    try:
        do_all(["one", "two"], inputs, Store(), jobs=2)
    except KeyboardInterrupt:
        print("interrupted")
"""


def test_ctrl_c_while_a_worker_gets_its_inputs_prints_no_traceback(tmp_path: Path) -> None:
    """A log has megabytes, and a pipe holds 64 KiB of them."""
    path = tmp_path / "script.py"
    path.write_text(INTERRUPTED_WHILE_INPUTS_ARE_SENT)
    command = [sys.executable, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONG_S, check=False)
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


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
