"""A trainer directory as the pilot writes it, its driver as a process, and what driver and script
have written.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from bftrainer.config.pilot import WorkersConfig
from bftrainer.pilot.trainers.trainer_message import driver_settings
from bftrainer.plugins import driver_module
from bftrainer.system.files import write_atomically
from bftrainer.system.json_tail import JsonTail
from bftrainer.system.processes import identify
from bftrainer.wires.paths import TrainerDirectory
from support.patience import PATIENCE
from support.promises import promised

CHECKOUT = Path(__file__).parents[2]
EXAMPLES = {
    "horovod": ("horovod", "horovod_digits.py", "--epochs=100000", "--step-s=0.02"),
    "torchrun": (
        "torch",
        "torch_digits.py",
        "--epochs=100000",
        "--step-s=0.02",
        "--checkpoint-every=20",
    ),
    "torchft": ("torchft", "torchft_digits.py", "--epochs=100000", "--step-s=0.02"),
    "restart": ("numpy", "numpy_parallel.py", "--steps=1000000", "--pace-s=0.02"),
    "pool": ("h11", "pool_tasks.py", "--tasks=20000", "--pace-s=0.02"),
}
"""By launcher: a package that it needs, and the shipped example with options to run forever."""
Line = dict[str, Any]
SITE = driver_settings(WorkersConfig(), poll_s=0.2)
"""What the pilot's configuration gives a driver."""


def example(launcher: str, *more: str) -> list[str]:
    """The command of a shipped example; later options count."""
    _, script, *options = EXAMPLES["horovod" if launcher == "horovodrun" else launcher]
    return [sys.executable, str(CHECKOUT / "docs/examples" / script), *options, *more]


