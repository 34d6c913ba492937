"""Starts training scripts in forks of one process that has imported torch: a start takes a tenth of a
second, so a script can be stopped after each of its steps.

    python tests/support/forked_scripts.py      reads requests, a JSON object per line
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support.patience import PATIENCE

STOPPED = 83
"""The exit status of a worker that was asked to stop."""


class ForkedScripts:
    """A process that forks a child for each start of a script.

    ``modules`` are what it imports first.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        folders = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.process = subprocess.Popen(
            [sys.executable, __file__, *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ":".join(folders)},
        )

    def start(self, script: Path, arguments: Sequence[str], folder: Path, **env: str) -> int:
        """Start a script in a folder, its output in ``folder/log``; returns its process."""
        request = {
            "script": str(script),
            "arguments": list(arguments),
            "folder": str(folder),
            "env": env,
        }
        return int(self._ask(request)["pid"])

    def wait(self, pid: int) -> int:
        """Return the exit status of a start; negative: the signal that ended it."""
        give_up = time.monotonic() + 120 * PATIENCE
        while time.monotonic() < give_up:
            status = self._ask({"wait": pid})["status"]
            if status is not None:
                return int(status)
            time.sleep(0.005)
        os.kill(pid, signal.SIGKILL)
        raise AssertionError(f"process {pid} has not ended")

    def end(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer


class ScriptRuns:
    """The starts of one script as the only worker of a trainer, in a folder of their own."""

    def __init__(self, scripts: ForkedScripts, script: Path, folder: Path, *arguments: str) -> None:
        self.scripts, self.script, self.folder, self.arguments = scripts, script, folder, arguments
        self.trainer = folder / "trainer"
        self.trainer.mkdir(parents=True)
        (self.trainer / "trainer.json").write_text(
            json.dumps(
                {
                    "version": 1,
                    "id": "trainer",
                    "command": ["python", script.name],
                    "cwd": str(folder),
                    "min_nodes": 1,
                    "max_nodes": 1,
                }
            )
        )
        self.starts = self.kills = 0

    def run(self, *, stops: bool, kill_after: int | None = None) -> int:
        """Start the script once; returns its exit status.

        ``stops``: it is asked to stop from the start, so that it makes one step. ``kill_after``:
        it gets a SIGKILL after so many lines of progress.
        """
        request = "stop" if stops else "run"
        control = {"version": 1, "request": request, "number": self.starts}
        (self.trainer / "control").write_text(json.dumps(control))
        self.starts += 1
        before = self.lines()
        pid = self.scripts.start(
            self.script,
            self.arguments,
            self.folder,
            BFTRAINER_TRAINER_DIR=str(self.trainer),
            BFTRAINER_INCARNATION=str(self.starts),
            BFTRAINER_REPORT_EVERY_S="0",
        )
        if kill_after is not None:
            while self.lines() < before + kill_after and Path(f"/proc/{pid}").exists():
                if self._state(pid) == "Z":
                    break
                time.sleep(0.001)
            os.kill(pid, signal.SIGKILL)
        status = self.scripts.wait(pid)
        self.kills += status == -signal.SIGKILL
        return status

    def to_the_end(self) -> int:
        """Stop the script after each step, and kill each third start; returns the steps made."""
        for number in range(400):
            kill = 1 + number % 2 if number % 3 == 1 else None
            status = self.run(stops=kill is None, kill_after=kill)
            if status == 0:
                return self.steps()[-1]
            assert status in (STOPPED, -signal.SIGKILL), self.log()
        raise AssertionError(f"no end\n{self.log()}")

    def log(self) -> str:
        """Return what all starts printed."""
        return (self.folder / "log").read_text(errors="replace")

    def result(self) -> str:
        """Return the line of the script that begins with RESULT."""
        lines = [line for line in self.log().splitlines() if line.startswith("RESULT")]
        assert lines, self.log()
        return lines[-1]

    def lines(self) -> int:
        """Return the number of lines of progress."""
        path = self.trainer / "progress.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def steps(self) -> list[int]:
        """Return the steps that were reported, of all starts."""
        text = (self.trainer / "progress.jsonl").read_text()
        lines = [json.loads(line) for line in text.splitlines()]
        return [line["step"] for line in lines if line.get("phase") == "running"]

    def _state(self, pid: int) -> str:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return "Z"


def _serve(modules: list[str]) -> None:
    """Import modules, then answer requests until the input ends."""
    for module in modules:
        __import__(module)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            pid, status = os.waitpid(request["wait"], os.WNOHANG)
            code = os.waitstatus_to_exitcode(status) if pid else None
            print(json.dumps({"status": code}), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            _run(request)
        print(json.dumps({"pid": pid}), flush=True)


def _run(request: dict[str, Any]) -> None:
    """Run a script in this process, and end it with the script's exit status."""
    os.chdir(request["folder"])
    os.environ.update(request["env"])
    log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.argv = [request["script"], *request["arguments"]]
    sys.path[0] = str(Path(request["script"]).parent)
    status = 0
    try:
        runpy.run_path(request["script"], run_name="__main__")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
        status = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    _serve(sys.argv[1:])
