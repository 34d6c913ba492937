"""Every reader of the trainer directory rejects files of another version, and ignores what is new in its own."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from horovod_trainer import SITE
from patience import PATIENCE

from bftrainer.config.trainer_file import TrainerSpec
from bftrainer.config.validation import check_table
from bftrainer.live.trainers.driver_process import DriverProcess
from bftrainer.live.trainers.launcher import DirectoryLauncher
from bftrainer.plugins import driver_module
from bftrainer.progress import Reporter, Scaling, batches
from bftrainer.protocol import VERSION
from bftrainer.protocol.control import ControlMessage, ControlRequest, is_stop_requested
from bftrainer.protocol.driver_pid import DriverPid, write_own_pid
from bftrainer.protocol.events import Running, parse_event
from bftrainer.protocol.messages import DriverSettings, TrainerMessage
from bftrainer.protocol.paths import TrainerDirectory
from bftrainer.protocol.reports import Ending
from bftrainer.protocol.typed_json import OtherVersionError, from_fields, write_json
from bftrainer.system.processes import identify


@pytest.fixture
def directory(tmp_path: Path) -> TrainerDirectory:
    made = TrainerDirectory(tmp_path / "t")
    write_json(made.trainer, TrainerMessage("t", (sys.executable, "-c", "pass"), tmp_path, 1, 1))
    write_json(made.driver, from_fields(DriverSettings, {**SITE, "driver": "restart"}, "test"))
    write_json(made.control, ControlMessage(ControlRequest.STOP, 1))
    write_own_pid(made.driver_pid)
    return made


def of_version(path: Path, version: int) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": version, "a key of tomorrow": 1}))


class Foreign:
    """A driver of another version: a process that holds the lock, in whatever way ``driver.pid`` names it."""

    def __init__(self, directory: TrainerDirectory) -> None:
        lock = os.open(directory.driver_lock, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        self.process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(lock,))
        os.close(lock)
        me = identify(self.process.pid)
        assert me is not None
        ticks = int(me.started.partition("@")[0])
        message = DriverPid(self.process.pid, ticks, socket.gethostname())
        directory.driver_pid.unlink()
        write_json(directory.driver_pid, message)
        of_version(directory.driver_pid, VERSION + 1)

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def foreign(directory: TrainerDirectory) -> Iterator[Foreign]:
    it = Foreign(directory)
    yield it
    it.end()


def test_a_driver_of_another_version_is_ended_and_fails_its_trainer(
    directory: TrainerDirectory, foreign: Foreign
) -> None:
    """It is killed, since its pid and start time say that it is this process; then another may start."""
    launcher = DirectoryLauncher(directory.path.parent, SITE)
    assert launcher.look("t").alive
    assert foreign.process.wait(60 * PATIENCE) == -signal.SIGKILL
    view = launcher.look("t")
    assert (view.alive, view.ending) == (False, Ending.FAILED)
    assert f"driver.pid: version: expected {VERSION}, found {VERSION + 1}" in view.reason
    assert DriverProcess(directory).lock() is not None, "it is free for the next"


def test_a_driver_of_another_version_that_cannot_be_told_is_waited_for(
    directory: TrainerDirectory, foreign: Foreign
) -> None:
    """Its file names no process that can be verified: nobody is killed, and no second driver starts beside it."""
    path = directory.driver_pid
    path.write_text(json.dumps(json.loads(path.read_text()) | {"start_ticks": 1}))
    launcher = DirectoryLauncher(directory.path.parent, SITE)
    for _ in range(3):
        view = launcher.look("t")
        assert view.alive
        assert "found 2" in view.reason
    launcher.start(check_table({"name": "t", "command": ["true"], "max_nodes": 1}, TrainerSpec, "test"), ())
    assert json.loads(path.read_text())["version"] == VERSION + 1, "no driver was started"
    assert foreign.process.poll() is None
    foreign.end()
    assert not launcher.look("t").alive


def test_a_control_file_of_another_version_is_replaced_with_the_next_request(directory: TrainerDirectory) -> None:
    of_version(directory.control, VERSION + 1)
    launcher = DirectoryLauncher(directory.path.parent, SITE)
    assert launcher.look("t").alive
    launcher.ask_to_stop("t")
    assert is_stop_requested(directory.control)


@pytest.mark.parametrize("name", ["trainer", "driver"])
def test_a_driver_fails_where_a_pilot_of_another_version_wrote(directory: TrainerDirectory, name: str) -> None:
    path = getattr(directory, name)
    of_version(path, VERSION + 1)
    argv = [sys.executable, "-m", driver_module("restart"), str(directory.path)]
    assert subprocess.run(argv, cwd="/", timeout=60 * PATIENCE, check=False).returncode == 1
    *_, line = directory.events.read_text().splitlines()
    assert f"{path.name}: version: expected {VERSION}, found {VERSION + 1}" in json.loads(line)["reason"]


def test_no_stop_is_taken_from_a_control_file_of_another_version(
    directory: TrainerDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    environment = {"BFTRAINER_TRAINER_DIR": str(directory.path)}
    assert Reporter(environment).stop_requested()
    of_version(directory.control, VERSION + 1)
    with pytest.raises(OtherVersionError):
        is_stop_requested(directory.control)
    clock = iter(range(100))
    report = Reporter(environment, clock=lambda: float(next(clock)))
    assert not report.stop_requested()
    assert not report.stop_requested()
    assert capsys.readouterr().err.count("stop requests are not understood") == 1


def test_a_script_reads_no_trainer_of_another_version(directory: TrainerDirectory) -> None:
    environment = {"BFTRAINER_TRAINER_DIR": str(directory.path)}
    of_version(directory.trainer, VERSION)
    assert batches(Scaling.WEAK, 8, environment).global_batch == 8
    of_version(directory.trainer, VERSION + 1)
    with pytest.raises(OtherVersionError):
        batches(Scaling.WEAK, 8, environment)


def test_new_events_and_keys_are_skipped() -> None:
    line = {"time": 1.0, "event": "running", "incarnation": 1, "world_size": 1, "fragments": ["1"]}
    parsed = parse_event(line | {"a key of tomorrow": 1})
    assert parsed is not None
    assert parsed.event == Running(1, ("1",))
    assert parse_event(line | {"event": "a word of tomorrow"}) is None
    assert parse_event(line | {"world_size": "one"}) is None
    assert parse_event({"event": "running"}) is None
