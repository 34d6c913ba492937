"""A real pilot on the trace holder: state directory, log, processes; and a look at what is left of
them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from bftrainer.system.processes import ProcessId, identify, send
from support.command_line import bftrainer
from support.patience import PATIENCE
from support.promises import promised

COMMAND_S = 60 * PATIENCE
_OF_JOBS = ("SLURM_", "LSB_", "PBS_J", "BFTRAINER_VENV")
"""How the variables of batch jobs begin, and the one that job scripts of a pilot take over."""
STEPPER = Path(__file__).parents[1] / "live" / "stepper.py"
CONFIG = """
[decisions]
solver = "exact"
[nodes]
min_window_s = 0
flap_back_off_s = 0.5
unused_after_s = 2
[times]
poll_s = 0.2
file_poll_s = 0.05
shutdown_s = 300
lease_s = 60
[trace]
log = "log.csv"
nodes = 100
speedup = 1
[workers]
notice_s = 0
"""


def event_log(rows: list[tuple[float, str, str]]) -> str:
    """Rows (seconds, joined, left) as an event log."""
    text = "time,joined,left\n"
    for at_s, joined, left in rows:
        text += f"2021-01-01T{int(at_s) // 3600:02d}:{int(at_s) // 60 % 60:02d}:{at_s % 60:06.3f},{joined},{left}\n"
    return text


@dataclass
class Machine:
    """``state`` is the pilot's directory, ``work`` the trainers'."""

    state: Path
    work: Path
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def bftrainer(self, *arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
        """In this process, in the working directory: a process takes 0.4 s of CPU time. A pilot has
        one of its own.
        """
        argv = [*map(str, arguments), "--state", str(self.state)]
        if arguments[0] == "pilot":
            argv = [sys.executable, "-m", "bftrainer", *argv]
            return subprocess.run(
                argv, capture_output=True, text=True, check=check, cwd=self.work, timeout=COMMAND_S
            )
        before = Path.cwd()
        os.chdir(self.work)
        try:
            ended = bftrainer(*argv)
        finally:
            os.chdir(before)
        assert not check or ended.status == 0, ended
        return subprocess.CompletedProcess(argv, ended.status, ended.out, ended.err)

    def bftrainer_replay(self) -> str:
        ended = bftrainer("replay", "journal", self.state)
        assert ended.status == 0, ended
        return ended.out

    def submit(
        self, name: str, steps: int = 60, pace_s: float = 0.05, max_nodes: int = 2, *more: str
    ) -> None:
        program = [
            sys.executable,
            str(STEPPER),
            f"{name}.json",
            f"{name}.steps",
            str(steps),
            str(pace_s),
        ]
        options = [
            "--name",
            name,
            "--max-nodes",
            max_nodes,
            "--samples-per-s",
            10,
            "--cwd",
            self.work,
        ]
        fast = ["--set", "scale_up_s = 0.2", "--set", "scale_down_s = 0.1", "--set", "stop_s = 30"]
        ended = bftrainer("submit", *options, *fast, *more, "--state", self.state, "--", *program)
        assert ended.status == 0, ended

    def enter(self, monkeypatch: pytest.MonkeyPatch, variables: Mapping[str, str]) -> None:
        """Let the commands of a test run in its folder with these variables, and outside of any
        batch job.
        """
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        of_jobs = [name for name in os.environ if name.startswith(_OF_JOBS)]
        for name in of_jobs:
            monkeypatch.delenv(name)
        monkeypatch.chdir(self.work)

    def pilot(self, script: Path | None = None, *arguments: str) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-m", "bftrainer", "pilot", "--state", str(self.state)]
        if script is not None:
            argv = [sys.executable, str(script), str(self.state), *arguments]
        with (self.work / "pilot.log").open("ab") as log:
            child = subprocess.Popen(argv, cwd=self.work, stdout=log, stderr=log)
        self.children.append(child)
        return child

    def end(self, pilot: subprocess.Popen[bytes]) -> None:
        """Tell it to end, as an administrator does; it lets go of everything before its
        ``shutdown_s`` are over.
        """
        pilot.send_signal(signal.SIGTERM)
        assert pilot.wait(60 * PATIENCE) == 0, (self.work / "pilot.log").read_text()

    def rows(self, *arguments: object) -> list[dict[str, object]]:
        """What a command prints. In this process: a story asks many times a second, and a process
        takes 0.4 s of CPU time.
        """
        ended = bftrainer(*arguments, "--json", "--state", self.state)
        assert ended.status == 0, ended
        return [json.loads(line) for line in ended.out.splitlines()]

    def state_is_there(self) -> bool:
        return (self.state / "pilot.db").exists() and bftrainer(
            "events", "--state", self.state
        ).status == 0

    def status(self, name: str) -> str:
        found = {str(row["name"]): str(row["status"]) for row in self.rows("list", "--all")}
        return found.get(name, "")

    def steps(self, name: str) -> list[tuple[int, int]]:
        path = self.work / f"{name}.steps"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(int(line.split()[0]), int(line.split()[1])) for line in lines]

    def processes(self) -> list[ProcessId]:
        """Everything of this state directory that runs, but for pilots: drivers, workers, reapers,
        the trace machine.
        """
        mine = []
        pilots = {child.pid for child in self.children}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) in pilots:
                continue
            try:
                known = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            except OSError:
                continue
            if (
                str(self.state).encode() in known
                and (found := identify(int(entry.name))) is not None
            ):
                mine.append(found)
        return mine

    def said(self) -> str:
        """The texts of all events."""
        return "\n".join(str(row["text"]) for row in self.rows("events", "-n", 1000))

    def trains_on(self, name: str, steps: int = 20, seconds: float = 40.0) -> None:
        count = len(self.steps(name))
        eventually(lambda: len(self.steps(name)) >= count + steps, seconds)

    def of_trainer(self, name: str) -> dict[str, str]:
        """Its fragments, and their nodes."""
        return {
            str(row["fragment"]): str(row["node"])
            for row in self.rows("nodes")
            if row["trainer"] == name
        }

    def assert_in_order(self) -> None:
        """Nothing is held, nothing runs, nothing waits unread, and the journal explains every
        decision.
        """
        eventually(lambda: not self.processes())
        assert list((self.state / "spool").glob("*.json")) == []
        assert all(row["released_s"] is not None for row in self.rows("nodes", "--all"))
        assert "0 differ" in self.bftrainer_replay()

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for child in self.children:
            if child.poll() is None:
                child.kill()
            child.wait()
        for process in self.processes():
            send(process, signal.SIGKILL)


def machine(
    path: Path,
    rows: str | list[tuple[float, str, str]],
    config: str = CONFIG,
    state: Path | None = None,
) -> Machine:
    """``rows``: of the log, or nodes that are idle for an hour."""
    if isinstance(rows, str):
        rows = [(0.0, rows, ""), (3600.0, "", rows.split()[0])]
    state, work = state or path / "state", path / "work"
    state.mkdir(mode=0o700)
    work.mkdir()
    os.chmod(path, 0o700)  # noqa: PTH101
    (state / "bftrainer.toml").write_text(config)
    (state / "log.csv").write_text(event_log(rows))
    return Machine(state, work)


def eventually(what: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait until it holds; the last look decides."""
    end = time.monotonic() + seconds * PATIENCE
    while time.monotonic() < end:
        if what():
            return
        time.sleep(0.1)
    assert what()


def assert_contiguous(steps: list[tuple[int, int]], every: int = 10) -> None:
    """Each incarnation counts by one; the next begins at most ``every`` steps back, after a
    checkpoint.
    """
    assert steps, "it never ran"
    with promised():
        for (was_in, before), (now_in, step) in pairwise(steps):
            if now_in == was_in:
                assert step == before + 1
            else:
                assert before + 1 - every <= step <= before + 1, f"step {before} then {step}"
