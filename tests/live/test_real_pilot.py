"""The real pilot in its own process, on the trace holder, with real local workers."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.live_machine import Machine, assert_contiguous, eventually, machine
from support.patience import PATIENCE
from support.promises import promise

import bftrainer
from bftrainer.system.files import write_atomically

DIES = Path(__file__).parent / "pilot_that_dies.py"
STEPS = tuple(
    f"{what}: {when}"
    for what in (
        "settings",
        "submission",
        "decision",
        "fragment asked",
        "fragment taken",
        "fragment asked back",
        "fragment released",
        "trainer",
        "note",
        "usage",
        "command",
        "stages",
        "rung",
    )
    for when in ("written", "committed")
)
CHANGING = [
    (0.0, "n1 n2", ""),
    (3.0, "n3", ""),
    (5.0, "", "n1"),
    (6.0, "n1", "n2"),
    (9.0, "n2", "n3"),
    (12.0, "", "n2"),
]


@pytest.fixture
def on(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Machine]:
    with machine(tmp_path, getattr(request, "param", "n1 n2 n3")) as it:
        yield it


def test_a_drained_pilot_leaves_checkpoints_and_the_next_goes_on(on: Machine) -> None:
    on.submit("a", 100_000)
    first = on.pilot()
    eventually(lambda: len(on.steps("a")) > 20)
    on.end(first)
    assert on.status("a") == "waiting"
    before = on.steps("a")[-1]
    second = on.pilot()
    eventually(lambda: len(on.steps("a")) > before[1] + 20)
    (on.work / "a.enough").touch()
    eventually(lambda: on.status("a") == "done")
    after = next(step for step in on.steps("a") if step[0] > before[0])
    promise(after[1] == before[1] + 1, f"a planned stop loses nothing: {before} then {after}")
    on.end(second)
    (usage,) = on.rows("usage")
    assert float(str(usage["held_node_h"])) > float(str(usage["trained_node_h"])) > 0
    on.assert_in_order()


def test_a_second_pilot_is_refused_and_the_first_goes_on(on: Machine) -> None:
    first = on.pilot()
    eventually(lambda: on.state_is_there() and on.rows("events"))
    second = on.bftrainer("pilot", check=False)
    assert second.returncode == 2
    assert f"in use by the pilot with pid {first.pid}" in second.stderr
    assert len(second.stderr.splitlines()) == 1
    assert first.poll() is None


def test_a_second_pilot_in_a_job_waits_for_the_first_and_takes_over(
    on: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A successor that starts early must not give up: its job script takes status 2 for final, and
    no pilot would be left.
    """
    first = on.pilot()
    eventually(lambda: on.state_is_there() and on.rows("events"))
    monkeypatch.setenv("LSB_JOBID", "17")
    second, stopped = on.pilot(), on.pilot()
    monkeypatch.delenv("LSB_JOBID")
    waiting = f"is in use by the pilot with pid {first.pid}"
    eventually(lambda: (on.work / "pilot.log").read_text().count(waiting) >= 2)
    stopped.send_signal(signal.SIGTERM)
    assert stopped.wait(60 * PATIENCE) == 0, "told to end while it waits"
    assert second.poll() is None
    on.end(first)
    eventually(lambda: f"started with pid {second.pid}" in on.said(), 60)
    on.end(second)


def test_every_step_of_the_journal_is_in_the_list() -> None:
    package = Path(bftrainer.__file__).parent
    written = {
        name
        for path in package.rglob("*.py")
        for name in re.findall(r'writ(?:ing|e)\(\s*"([\w ]+)"', path.read_text())
    }
    # The lease is dropped at the end only, see below; a heartbeat is written with the usage.
    assert written - {"lease dropped", "heartbeat"} == {step.partition(":")[0] for step in STEPS}


@pytest.mark.slow
@pytest.mark.parametrize("on", [CHANGING], indirect=True)
def test_kill_minus_9_at_every_step_of_the_journal(on: Machine) -> None:
    """One state directory through all the deaths; the next pilot finds what the last one left."""
    on.submit("long", 1_000_000, 0.02, 2)
    for i, step in enumerate(STEPS):
        if step.startswith(("submission", "trainer", "decision")):
            on.submit(f"t{i}", 15, 0.02, 1)
        if step.startswith("rung"):
            on.submit(
                f"t{i}",
                15,
                0.02,
                1,
                "--stop-when",
                "loss>2@5",
                "--set",
                'env = { REPORTS_LOSS = "1" }',
            )
        if step.startswith("command"):
            on.bftrainer("pause" if step.endswith("written") else "resume", "long")
        # Nodes come and go by the log: a step about a node is there within its round of 12 s.
        pilot = on.pilot(DIES, step)
        assert pilot.wait(60 * PATIENCE) == -signal.SIGKILL, (on.work / "pilot.log").read_text()
    last = on.pilot()
    submitted = ("submission", "trainer", "decision", "rung")
    names = [f"t{i}" for i, step in enumerate(STEPS) if step.startswith(submitted)]
    eventually(lambda: all(on.status(name) == "done" for name in names), 60)
    on.bftrainer("cancel", "long")
    eventually(lambda: on.status("long") == "canceled")
    on.end(last)
    for when in ("written", "committed"):
        dies = on.pilot(DIES, f"lease dropped: {when}")
        began = f"started with pid {dies.pid}"
        eventually(lambda: began in on.said())  # noqa: B023
        dies.send_signal(signal.SIGTERM)
        assert dies.wait(60 * PATIENCE) == -signal.SIGKILL
    for name in [*names, "long"]:
        assert_contiguous(on.steps(name))
    on.assert_in_order()


@pytest.mark.parametrize("on", ["n1 n2"], indirect=True)
def test_a_stopped_pilot_delays_no_node_and_the_trainer_goes_on(on: Machine) -> None:
    on.submit("a", 100_000, 0.05, 2)
    pilot = on.pilot()
    events = on.state / "trainers" / "a" / "events.jsonl"
    eventually(lambda: events.exists() and '"world_size": 2' in events.read_text())
    os.kill(pilot.pid, signal.SIGSTOP)
    (n2,) = (on.state / "holders").glob("n2#*")
    write_atomically(
        n2 / "fragment.json", json.dumps({"ends_s": time.time()}).encode()
    )  # its time in the log is over
    eventually(lambda: '"withheld"' in events.read_text())
    eventually(lambda: '"world_size": 1' in events.read_text().rpartition("withheld")[2])
    assert on.steps("a")
    os.kill(pilot.pid, signal.SIGCONT)
    on.trains_on("a")
    on.end(pilot)
    assert_contiguous(on.steps("a"))
    on.assert_in_order()
