"""Every reader of the trainer directory rejects files of another version, and ignores what is new in its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE

from bftrainer.live.trainers.launcher import DirectoryLauncher
from bftrainer.plugins import driver_module
from bftrainer.progress import Reporter, Scaling, batches
from bftrainer.protocol import VERSION
from bftrainer.protocol.control import ControlMessage, ControlRequest, is_stop_requested
from bftrainer.protocol.driver_pid import write_own_pid
from bftrainer.protocol.events import Running, parse_event
from bftrainer.protocol.messages import DriverSettings, TrainerMessage
from bftrainer.protocol.paths import TrainerDirectory
from bftrainer.protocol.typed_json import OtherVersionError, write_json


@pytest.fixture
def directory(tmp_path: Path) -> TrainerDirectory:
    made = TrainerDirectory(tmp_path / "t")
    write_json(made.trainer, TrainerMessage("t", (sys.executable, "-c", "pass"), tmp_path, 1, 1))
    write_json(made.driver, DriverSettings("restart"))
    write_json(made.control, ControlMessage(ControlRequest.STOP, 1))
    write_own_pid(made.driver_pid)
    return made


def of_version(path: Path, version: int) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": version, "a key of tomorrow": 1}))


@pytest.mark.parametrize("name", ["driver_pid", "control"])
def test_a_pilot_adopts_no_driver_of_another_version(directory: TrainerDirectory, name: str) -> None:
    path = getattr(directory, name)
    of_version(path, VERSION)
    assert DirectoryLauncher(directory.path.parent, {}).look("t").alive
    of_version(path, VERSION + 1)
    with pytest.raises(OtherVersionError, match=rf"{path.name}: version: expected {VERSION}, found {VERSION + 1}"):
        DirectoryLauncher(directory.path.parent, {}).look("t")


@pytest.mark.parametrize("name", ["trainer", "driver"])
def test_a_driver_fails_where_a_pilot_of_another_version_wrote(directory: TrainerDirectory, name: str) -> None:
    path = getattr(directory, name)
    of_version(path, VERSION + 1)
    argv = [sys.executable, "-m", driver_module("restart"), str(directory.path)]
    assert subprocess.run(argv, cwd="/", timeout=60 * PATIENCE, check=False).returncode == 1
    (line,) = directory.events.read_text().splitlines()
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
