"""A real pilot, a trainer that trains, and one whose files are damaged, hostile or of another
version: only that one fails.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support.command_line import bftrainer
from support.hostile_lines import DEEP, DIGITS_400, line, progress
from support.live_machine import STEPPER, Machine, eventually, machine

from bftrainer.system.processes import ProcessId, identify, is_alive
from bftrainer.wires.paths import TrainerDirectory

BEAT_S = 6.0
"""Longer than between two heartbeats, with which the samples of all trainers are written."""


@pytest.fixture
def on(tmp_path: Path) -> Iterator[Machine]:
    with machine(tmp_path, "n1 n2") as it:
        yield it


def submit_without_a_rate(on: Machine, name: str) -> None:
    program = [sys.executable, str(STEPPER), f"{name}.json", f"{name}.steps", "1000000", "0.05"]
    fast = ["--set", "scale_up_s = 0.2", "--set", "scale_down_s = 0.1", "--set", "stop_s = 30"]
    ended = bftrainer(
        "submit",
        "--name",
        name,
        "--max-nodes",
        1,
        "--cwd",
        on.work,
        *fast,
        "--state",
        on.state,
        "--",
        *program,
    )
    assert ended.status == 0, ended


def both_train(on: Machine) -> subprocess.Popen[bytes]:
    on.submit("good", 1_000_000, 0.05, 1)
    submit_without_a_rate(on, "bad")
    pilot = on.pilot()
    eventually(lambda: len(on.steps("good")) > 3 and len(on.steps("bad")) > 3, 60)
    return pilot


def trains_on(
    on: Machine, name: str, pilot: subprocess.Popen[bytes], seconds: float = BEAT_S
) -> None:
    """It makes steps all the time, and the pilot is there."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        count = len(on.steps(name))
        eventually(lambda: len(on.steps(name)) > count or pilot.poll() is not None)  # noqa: B023
        assert pilot.poll() is None, (on.work / "pilot.log").read_text()


def directory(on: Machine) -> TrainerDirectory:
    return TrainerDirectory(on.state / "trainers" / "bad")


def append(path: Path, *lines: str) -> None:
    with path.open("ab") as out:
        out.write("".join(f"{it}\n" for it in lines).encode("utf-8", "surrogatepass"))


def numbers(on: Machine) -> None:
    now = time.time()
    for value in ("NaN", f"{DIGITS_400}", "-7", "Infinity", "1e300", "true"):
        append(
            directory(on).progress, progress(time=now, samples=f"raw:{value}", loss=f"raw:{value}")
        )
        append(
            directory(on).progress,
            progress(time=f"raw:{value}", step=f"raw:{value}", world_size=f"raw:{value}"),
        )


def lines(on: Machine) -> None:
    path = directory(on).progress
    append(path, DEEP, "\xff\ud800", '"', "[]", progress(phase={}, formed=[]))
    with path.open("ab") as out:
        out.truncate(path.stat().st_size + (2 << 30))
    append(path, "", progress(time=time.time(), samples="raw:NaN"))


def events(on: Machine) -> None:
    head = {"time": time.time(), "incarnation": 1}
    huge = f"raw:{DIGITS_400}"
    path = directory(on).events
    append(path, DEEP, "\ud800", line(head | {"event": {}}))
    append(
        path,
        *(
            line(head | {"event": "stopping", "time": f"raw:{it}"})
            for it in ("NaN", "Infinity", DIGITS_400)
        ),
    )
    append(
        path,
        *(
            line(head | {"event": "stopping", "incarnation": f"raw:{it}"})
            for it in ("NaN", "1e999", DIGITS_400)
        ),
    )
    append(path, line(head | {"event": "running", "world_size": huge, "fragments": ["1"]}))
    append(path, line(head | {"event": "running", "world_size": 1, "fragments": [["1"]]}))
    worker = {
        "event": "worker_started",
        "host": "n1",
        "fragment": "1",
        "slot": 0,
        "pid": 1,
        "log": "x",
    }
    append(path, line(head | worker | {"pid": huge}), line(head | worker | {"slot": "raw:NaN"}))
    append(
        path,
        line(head | {"event": "hung", "host": "n1", "fragment": "1", "silent_s": "raw:Infinity"}),
    )
    append(
        path,
        line(
            head
            | {"event": "withheld", "host": "n1", "fragment": "\ud800\x1b[2J", "reason": "\ud800"}
        ),
    )
    append(path, line(head | {"event": "stopping", "reason": 'raw:"\\ud800\\u001b[2J"'}))


def test_lines_that_cannot_be_used_are_noted_and_both_train_on(on: Machine) -> None:
    pilot = both_train(on)
    for write in (numbers, lines, events):
        noted = on.said().count("report not used: ")
        write(on)
        eventually(lambda: on.said().count("report not used: ") > noted, 60)  # noqa: B023
    trains_on(on, "good", pilot)
    trains_on(on, "bad", pilot, 0.5)
    # The lines are still there when the next pilot comes.
    pilot.send_signal(signal.SIGKILL)
    pilot.wait()
    pilot = on.pilot()
    trains_on(on, "good", pilot)
    assert on.status("bad") == "running"


@pytest.mark.parametrize("name", ["progress", "hosts"])
def test_what_is_no_file_fails_its_trainer_only(on: Machine, name: str) -> None:
    pilot = both_train(on)
    path = getattr(directory(on), name)
    path.unlink()
    if name == "hosts":
        path.mkdir()
        (path / "x").touch()
        on.bftrainer("pause", "bad")
        eventually(lambda: on.status("bad") == "paused" and "bad.steps" not in commands(on), 60)
        on.bftrainer("resume", "bad")
    else:
        os.mkfifo(path)
    eventually(
        lambda: "failed 1 time, will be retried: " in remark(on, "bad") or pilot.poll() is not None,
        60,
    )
    trains_on(on, "good", pilot, 1.0)
    assert str(path) in remark(on, "bad")
    on.bftrainer("cancel", "bad")
    eventually(lambda: on.status("bad") == "canceled" and "bad.steps" not in commands(on), 60)
    on.end(pilot)


def remark(on: Machine, name: str) -> str:
    return next((str(row["reason"]) for row in on.rows("list", "--all") if row["name"] == name), "")


def commands(on: Machine) -> str:
    """The command lines of everything that runs."""
    found = []
    for it in on.processes():
        with suppress(OSError):
            found.append(Path(f"/proc/{it.pid}/cmdline").read_text())
    return "".join(found)


def test_a_driver_of_another_version_fails_its_trainer_which_starts_again(on: Machine) -> None:
    """Found by a pilot that comes after it: it is ended, and never runs beside its successor."""
    pilot = both_train(on)
    pilot.send_signal(signal.SIGKILL)
    pilot.wait()
    path = directory(on).driver_pid
    written = json.loads(path.read_text())
    old = identify(written["pid"])
    assert isinstance(old, ProcessId)
    path.write_text(json.dumps(written | {"version": 99}))
    incarnation = on.steps("bad")[-1][0]
    pilot = on.pilot()
    eventually(lambda: on.steps("bad")[-1][0] > incarnation or pilot.poll() is not None, 60)
    trains_on(on, "good", pilot, 1.0)
    assert not is_alive(old)
    assert "its driver cannot be adopted: " in on.said()
    assert json.loads(path.read_text())["version"] == 1
    on.end(pilot)
