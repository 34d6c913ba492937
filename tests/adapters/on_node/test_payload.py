"""The holder's payload, run by a plain python with the variables that Slurm would give it."""

from __future__ import annotations

import ast
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.slurm_lab import wait_until

from bftrainer_clusters import on_node
from bftrainer_clusters.holding.holder_files import HolderFiles
from bftrainer_clusters.on_node import payload

PROGRAM = Path(payload.__file__)
JOB = str(4_000_000_000 + os.getpid())
NAME = f"node01#{JOB}"
PATIENCE_S = 60.0
"""No claim on speed: long enough for a machine that does much else."""


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture
def slow_scontrol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is first in PATH, with an executable ``scontrol`` to be written."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "scontrol").touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def start_payload(
    holders: Path, started: list[subprocess.Popen[bytes]], lease_s: float = 60.0, **constants: float
) -> subprocess.Popen[bytes]:
    """As on a node, or with some of the program's constants changed."""
    env = {
        "SLURM_JOB_ID": JOB,
        "SLURM_STEP_ID": "0",
        "SLURMD_NODENAME": "node01",
        "PATH": os.environ["PATH"],
    }
    argv = [sys.executable, "-I", "-S", str(PROGRAM), str(holders), str(lease_s)]
    if constants:
        code = f"import sys; sys.path.insert(0, {str(PROGRAM.parent)!r}); import payload; "
        code += "".join(f"payload.{name} = {value}; " for name, value in constants.items())
        argv[3:4] = ["-c", f"{code} payload.main(sys.argv[1], float(sys.argv[2]))"]
    process = subprocess.Popen(argv, env=env)
    started.append(process)
    wait_until(lambda: HolderFiles(holders).ready(NAME), "the payload's mark", every_s=0.005)
    return process


def start_worker(
    started: list[subprocess.Popen[bytes]], script: str, up: Path, **variables: str
) -> subprocess.Popen[bytes]:
    env = {"PATH": os.environ["PATH"], "SLURM_JOB_ID": JOB, "SLURM_STEP_ID": "1", **variables}
    process = subprocess.Popen(["bash", "-c", script.replace("UP", f": >{up}")], env=env)
    started.append(process)
    wait_until(up.exists, "the worker")
    if "exec sleep" in script:  # until then its environment may be none
        wait_until(
            lambda: payload.read(process.pid, "cmdline").startswith(b"sleep"),
            "the worker to be a sleep",
        )
    return process


def test_it_is_one_file_for_an_old_and_bare_python() -> None:
    tree = ast.parse(PROGRAM.read_text(), feature_version=(3, 6))
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    assert imported == {"_thread", "os", "signal", "subprocess", "sys", "time"}
    assert not any(isinstance(node, ast.ImportFrom) for node in ast.walk(tree))


