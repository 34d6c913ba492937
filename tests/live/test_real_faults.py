"""Faults of docs/faults.md on real processes: a pilot, drivers and workers of this machine (the
holder ``trace``).
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support.live_machine import CONFIG, Machine, assert_contiguous, eventually, machine
from support.patience import PATIENCE

from bftrainer.system.processes import ProcessId, identify, send, with_variable

HERE = Path(__file__).parent


@pytest.fixture
def on(tmp_path: Path) -> Iterator[Machine]:
    with machine(tmp_path, "n1 n2 n3", CONFIG + "hang_s = 8\n") as it:
        yield it


def events(on: Machine, name: str) -> list[dict[str, object]]:
    path = on.state / "trainers" / name / "events.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def world_size(on: Machine, name: str) -> int:
    sizes = [int(str(e["world_size"])) for e in events(on, name) if e["event"] == "running"]
    return sizes[-1] if sizes else 0


def worker(on: Machine, name: str, rank: int) -> ProcessId:
    """The process that runs the trainer's script in this rank."""
    for process in with_variable("RANK", str(rank)):
        with suppress(OSError):  # trainers of other tests have ranks, too, and end when they like
            words = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
            variables = Path(f"/proc/{process.pid}/environ").read_bytes()
            if f"{name}.steps".encode() in words and str(on.state).encode() in variables:
                return process
    raise AssertionError(f"no worker {rank}")


def fragments(on: Machine) -> set[str]:
    return {str(row["fragment"]) for row in on.rows("nodes") if row["taken_s"] is not None}


@pytest.mark.parametrize(("how", "rank"), [(signal.SIGKILL, 1), (signal.SIGSTOP, 0)])
def test_a_worker_that_is_killed_or_stopped_does_not_end_the_trainer(
    on: Machine, how: signal.Signals, rank: int
) -> None:
    """Killed: its node is taken to be gone. Stopped: rank 0 is silent, as every rank of a real
    group would be.
    """
    on.submit("a", 100_000, 0.05, 2)
    on.pilot()
    eventually(lambda: world_size(on, "a") == 2, 40)
    on.trains_on("a", 5)
    count = len(events(on, "a"))
    assert send(worker(on, "a", rank), how)
    eventually(lambda: any(e["event"] == "worker_exited" for e in events(on, "a")[count:]), 60)
    if how == signal.SIGSTOP:
        why = "hung: no report for 8 s (hang_s)"
        eventually(lambda: any(why in str(row) for row in on.rows("list")), 60)
        assert why in on.said()
        assert not [e for e in events(on, "a")[count:] if e["event"] == "withheld"], (
            "its nodes are not to blame"
        )
    on.trains_on("a")
    eventually(lambda: world_size(on, "a") == 2, 60)
    on.trains_on("a", 5)
    on.end(on.children[-1])
    assert_contiguous(on.steps("a"))
    on.assert_in_order()


def test_a_worker_that_ignores_everything_is_ended_with_its_children(on: Machine) -> None:
    up = on.work / "up"
    on.bftrainer(
        "submit",
        "--name",
        "deaf",
        "--max-nodes",
        1,
        "--samples-per-s",
        1,
        "--cwd",
        on.work,
        "--set",
        "stop_s = 1",
        "--set",
        f"command = {json.dumps([sys.executable, str(HERE / 'deaf.py'), str(up)])}",
    )
    on.pilot()
    eventually(up.exists, 40)
    on.bftrainer("cancel", "deaf")
    eventually(lambda: on.status("deaf") == "canceled", 40)
    eventually(lambda: identify(int(up.read_text())) is None, 40)
    on.end(on.children[-1])
    on.assert_in_order()


def test_a_full_disk_ends_the_pilot_and_nothing_else(on: Machine) -> None:
    on.submit("a", 100_000, 0.05, 2)
    sign = on.work / "full"
    pilot = on.pilot(HERE / "pilot_on_a_full_disk.py", str(sign))
    eventually(lambda: world_size(on, "a") == 2, 40)
    before = fragments(on)
    sign.touch()
    assert pilot.wait(60 * PATIENCE) == 1
    eventually(lambda: "bftrainer: " in (on.work / "pilot.log").read_text())
    said = [
        line
        for line in (on.work / "pilot.log").read_text().splitlines()
        if not line.startswith("20")
    ]
    assert len(said) == 1, said
    assert said[0].startswith("bftrainer: ")
    on.trains_on("a", 5)
    # The submission waits on its disk until somebody reads it.
    on.submit("b", 10, 0.02, 1)
    on.pilot()
    eventually(lambda: on.status("b") == "done", 60)
    assert before <= fragments(on), "back within its lease it finds what it held"
    on.trains_on("a", 5)
    on.end(on.children[-1])
    assert_contiguous(on.steps("a"))
    on.assert_in_order()
