"""``bftrainer record`` as a process beside a cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bftrainer_replay.logs.event_log import read_event_log
from bftrainer_replay.logs.model import EventLog
from support.patience import PATIENCE


@dataclass
class Recording:
    """Started with ``options``; looks every second."""

    out: Path
    env: Mapping[str, str]
    options: tuple[str, ...] = ()
    process: subprocess.Popen[str] = field(init=False)

    def __post_init__(self) -> None:
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "bftrainer",
                "record",
                "--every",
                "1s",
                "--out",
                str(self.out),
                *self.options,
            ],
            env={**os.environ, **self.env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def until(
        self, condition: Callable[[EventLog], bool], what: str, seconds: float = 60.0
    ) -> EventLog:
        """Wait for the log to say so."""
        until = time.monotonic() + seconds * PATIENCE
        while True:
            assert self.process.poll() is None, self.process.communicate()
            if self.out.exists() and self.out.read_text().count("\n") > 1:
                log = read_event_log(self.out)
                if condition(log):
                    return log
            assert time.monotonic() < until, (
                f"waited {seconds:g} s for {what}: {self.out.read_text()}"
            )
            time.sleep(0.2)

    def end(self, signum: int = signal.SIGTERM) -> tuple[int, str, str]:
        """Status, what it said, what it complained of."""
        self.process.send_signal(signum)
        out, err = self.process.communicate(timeout=60 * PATIENCE)
        return self.process.returncode, out, err

    def kill(self) -> None:
        """Without a chance to write anything."""
        self.process.kill()
        self.process.communicate(timeout=60 * PATIENCE)


def idle_at_the_end(log: EventLog) -> frozenset[str]:
    idle: frozenset[str] = frozenset()
    for event in log.events:
        idle = (idle - event.change.left) | event.change.joined
    return idle


def changes_of(log: EventLog, nodes: frozenset[str]) -> list[tuple[float, bool]]:
    """When all of ``nodes`` left (False) and joined (True), in order; joins of the first row are no
    changes.
    """
    found = []
    for event in log.events[1:]:
        if nodes <= event.change.left:
            found.append((event.at_s, False))
        if nodes <= event.change.joined:
            found.append((event.at_s, True))
    return found
