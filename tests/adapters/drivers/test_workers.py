"""Worker processes: how they are started, logged and ended; with small shell programs."""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as drawn_with
from hypothesis import strategies as st
from support.horovod_trainer import SITE
from support.live_machine import eventually
from support.ran import ran

from bftrainer.system.json_tail import JsonTail
from bftrainer.system.processes import identify
from bftrainer.wires.environment import PREEMPTION_SIGNAL
from bftrainer.wires.hosts_file import HostSlots
from bftrainer.wires.log_tail import last_lines
from bftrainer.wires.messages import DriverSettings, TrainerMessage
from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.typed_json import read_json
from bftrainer_clusters.on_node.payload import NOTICE
from bftrainer_drivers.common import warm_start
from bftrainer_drivers.common.command_line import (
    SETUP,
    filled_prefix,
    setup_script,
    step_command,
    thread_variables,
    worker_environment,
)
from bftrainer_drivers.common.event_writer import EventWriter
from bftrainer_drivers.common.reaper import Reaper
from bftrainer_drivers.common.worker_log import CappedLog
from bftrainer_drivers.common.workers import WorkerStarter, exit_code

HOST = HostSlots("n1", 1, "77")
SRUN = ("srun", "--jobid={fragment_id}", "--overlap", "-w", "{node}", "-N1", "-n1")


@pytest.fixture
def directory(tmp_path: Path) -> TrainerDirectory:
    made = TrainerDirectory(tmp_path)
    base = {
        "version": 1,
        "id": "t",
        "command": ["true"],
        "cwd": str(tmp_path),
        "min_nodes": 1,
        "max_nodes": 1,
    }
    made.trainer.write_text(json.dumps({**base, "environment": {"MINE": "1"}}))
    made.driver.write_text(
        json.dumps({"version": 1, "driver": "horovod", **SITE, "log_bytes": 1000})
    )
    made.new_incarnation()
    return made


@pytest.fixture
def order(directory: TrainerDirectory) -> TrainerMessage:
    return read_json(TrainerMessage, directory.trainer)


@pytest.fixture
def settings(directory: TrainerDirectory) -> DriverSettings:
    return read_json(DriverSettings, directory.driver)


@contextmanager
def starting(
    directory: TrainerDirectory, order: TrainerMessage, settings: DriverSettings
) -> Iterator[WorkerStarter]:
    events = EventWriter(directory.events, 1)
    made = WorkerStarter(directory, order, settings, events)
    yield made
    made.close()
    for worker in made.live():
        made.wait(worker)
    events.close()


@pytest.fixture
def starter(
    directory: TrainerDirectory, order: TrainerMessage, settings: DriverSettings
) -> Iterator[WorkerStarter]:
    with starting(directory, order, settings) as made:
        yield made


