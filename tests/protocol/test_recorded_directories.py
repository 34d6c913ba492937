"""Recorded trainer directories: a pilot understands their drivers, a driver obeys their files. Other
formats are refused.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.horovod_trainer import SITE
from support.patience import PATIENCE
from support.recorded_views import folded

from bftrainer.config.trainer_file import TrainerSpec
from bftrainer.config.validation import check_table
from bftrainer.pilot.trainers.driver_process import DriverProcess
from bftrainer.pilot.trainers.launcher import DirectoryLauncher
from bftrainer.plugins import driver_module
from bftrainer.progress import STOPPED_STATUS, Reporter, Scaling, batches
from bftrainer.system.processes import identify
from bftrainer.wires import VERSION
from bftrainer.wires.control import ControlMessage, ControlRequest, is_stop_requested
from bftrainer.wires.driver_events import DriverEvent, Running, parse_event
from bftrainer.wires.driver_pid import DriverPid, write_own_pid
from bftrainer.wires.hosts_file import HostSlots, read_hosts
from bftrainer.wires.messages import DriverSettings, StartedPer, TrainerMessage
from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.reports import Ending
from bftrainer.wires.typed_json import OtherVersionError, from_fields, read_json, write_json

CHECKOUT = Path(__file__).parents[2]
RECORDED = CHECKOUT / "tests/recorded/trainer-directory-1"
STORIES = sorted(path.name for path in RECORDED.iterdir() if path.is_dir())
ENDINGS = {
    "horovod": Ending.STOPPED,
    "restart-done": Ending.DONE,
    "restart-failed": Ending.FAILED,
    "restart-hung": Ending.STOPPED,
    "restart-killed": Ending.KILLED,
    "restart-stopped": Ending.STOPPED,
    "torchrun": Ending.STOPPED,
}


def copied(story: str, folder: Path) -> TrainerDirectory:
    """A copy below ``folder``, whose commands run there."""
    directory = TrainerDirectory(folder / "t")
    shutil.copytree(RECORDED / story, directory.path)
    trainer = json.loads(directory.trainer.read_text())
    directory.trainer.write_text(json.dumps(trainer | {"cwd": str(folder)}))
    # A driver reads only the settings of the pilot that starts it.
    directory.driver.write_text(
        json.dumps({"version": 1, "driver": "restart", **SITE, "poll_s": 0.05})
    )
    return directory


def test_every_story_and_every_event_is_there() -> None:
    assert sorted(ENDINGS) == STORIES
    lines = [
        line
        for story in STORIES
        for line in TrainerDirectory(RECORDED / story).events.read_text().splitlines()
    ]
    parsed = [parse_event(json.loads(line)) for line in lines]
    assert None not in parsed
    assert {line.event.word for line in parsed if line is not None} == set(DriverEvent)


@pytest.mark.parametrize("story", STORIES)
def test_the_view_after_each_line_is_the_recorded_one(story: str) -> None:
    text = (RECORDED / story / "views.jsonl").read_text(encoding="utf-8")
    entries = [json.loads(line) for line in text.splitlines()]
    views = folded((entry["file"], entry["line"]) for entry in entries)
    for entry, view in zip(entries, views, strict=True):
        assert view == entry["view"], entry["line"]


@pytest.mark.parametrize("story", STORIES)
def test_a_pilot_that_comes_finds_how_a_driver_ended(story: str, tmp_path: Path) -> None:
    copied(story, tmp_path)
    directory = TrainerDirectory(tmp_path / "t")
    # Of a host that is this one, but from before its last boot: nobody has this start time.
    pid = json.loads(directory.driver_pid.read_text())
    directory.driver_pid.write_text(
        json.dumps(pid | {"host": os.uname().nodename, "start_ticks": 0})
    )
    view = DirectoryLauncher(tmp_path, {}).look("t")
    assert (view.alive, view.ending) == (False, ENDINGS[story])


def test_a_pilot_that_comes_back_adopts_the_driver_that_runs(tmp_path: Path) -> None:
    directory = copied("restart-stopped", tmp_path)
    lines = directory.events.read_text().splitlines(keepends=True)
    directory.events.write_text("".join(lines[:-1]))
    write_own_pid(directory.driver_pid)  # this test is the driver
    with directory.driver_lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        launcher = DirectoryLauncher(tmp_path, {})
        view = launcher.look("t")
        assert (view.alive, view.on, view.withheld) == (True, {"f1", "f3"}, {"f2"})
        requests = read_json(ControlMessage, directory.control).number
        launcher.ask_to_stop("t")
        assert read_json(ControlMessage, directory.control) == ControlMessage(
            ControlRequest.STOP, requests + 1
        )
        directory.events.write_text("".join(lines))
        assert launcher.look("t").ending is Ending.STOPPED


def test_what_the_pilot_wrote_is_read(tmp_path: Path) -> None:
    stopped, done = (
        TrainerDirectory(RECORDED / story) for story in ("restart-stopped", "restart-done")
    )
    trainer = read_json(TrainerMessage, stopped.trainer)
    assert (trainer.id, trainer.environment, trainer.stop_s) == (
        "restart-stopped",
        {"A": "1"},
        60.0,
    )
    assert (trainer.stop_signal, trainer.started_per) == ("SIGUSR2", StartedPer.WORKER)
    assert read_hosts(stopped.hosts) == (HostSlots("n1", 1, "f1"), HostSlots("n3", 1, "f3"))
    assert is_stop_requested(stopped.control)
    assert read_json(DriverPid, stopped.driver_pid).host == "localhost"
    assert read_json(TrainerMessage, done.trainer).started_per is StartedPer.TRAINER
    assert not is_stop_requested(done.control)
    assert read_hosts(TrainerDirectory(RECORDED / "restart-hung").hosts) == ()
    leave = read_json(ControlMessage, TrainerDirectory(RECORDED / "restart-hung").leave)
    assert leave == ControlMessage(ControlRequest.STOP, 2)


def test_a_script_obeys_its_driver_and_its_pilot(tmp_path: Path) -> None:
    def asked(story: str, incarnation: int) -> bool:
        path = str(RECORDED / story)
        return Reporter(
            {"BFTRAINER_TRAINER_DIR": path, "BFTRAINER_INCARNATION": str(incarnation)}
        ).stop_requested()

    assert asked("restart-stopped", 1)
    assert [asked("restart-hung", number) for number in (1, 2, 3)] == [False, True, False]
    found = batches(Scaling.WEAK, 8, {"BFTRAINER_TRAINER_DIR": str(RECORDED / "horovod")})
    assert (found.scaling, found.global_batch) == (Scaling.STRONG, 32)


@pytest.mark.parametrize(
    ("story", "status", "word", "says"),
    [
        # Both workers end alike; which of them is noticed first is up to the machine.
        (
            "restart-failed",
            1,
            DriverEvent.FAILED,
            {"reason": "status 3, node n[12], slot 0", "tail": r"\['no data'\]"},
        ),
        ("restart-stopped", STOPPED_STATUS, DriverEvent.STOPPED, {"reason": "stop requested"}),
    ],
)
def test_a_driver_does_what_the_directory_says(
    story: str, status: int, word: DriverEvent, says: dict[str, str], tmp_path: Path
) -> None:
    directory = copied(story, tmp_path)
    argv = [sys.executable, "-m", driver_module("restart"), str(directory.path)]
    path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
    found = subprocess.run(
        argv, cwd="/", env={**os.environ, "PATH": path}, timeout=60 * PATIENCE, check=False
    )
    assert found.returncode == status
    last = json.loads(directory.events.read_text().splitlines()[-1])
    assert last["event"] == word.value
    assert all(re.fullmatch(words, str(last[key])) for key, words in says.items()), last


# --- Every reader of the trainer directory rejects files of another version, and ignores what is
# new in its own


@pytest.fixture
def directory(tmp_path: Path) -> TrainerDirectory:
    made = TrainerDirectory(tmp_path / "t")
    write_json(made.trainer, TrainerMessage("t", (sys.executable, "-c", "pass"), tmp_path, 1, 1))
    write_json(made.driver, from_fields(DriverSettings, {**SITE, "driver": "restart"}, "test"))
    write_json(made.control, ControlMessage(ControlRequest.STOP, 1))
    write_own_pid(made.driver_pid)
    return made


def of_version(path: Path, version: int) -> None:
    path.write_text(
        json.dumps(json.loads(path.read_text()) | {"version": version, "a key of tomorrow": 1})
    )


@pytest.fixture
def foreign(directory: TrainerDirectory) -> Iterator[subprocess.Popen[bytes]]:
    """A driver of another version: a process that holds the lock, in whatever way ``driver.pid``
    names it.
    """
    lock = os.open(directory.driver_lock, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    process = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(lock,)
    )
    os.close(lock)
    ticks = int(identify(process.pid).started.partition("@")[0])
    write_json(directory.driver_pid, DriverPid(process.pid, ticks, socket.gethostname()))
    of_version(directory.driver_pid, VERSION + 1)
    yield process
    process.kill()
    process.communicate()


def test_a_driver_of_another_version_is_ended_and_fails_its_trainer(
    directory: TrainerDirectory, foreign: subprocess.Popen[bytes]
) -> None:
    """It is killed, since its pid and start time say that it is this process; then another may
    start.
    """
    launcher = DirectoryLauncher(directory.path.parent, SITE)
    assert launcher.look("t").alive
    assert foreign.wait(60 * PATIENCE) == -signal.SIGKILL
    view = launcher.look("t")
    assert (view.alive, view.ending) == (False, Ending.FAILED)
    assert f"driver.pid: version: expected {VERSION}, found {VERSION + 1}" in view.reason
    assert DriverProcess(directory).lock() is not None, "it is free for the next"


def test_a_driver_of_another_version_that_cannot_be_told_is_waited_for(
    directory: TrainerDirectory, foreign: subprocess.Popen[bytes]
) -> None:
    """Its file names no process that can be verified: nobody is killed, and no second driver starts
    beside it.
    """
    path = directory.driver_pid
    path.write_text(json.dumps(json.loads(path.read_text()) | {"start_ticks": 1}))
    launcher = DirectoryLauncher(directory.path.parent, SITE)
    for _ in range(3):
        view = launcher.look("t")
        assert view.alive
        assert "found 2" in view.reason
    launcher.start(
        check_table({"name": "t", "command": ["true"], "max_nodes": 1}, TrainerSpec, "test"), ()
    )
    assert json.loads(path.read_text())["version"] == VERSION + 1, "no driver was started"
    assert foreign.poll() is None
    foreign.kill()
    foreign.wait()
    assert not launcher.look("t").alive


def test_a_control_file_of_another_version_is_replaced_with_the_next_request(
    directory: TrainerDirectory,
) -> None:
    of_version(directory.control, VERSION + 1)
    launcher = DirectoryLauncher(directory.path.parent, SITE)
    assert launcher.look("t").alive
    launcher.ask_to_stop("t")
    assert is_stop_requested(directory.control)


@pytest.mark.parametrize("name", ["trainer", "driver"])
def test_a_driver_fails_where_a_pilot_of_another_version_wrote(
    directory: TrainerDirectory, name: str
) -> None:
    path = getattr(directory, name)
    of_version(path, VERSION + 1)
    argv = [sys.executable, "-m", driver_module("restart"), str(directory.path)]
    assert subprocess.run(argv, cwd="/", timeout=60 * PATIENCE, check=False).returncode == 1
    *_, line = directory.events.read_text().splitlines()
    assert (
        f"{path.name}: version: expected {VERSION}, found {VERSION + 1}"
        in json.loads(line)["reason"]
    )


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
    assert parsed.event == Running(1, ("1",))
    assert parse_event(line | {"event": "a word of tomorrow"}) is None
    assert parse_event(line | {"world_size": "one"}) is None
    assert parse_event({"event": "running"}) is None