def test_on_sigterm_it_kills_the_jobs_other_processes_and_nobody_else(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    holder = start_payload(tmp_path, started, MARK_S=PATIENCE_S)
    stubborn = start_worker(
        started, "trap '' TERM; UP; while :; do sleep 0.2; done", tmp_path / "1"
    )
    family = start_worker(
        started, "setsid bash -c \"trap '' TERM; UP; sleep 1000\" & exec sleep 1000", tmp_path / "2"
    )
    stranger = start_worker(started, "UP; exec sleep 1000", tmp_path / "3", SLURM_JOB_ID=JOB + "0")
    script = subprocess.Popen(
        ["sleep", "1000"], env={"PATH": os.environ["PATH"], "SLURM_JOB_ID": JOB}
    )
    started.append(script)
    holder.send_signal(signal.SIGTERM)
    assert holder.wait(PATIENCE_S) == 0
    assert [process.wait(PATIENCE_S) for process in (stubborn, family)] == [-signal.SIGKILL] * 2
    assert payload.Sweep(JOB, 0).find() == set()
    assert (stranger.poll(), script.poll()) == (None, None)
    said = HolderFiles(tmp_path).leaving(NAME)
    assert " SIGTERM killed=" in said
    # At least the stubborn one, the father and his child in a session of its own: whether they had
    # children, chance decides.
    assert int(said.partition("killed=")[2].split()[0]) >= 3


def test_what_forks_while_it_is_killed_dies_too(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    holder = start_payload(tmp_path, started)
    start_worker(started, "UP; while :; do setsid sleep 77 & sleep 0.002; done", tmp_path / "1")
    time.sleep(0.2)
    holder.send_signal(signal.SIGTERM)
    assert holder.wait(PATIENCE_S) == 0
    assert payload.Sweep(JOB, 0).find() == set()


def test_a_second_pass_looks_only_at_what_is_new_or_ours(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    """A node may have a thousand kernel threads and a few hundred daemons; a main job waits for
    every pass.
    """
    sweep = payload.Sweep(JOB, 0)
    first = start_worker(started, "UP; exec sleep 1000", tmp_path / "1")
    stranger = start_worker(started, "UP; exec sleep 1000", tmp_path / "2", SLURM_JOB_ID=JOB + "0")
    assert sweep.find() == {first.pid}
    again = payload.processes(sweep.others)
    assert first.pid in again
    assert stranger.pid in sweep.others
    second = start_worker(started, "UP; exec sleep 1000", tmp_path / "3")
    assert sweep.find() == {first.pid, second.pid}


def test_the_holders_script_is_no_worker(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    """26.05 gives the environment of batch scripts a step, too: SLURM_STEP_ID=-5."""
    script = start_worker(started, "UP; exec sleep 1000", tmp_path / "1", SLURM_STEP_ID="-5")
    worker = start_worker(started, "UP; exec sleep 1000", tmp_path / "2")
    found = payload.Sweep(JOB, 0).find()
    assert worker.pid in found
    assert script.pid not in found


V1 = "11:memory:/slurm/uid_7/job_12/step_3/task_0\n5:freezer:/slurm_n1/uid_7/job_12/step_3\n1:name=systemd:/slurmd\n0::/\n"
V2 = "0::/system.slice/slurmstepd.scope/job_12/step_3/user/task_0\n"
SLUID = "sE9SM81GPPN200"
V2_SLUID = f"0::/system.slice/node01_slurmstepd.scope/{SLUID}/step_3/user/task_special\n"
MOUNTS = """\
24 1 0:22 / /sys rw - sysfs sysfs rw
30 24 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
31 24 0:27 / /sys/fs/cgroup/freezer rw shared:9 - cgroup cgroup rw,freezer
32 24 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""


@pytest.mark.parametrize(
    ("job", "lines", "mounts", "folder"),
    [
        ("12", V1, MOUNTS, "/sys/fs/cgroup/freezer/slurm_n1/uid_7/job_12"),
        ("12", V2, MOUNTS, "/sys/fs/cgroup/unified/system.slice/slurmstepd.scope/job_12"),
        (
            "12",
            V2_SLUID,
            MOUNTS,
            f"/sys/fs/cgroup/unified/system.slice/node01_slurmstepd.scope/{SLUID}",
        ),
        (
            "12",
            V2,
            "32 24 0:28 /system.slice /c rw - cgroup2 cgroup2 rw\n",
            "/c/slurmstepd.scope/job_12",
        ),
        ("12", V2, "32 24 0:28 /user.slice /c rw - cgroup2 cgroup2 rw\n", ""),
        ("1", V1, MOUNTS, ""),
        ("12", "0::/user.slice\n", MOUNTS, ""),
        ("12", "", "", ""),
    ],
    ids=[
        "v1",
        "v2",
        "v2 by SLUID",
        "mounted in part",
        "not mounted",
        "another job",
        "no job",
        "no cgroups",
    ],
)
def test_the_jobs_cgroup_is_found(job: str, lines: str, mounts: str, folder: str) -> None:
    assert payload.folder_of_job(payload.name_of_folder(job, SLUID, lines), lines, mounts) == folder


def write_step(folder: Path, step: str, *pids: int) -> None:
    (folder / step).mkdir(parents=True, exist_ok=True)
    (folder / step / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))


def start_manager(folder: Path, started: list[subprocess.Popen[bytes]]) -> tuple[int, int]:
    """What calls itself slurmstepd, and its child: a step's first process."""
    program = folder / "slurmstepd"
    shutil.copy("/bin/bash", program)
    manager = subprocess.Popen([program, "-c", f"sleep 1000 & echo $! > {folder}/pid; wait"])
    started.append(manager)
    wait_until(lambda: (folder / "pid").exists() and (folder / "pid").read_text(), "the child")
    return manager.pid, int((folder / "pid").read_text())


def test_members_of_the_jobs_cgroup(tmp_path: Path, started: list[subprocess.Popen[bytes]]) -> None:
    manager, keeper = start_manager(tmp_path, started)
    worker = start_worker(started, "UP; exec sleep 1000", tmp_path / "1").pid
    steps, me = payload.Steps(str(tmp_path / "job_12"), os.getpid()), os.getpid()
    assert not steps.is_usable()
    write_step(tmp_path / "job_12", "step_batch", worker + 10_000_000)
    write_step(tmp_path / "job_12", "step_0", me)
    write_step(tmp_path / "job_12", "step_extern", manager, keeper)
    assert steps.is_usable()
    assert steps.find() == (set(), True)
    write_step(tmp_path / "job_12", "step_1", manager)
    assert steps.find() == (set(), False), "a step that begins, so one looks elsewhere as well"
    write_step(tmp_path / "job_12", "step_1", manager, keeper)
    write_step(tmp_path / "job_12", "step_2/user/task_0", worker)
    assert steps.find() == ({keeper, worker}, True)
    write_step(tmp_path / "job_12", "step_1")
    write_step(tmp_path / "job_12", "step_2/user/task_0")
    assert steps.find() == (set(), True), "steps that have ended"
    write_step(tmp_path / "job_12", "step_extern", manager, keeper, worker)
    assert steps.find() == ({worker}, True), (
        "an adopted session is the job's, Slurm's own process is not"
    )


def test_with_cgroups_a_steps_first_process_dies_last(
    tmp_path: Path, started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, first = start_manager(tmp_path, started)
    others = [start_worker(started, "UP; exec sleep 1000", tmp_path / str(n)) for n in range(2)]
    pids = {process.pid for process in others}
    sent: list[tuple[frozenset[int], int]] = []

    def send(whom: set[int], number: int) -> None:
        sent.append((frozenset(whom), number))
        really(whom, number)

    def find() -> set[int]:
        return {pid for pid in (first, *pids) if lives(pid)}

    really, sweep = payload.send, payload.Sweep(JOB, 0)
    sweep.has_cgroups = True
    monkeypatch.setattr(payload, "send", send)
    monkeypatch.setattr(sweep, "find", find)
    assert sweep.run() == 3
    assert sent[0] == ({first, *pids}, signal.SIGSTOP), "so that nobody starts or ends anything"
    killed = [whom for whom, number in sent if number == signal.SIGKILL]
    assert killed[0] == pids
    assert killed[-1] == {first}


def lives(pid: int) -> bool:
    return payload.read(pid, "stat").rpartition(b")")[2][1:2] not in (b"", b"Z")


@pytest.mark.parametrize("why", ["notice", "released"])
def test_a_notice_or_its_release_ends_it(
    why: str, tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    files = HolderFiles(tmp_path)
    holder = start_payload(tmp_path, started, MARK_S=PATIENCE_S)
    files.hold(NAME)
    files.renew()
    holder.send_signal(payload.NOTICE) if why == "notice" else files.mark_released(NAME)
    assert holder.wait(PATIENCE_S) == 0
    assert f" {why} killed=0" in str(files.leaving(NAME))


@pytest.mark.parametrize(
    "answer", ["exec sleep 1000", "sleep 1000"], ids=["a program", "a script of the site"]
)
@pytest.mark.parametrize("has_worker", [False, True], ids=["no worker", "a worker"])
def test_its_own_question_to_slurm_ends_with_it_and_counts_as_no_worker(
    answer: str,
    has_worker: bool,
    tmp_path: Path,
    started: list[subprocess.Popen[bytes]],
    slow_scontrol: Path,
) -> None:
    """scontrol inherits the step's environment from the payload; on a busy controller it runs for
    seconds.
    """
    (slow_scontrol / "scontrol").write_text(f"#!/bin/sh\n: >{tmp_path}/asked\n{answer}\n")
    holder = start_payload(tmp_path / "holders", started, MARK_S=PATIENCE_S)
    wait_until((tmp_path / "asked").exists, "the question")
    if has_worker:
        start_worker(started, "UP; exec sleep 1000", tmp_path / "1")
    holder.send_signal(payload.NOTICE)
    assert holder.wait(PATIENCE_S) == 0
    assert f" notice killed={int(has_worker)} " in str(
        HolderFiles(tmp_path / "holders").leaving(NAME)
    )
    assert payload.Sweep(JOB, 0).find() == set(), "a process that is left would keep the step"


@pytest.mark.parametrize("hangs", [f"{NAME}/lease", "renewed"], ids=["its lease", "renewals"])
def test_a_file_system_that_hangs_does_not_keep_the_node(
    hangs: str, tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    """A file that blocks whoever opens it (a FIFO here), as on a dead file server."""
    files = HolderFiles(tmp_path)
    (tmp_path / NAME).mkdir()
    (tmp_path / hangs).unlink(missing_ok=True)
    os.mkfifo(tmp_path / hangs)
    holder = start_payload(tmp_path, started)
    time.sleep(0.2)
    # And one that blocks the mark, too.
    os.mkfifo(tmp_path / NAME / "leaving.new")
    holder.send_signal(signal.SIGTERM)
    assert holder.wait(PATIENCE_S) == 0
    assert files.leaving(NAME) is None


@pytest.mark.slow
def test_a_lease_that_is_renewed_holds_and_one_that_is_not_lapses(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    """It lapses after 5.5 s, so a machine may hang for some of them and the renewed one still
    holds.
    """
    files = HolderFiles(tmp_path)
    holder = start_payload(tmp_path, started, lease_s=3.0, GRACE_S=2.0, MARK_S=PATIENCE_S)
    files.hold(NAME)
    for _ in range(16):
        files.renew()
        # A clock that is wrong on one side does not matter: only changes of the text count.
        os.utime(tmp_path / "renewed", (0, 0))
        time.sleep(0.5)
        assert holder.poll() is None
    assert holder.wait(PATIENCE_S) == 0
    assert "lease lapsed" in (files.leaving(NAME) or "")


@pytest.mark.parametrize("let_go", ["never held", "another pilot's", "given up"])
def test_renewals_do_not_keep_one_that_the_pilot_does_not_hold(
    let_go: str, tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    """All fragments read the same file; only those that are held may live on it."""
    files = HolderFiles(tmp_path)
    holder = start_payload(tmp_path, started, lease_s=0.4, GRACE_S=0.4, MARK_S=PATIENCE_S)
    if let_go == "another pilot's":
        HolderFiles(tmp_path).hold(NAME)
    elif let_go == "given up":
        files.hold(NAME)
        files.renew()
        files.remove(NAME)

    def over() -> bool:
        files.renew()
        return holder.poll() is not None

    wait_until(over, "the lease to lapse", PATIENCE_S)
    assert "lease lapsed" in (files.leaving(NAME) or "")


def test_a_pilot_may_be_silent_for_as_long_as_its_lease(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    assert payload.limit_s(60.0) == 75.0
    files = HolderFiles(tmp_path)
    holder = start_payload(tmp_path, started, lease_s=2.0)
    files.hold(NAME)
    files.renew()
    time.sleep(2.0 + 2.0 / payload.RENEWALS)  # the last sign of life was not the last moment
    assert holder.poll() is None
    files.renew()
    time.sleep(1.5)
    assert holder.poll() is None


@pytest.mark.slow
def test_a_payload_that_was_stopped_itself_does_not_take_the_pilot_for_dead(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    """A node that was suspended, or a machine that swaps: the lease was renewed meanwhile."""
    files = HolderFiles(tmp_path)
    holder = start_payload(tmp_path, started, lease_s=0.5, GRACE_S=4.0)  # it lapses after 4.6 s
    files.hold(NAME)
    files.renew()
    holder.send_signal(signal.SIGSTOP)
    time.sleep(6.0)
    files.renew()
    holder.send_signal(signal.SIGCONT)
    time.sleep(1.5)
    assert holder.poll() is None
    assert holder.wait(PATIENCE_S) == 0, "and now it is silent"


@pytest.mark.parametrize(
    ("answer", "leaves"),
    [
        ("echo JobState=RUNNING PreemptTime=2026-11-26T10:36:34 Comment=", True),
        ("echo JobState=RUNNING PreemptTime=None Comment=", False),
        ("exit 1", False),
    ],
)
def test_it_asks_once_whether_a_notice_came_before_it(
    answer: str,
    leaves: bool,
    tmp_path: Path,
    started: list[subprocess.Popen[bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Slurm sends notices to the steps that exist, and kills the others at the end of GraceTime."""
    folder, asked = tmp_path / "bin", tmp_path / "asked"
    folder.mkdir()
    (folder / "scontrol").write_text(f'#!/bin/sh\n{answer}\necho "$*" >{asked}\n')
    (folder / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    holder = start_payload(tmp_path / "holders", started, MARK_S=PATIENCE_S)
    if leaves:
        assert holder.wait(PATIENCE_S) == 0
        assert asked.read_text() == f"-o show job {JOB}\n"
        assert " notice killed=" in (HolderFiles(tmp_path / "holders").leaving(NAME) or "")
    else:
        time.sleep(0.5)
        assert holder.poll() is None


SAVES = "trap 'echo saved >OUT; exit 83' USR1; UP; while :; do sleep 0.05; done"


def test_workers_that_may_save_are_told_and_waited_for(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    """The driver that reads ``preempted.jsonl`` asks them; here the test does. Others are waited
    for in vain, and killed.
    """
    trainer = tmp_path / "trainer"
    trainer.mkdir()
    (trainer / "preempted.jsonl").touch()
    holder = start_payload(tmp_path / "holders", started)
    env = {
        "BFTRAINER_TRAINER_DIR": str(trainer),
        "BFTRAINER_FRAGMENT": NAME,
        "BFTRAINER_NOTICE_S": str(PATIENCE_S),
    }
    script = SAVES.replace("OUT", str(tmp_path / "saved"))
    worker = start_worker(started, script, tmp_path / "1", **env)
    silent = start_worker(started, "UP; exec sleep 1000", tmp_path / "2")
    holder.send_signal(signal.SIGTERM)
    wait_until((trainer / "preempted.jsonl").read_text, "the notice")
    assert json.loads((trainer / "preempted.jsonl").read_text()) == {"fragment": NAME}
    assert (worker.poll(), silent.poll(), holder.poll()) == (None, None, None)
    worker.send_signal(signal.SIGUSR1)
    assert worker.wait(PATIENCE_S) == 83
    assert holder.wait(PATIENCE_S) == 0
    assert silent.wait(PATIENCE_S) == -signal.SIGKILL
    assert (tmp_path / "saved").read_text() == "saved\n"


@pytest.mark.parametrize("seconds", ["0.2", "1e9", "nan", "-1"])
def test_a_worker_that_does_not_save_is_killed(
    tmp_path: Path, started: list[subprocess.Popen[bytes]], seconds: str
) -> None:
    """Its time is bounded, and the trainer directory may be gone: a main job waits."""
    holder = start_payload(tmp_path / "holders", started, MOST_NOTICE_S=0.3)
    env = {
        "BFTRAINER_TRAINER_DIR": "/nowhere",
        "BFTRAINER_FRAGMENT": NAME,
        "BFTRAINER_NOTICE_S": seconds,
    }
    worker = start_worker(
        started, "trap '' TERM USR1; UP; while :; do sleep 0.05; done", tmp_path / "1", **env
    )
    holder.send_signal(signal.SIGTERM)
    assert holder.wait(PATIENCE_S) == 0
    assert worker.wait(PATIENCE_S) == -signal.SIGKILL


# --- What runs on a compute node does so by its path, with that node's own Python 3.6 and nothing
# else

FILES = sorted(Path(on_node.__file__).parent.glob("*.py"))


def test_no_module_has_the_name_of_one_of_the_standard_library() -> None:
    """The folder is ``sys.path[0]`` of these programs: one named ``signal.py`` would be imported
    instead of Python's.
    """
    assert not {path.stem for path in FILES} & sys.stdlib_module_names


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_it_is_python_3_6_and_imports_only_the_standard_library(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 6))
    beside = {other.stem for other in FILES}
    guarded = {
        id(node)
        for top in tree.body
        if isinstance(top, ast.If)
        for node in ast.walk(ast.Module(top.body, []))
    }
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)) and id(node) not in guarded:
            names = (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [alias.name for alias in node.names]
            )
            assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names | beside
    # Not understood by 3.6, although feature_version lets it pass: lazy annotations and what they
    # may contain.
    assert "from __future__ import annotations" not in path.read_text(encoding="utf-8")