def ran_after(setup: Sequence[str], command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """``command`` after setup lines, as on a node."""
    environment = {**os.environ, SETUP: setup_script(setup)}
    return ran(*step_command(command, has_setup=True), env=environment)


def running_command_lines() -> Iterator[bytes]:
    """What any user may read in ``ps``."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            yield path.read_bytes()


def test_the_prefix_is_filled_in() -> None:
    assert filled_prefix(SRUN, HOST) == [
        "srun",
        "--jobid=77",
        "--overlap",
        "-w",
        "n1",
        "-N1",
        "-n1",
    ]
    assert filled_prefix(["env", "A={x}"], HOST) == ["env", "A={x}"]


def test_setup_lines_run_in_the_same_shell_and_stop_at_the_first_failure() -> None:
    script = (
        "import os, resource; print(os.environ['A'], resource.getrlimit(resource.RLIMIT_CORE)[0])"
    )
    shown = [sys.executable, "-c", script]
    good = ran_after(["A=1", "export A"], shown)
    assert good.stdout.split()[-2:] == ["1", "0"]
    bad = ran_after(["(exit 7)", "export A=1"], shown)
    assert (bad.returncode, bad.stdout) == (7, "")
    arguments = ["a b", "$HOME", "'", ""]
    shown = [sys.executable, "-c", "import sys; print(sys.argv[1:])", *arguments]
    assert ran(*step_command(shown)).stdout.strip() == repr(arguments)
    unclosed = ran_after(["export A='1"], shown)
    assert (unclosed.returncode != 0, unclosed.stdout) == (True, "")


def test_setup_lines_stand_on_no_command_line_and_not_in_the_environment_of_the_worker(
    directory: TrainerDirectory, order: TrainerMessage, settings: DriverSettings
) -> None:
    """The prefix, such as srun, has its arguments for as long as the worker runs, and any user may
    read them.
    """
    mark = directory.path / "ready"
    lines = ("export HF_TOKEN=hf_secret", f"touch {mark}")
    prefix = ("/bin/sh", "-c", 'unset HF_TOKEN; "$@"; exit', "prefix")
    trainer = dataclasses.replace(order, setup=lines)
    shown = ["/bin/sh", "-c", "echo $HF_TOKEN $BFTRAINER_SETUP; read line; exit"]
    with starting(directory, trainer, dataclasses.replace(settings, prefix=prefix)) as starter:
        worker = starter.start(HOST, 0, shown, {}, b"never printed")
        eventually(mark.exists)
        command_lines = list(running_command_lines())
        assert any(b"unset HF_TOKEN" in line for line in command_lines), (
            "that of the prefix is there"
        )
        assert not any(b"hf_secret" in line for line in command_lines)
        assert worker.send(b"\n")
        assert starter.wait(worker) == 0
    assert worker.log.read_text() == "hf_secret\n"


def test_setup_begins_with_the_environment_of_the_trainer_whatever_profiles_do(
    directory: TrainerDirectory, order: TrainerMessage, settings: DriverSettings, tmp_path: Path
) -> None:
    (tmp_path / ".bash_profile").write_text("export PATH=/usr/bin:/bin CONDA_PREFIX=/base SITE=1\n")
    own = {"HOME": str(tmp_path), "PATH": "/venv/bin:/bin"}
    own |= {"CONDA_PREFIX": "/my 'env", "VIRTUAL_ENV": "/venv", "a b": "c"}
    trainer = dataclasses.replace(order, setup=("PATH=/module/bin:$PATH",), environment=own)
    shown = ["sh", "-c", 'echo "$PATH|$CONDA_PREFIX|$VIRTUAL_ENV|$SITE|$BFTRAINER_GIVEN"']
    with starting(directory, trainer, settings) as starter:
        worker = starter.start(HOST, 0, shown, {})
        assert starter.wait(worker) == 0
    assert worker.log.read_text() == "/module/bin:/venv/bin:/bin:/usr/bin:/bin|/my 'env|/venv|1|\n"


def test_a_worker_does_not_hear_the_notice_for_its_holder() -> None:
    """The payload decides in which order the node's processes die."""
    assert PREEMPTION_SIGNAL == NOTICE, (
        "the payload, a file of its own on the node, has the number as well"
    )
    argv = step_command(["bash", "-c", f"kill -{NOTICE} $$; echo alive"])
    assert ran(*argv).stdout == "alive\n"


def test_the_job_of_the_pilot_is_not_inherited(
    settings: DriverSettings, order: TrainerMessage
) -> None:
    kept, left = (
        {"SLURM_CONF": "/c", "PATH": "/bin"},
        {"SLURM_JOB_ID": "1", "SRUN_DEBUG": "1", "SBATCH_X": "1"},
    )
    found = worker_environment(kept | left | {"MINE": "0"}, settings, order, {"HOROVOD_RANK": "0"})
    mine = {**kept, "MINE": "1", "HOROVOD_RANK": "0"}
    assert found == {"PYTHONUNBUFFERED": "1", **mine}


def test_a_worker_is_logged_and_reported(
    starter: WorkerStarter, directory: TrainerDirectory
) -> None:
    worker = starter.start(
        HOST, 0, ["sh", "-c", "echo $BFTRAINER_NODE $BFTRAINER_FRAGMENT; echo no >&2; exit 3"], {}
    )
    assert starter.wait(worker) == 3
    begun, ended = JsonTail(directory.events).read()
    assert (begun["event"], begun["pid"]) == ("worker_started", worker.process.pid)
    assert (directory.path / begun["log"]).read_text() == "n1 77\nno\n"
    assert (ended["event"], ended["status"], ended["planned"]) == ("worker_exited", 3, False)
    assert starter.live() == []


def test_a_local_worker_dies_with_its_children(
    starter: WorkerStarter, directory: TrainerDirectory
) -> None:
    worker = starter.start(
        HOST, 0, ["sh", "-c", "trap '' TERM; sleep 60 & echo $! > child; wait"], {}
    )
    child = directory.path / "child"
    eventually(lambda: child.exists() and child.read_text().strip())
    starter.kill_all()
    assert starter.wait(worker) == -signal.SIGKILL
    eventually(lambda: identify(int(child.read_text())) is None)


def test_children_of_a_local_worker_end_when_it_does(
    starter: WorkerStarter, directory: TrainerDirectory
) -> None:
    worker = starter.start(HOST, 0, ["sh", "-c", "sleep 60 & echo $! > child; exit 4"], {})
    assert starter.wait(worker) == 4
    eventually(lambda: identify(int((directory.path / "child").read_text())) is None)


def test_through_a_prefix_only_its_process_is_killed(
    directory: TrainerDirectory, order: TrainerMessage, settings: DriverSettings
) -> None:
    """srun starts a helper in its group; with both killed, Slurm would not end the step."""
    prefix = ("sh", "-c", 'sleep 60 & echo $! > helper; "$@"', "prefix")
    with starting(directory, order, dataclasses.replace(settings, prefix=prefix)) as starter:
        worker = starter.start(HOST, 0, ["sleep", "60"], {})
        helper = directory.path / "helper"
        eventually(lambda: helper.exists() and helper.read_text().strip())
        worker.kill()
        starter.wait(worker)
        assert identify(int(helper.read_text())) is not None
        os.killpg(worker.process.pid, signal.SIGKILL)


def test_a_marked_worker_takes_one_line(starter: WorkerStarter) -> None:
    marked = threading.Event()
    worker = starter.start(
        HOST,
        0,
        ["sh", "-c", "printf 'rea'; sleep 0.1; echo 'dy!'; read line; echo $line"],
        {},
        b"ready!",
        on_marked=marked.set,
    )
    assert marked.wait(60)
    assert worker.send(b"go\n")
    assert starter.wait(worker) == 0
    assert worker.log.read_text() == "ready!\ngo\n"


def test_a_driver_whose_reaper_was_killed_ends_as_ever() -> None:
    reaper = Reaper()
    reaper._process.kill()
    reaper._process.wait()
    reaper.watch(os.getpid(), signal.SIGCONT)
    reaper.close()


def test_the_reaper_ends_what_a_killed_driver_leaves(tmp_path: Path) -> None:
    script = tmp_path / "driver.py"
    script.write_text(
        "import signal, subprocess, time\n"
        "from bftrainer_drivers.common.reaper import Reaper\n"
        "reaper = Reaper()\n"
        "ended = subprocess.Popen(['true']); reaper.watch(ended.pid, signal.SIGKILL); "
        "ended.wait(); reaper.forget(ended.pid)\n"
        "worker = subprocess.Popen(['sh', '-c', 'sleep 60 & wait'], start_new_session=True)\n"
        "reaper.watch(worker.pid, None)\n"
        "print(worker.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    driver = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    pid = int(driver.stdout.readline())
    assert identify(pid) is not None
    driver.kill()
    driver.wait()
    driver.stdout.close()
    eventually(lambda: identify(pid) is None)


@drawn_with(deadline=None)
@given(st.lists(st.binary(max_size=50), max_size=40), st.integers(2, 200))
def test_a_log_keeps_its_newest_half_and_its_cap(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], cap: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "w.log"
    log = CappedLog(path, cap)
    for piece in pieces:
        log.write(piece)
    log.close()
    before = path.with_name("w.log.1")
    kept = (before.read_bytes() if before.exists() else b"") + path.read_bytes()
    written = b"".join(pieces)
    assert written.endswith(kept)
    assert len(kept) <= cap
    assert len(kept) >= min(len(written), cap // 2)


def test_last_lines_span_a_rotation(tmp_path: Path) -> None:
    log = CappedLog(tmp_path / "w.log", 40)
    for number in range(10):
        log.write(f"line {number}\n".encode())
    log.close()
    assert last_lines(tmp_path / "w.log", 3) == ["line 7", "line 8", "line 9"]
    assert last_lines(tmp_path / "none.log") == []


def test_exit_codes_as_a_shell_says_them() -> None:
    assert [exit_code(status) for status in (0, 3, -9)] == [0, 3, 137]


# --- What is imported before a worker runs its script


def test_what_is_imported_ahead_is_not_searched_for_garbage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "probe_of_gc.py").write_text(
        "import gc\nis_on = gc.isenabled()\n"
    )
    (tmp_path / "train.py").write_text("import probe_of_gc\n")
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    kept: list[object] = []
    kept.append(kept)
    try:
        warm_start.warm_up(str(tmp_path / "train.py"), str(tmp_path / "own"))
        assert (sys.modules["probe_of_gc"].is_on, gc.isenabled()) == (False, True)
        assert gc.get_freeze_count() > 0, "nor at the end of the process"
        later: list[object] = []
        later.append(later)
        assert any(it is later for it in gc.get_objects()), "what the script makes is searched"
        assert not any(it is kept for it in gc.get_objects())
    finally:
        gc.unfreeze()


@pytest.mark.parametrize(
    ("slots", "set_by_user", "given"),
    [(2, {}, "1"), (1, {}, None), (2, {"OMP_NUM_THREADS": "4"}, None)],
)
def test_warm_torchrun_workers_import_torch_with_the_number_of_threads(
    slots: int, set_by_user: dict[str, str], given: str | None
) -> None:
    """OpenMP reads the variable when it is loaded."""
    assert (
        thread_variables(HostSlots("n1", slots, "f1"), set_by_user).get("OMP_NUM_THREADS") == given
    )