class Trainer:
    """Hosts are names only: every worker is a local process.

    Methods return the time before they acted: the driver may react before the test is scheduled
    again.
    """

    def __init__(self, folder: Path, command: list[str] | None = None, **driver: Any) -> None:
        self.path = folder
        self.directory = TrainerDirectory(folder)
        self.folder_driver = driver.pop("driver", "horovod")
        self.driver_environment: dict[str, str] = driver.pop("driver_environment", {})
        folder.mkdir(parents=True, exist_ok=True)
        trainer = {
            "version": 1,
            "id": folder.name,
            "command": command or example(self.folder_driver),
            "cwd": str(folder),
            "environment": {
                "OMP_NUM_THREADS": "1",
                # A worker that starts cold, or waits for a core, is waited for.
                "HOROVOD_GLOO_TIMEOUT_SECONDS": "300",
                **driver.pop("environment", {}),
            },
            "min_nodes": driver.pop("min_nodes", 1),
            "max_nodes": 8,
            **({"sizes": driver.pop("sizes")} if "sizes" in driver else {}),
            "stop_s": driver.pop("stop_s", 60),
        }
        settings = {"version": 1, "driver": self.folder_driver, **SITE, **driver}
        write_atomically(self.directory.trainer, json.dumps(trainer).encode())
        write_atomically(self.directory.driver, json.dumps(settings).encode())
        self.events: list[Line] = []
        self.progress: list[Line] = []
        self._events = JsonTail(self.directory.events)
        self._progress = JsonTail(self.directory.progress)
        self._numbers = itertools.count(1)
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def hosts(self, text: str) -> float:
        """Replace the hosts file (``a:1:7 b:1:8``); returns the time."""
        at_s = now_s()
        write_atomically(
            self.directory.hosts, "".join(f"{line}\n" for line in text.split()).encode()
        )
        return at_s

    def start(self, hosts: str | None = None) -> None:
        """Start the driver (again)."""
        if hosts is not None:
            self.hosts(hosts)
        argv = [sys.executable, "-m", driver_module(self.folder_driver), str(self.path)]
        with (self.path / "driver.log").open("ab") as log:
            self.process = subprocess.Popen(
                argv,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
                env={**os.environ, **self.driver_environment},
            )

    def control(self, request: str) -> None:
        """Write the pilot's request."""
        value = {"version": 1, "request": request, "number": next(self._numbers)}
        write_atomically(self.directory.control, json.dumps(value).encode())

    def read(self) -> None:
        """Read new lines."""
        self.events += self._events.read()
        self.progress += self._progress.read()

    def until(self, what: str, holds: Callable[[], Any], timeout_s: float = 60) -> Any:
        """Wait until ``holds()`` is true; the failure shows what happened instead."""
        timeout_s *= PATIENCE
        give_up = time.monotonic() + timeout_s
        while time.monotonic() < give_up:
            self.read()
            if found := holds():
                return found
            time.sleep(0.02)
        raise AssertionError(f"not within {timeout_s} s: {what}\n{self.story()}")

    def event(self, name: str, after_s: float = 0.0, timeout_s: float = 60, **fields: Any) -> Line:
        """Wait for an event."""

        def found() -> Line | None:
            for line in self.events:
                if (
                    line["event"] == name
                    and line["time"] >= after_s
                    and fields.items() <= line.items()
                ):
                    return line
            return None

        line: Line = self.until(f"event {name} {fields}", found, timeout_s)
        return line

    def steps(self, world_size: int, count: int = 10, timeout_s: float = 60) -> Line:
        """Wait until ``count`` steps have been made at this size from now on; the last line."""
        self.read()
        after_s = now_s()
        first: list[int] = []

        def made() -> Line | None:
            for line in self.progress:
                if line["time"] >= after_s and line["world_size"] == world_size:
                    first.append(line["step"])
                    if line["step"] >= first[0] + count:
                        return line
            return None

        line: Line = self.until(f"{count} steps at size {world_size}", made, timeout_s)
        return line

    def worker(self, fragment: str) -> int:
        """The pid of the last worker that was started in a fragment."""
        self.read()
        return [
            e["pid"]
            for e in self.events
            if e["event"] == "worker_started" and e["fragment"] == fragment
        ][-1]

    def kill(self, fragment: str, number: int = signal.SIGKILL) -> float:
        """Send a signal to the worker itself."""
        pid, at_s = self.worker(fragment), now_s()
        os.kill(pid, number)
        return at_s

    def kill_together(self, *fragments: str) -> None:
        """SIGKILL one worker of each fragment. They are stopped first, so that none sees the end of
        another.
        """
        pids = [self.worker(fragment) for fragment in fragments]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                os.kill(pid, number)

    def wait(self, timeout_s: float = 60) -> int:
        """The driver's exit status."""
        assert self.process is not None
        try:
            status = self.process.wait(timeout_s * PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the driver has not ended\n{self.story()}") from None
        self.read()
        return status

    def formed(self) -> list[Line]:
        """One line for every rescale."""
        return [line for line in self.progress if line.get("formed")]

    @promised()
    def check_continuity(self, batch: int = 32) -> None:
        """Steps are contiguous: between two lines of one group every step adds its samples.

        A new group starts from the last commit of the old one, with the same weights, on every
        rank.
        """
        self.read()
        lines = [line for line in self.progress if line["phase"] == "running"]
        for old, new in itertools.pairwise(
            sorted(lines, key=lambda line: (line["time"], line["step"]))
        ):
            if new.get("formed"):
                assert new["step"] <= old["step"], (old, new)
                if new["step"] == old["step"]:
                    assert (new["samples"], new["checksum"]) == (old["samples"], old["checksum"]), (
                        old,
                        new,
                    )
            elif new["world_size"] == old["world_size"]:
                steps = new["step"] - old["step"]
                assert steps >= 0
                assert new["samples"] - old["samples"] == steps * batch * new["world_size"], (
                    old,
                    new,
                )
            else:
                raise AssertionError(f"a size without its 'formed' line: {old} {new}")
        weights: dict[tuple[str, str], set[str]] = {}
        for log in self.path.glob("logs/*/*.log"):
            for words in (
                line.split() for line in log.read_text().splitlines() if line.startswith("rank ")
            ):
                weights.setdefault((words[3], words[6]), set()).add(words[-1])
        assert weights
        assert all(len(found) == 1 for found in weights.values()), weights

    def left(self) -> list[int]:
        """Workers that are still alive."""
        self.read()
        return [
            e["pid"]
            for e in self.events
            if e["event"] == "worker_started" and identify(e["pid"]) is not None
        ]

    def end(self) -> None:
        """End the driver and all workers."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for pid in self.left():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def story(self) -> str:
        """Events, the last progress and the logs' ends."""
        self.read()
        lines = [json.dumps(line) for line in [*self.events, *self.progress[-12:]]]
        for log in [self.path / "driver.log", *sorted(self.path.glob("logs/*/*.log"))]:
            lines += [f"--- {log.name}", *log.read_text(errors="replace").splitlines()[-15:]]
        return "\n".join(lines)


def on_a_word(folder: Path, command: list[str]) -> tuple[list[str], dict[str, str]]:
    """``command`` with workers that are warm only once a file ``go`` exists (except in fragment 1),
    and its environment.

    They are warm within a moment of each other then: the script's own imports come later.
    """
    waits, script = folder / "installed", folder / "on_a_word.py"
    waits.mkdir(parents=True)
    (waits / "waits_for_a_word.py").write_text(
        "import os, time\n"
        "while os.environ['BFTRAINER_FRAGMENT'] != '1' and not os.path.exists('go'):\n"
        "    time.sleep(0.1)\n"
    )
    script.write_text(
        f"import waits_for_a_word\nimport runpy, sys\nsys.argv[0] = {command[1]!r}\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    return [command[0], str(script), *command[2:]], {"PYTHONPATH": str(waits)}


def now_s() -> float:
    """The time, rounded as in events and progress: what happens from now on is not earlier."""
    return math.floor(time.time() * 1e4) / 1e4
