"""The MPI program of the recipe under the driver ``restart``, with a real ``mpiexec``. Nodes are
names: the workers of all of them, and their daemons of Open MPI, are on this machine.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from live.test_restart_driver import Driven
from support.live_machine import eventually
from support.mpi import (
    LOOPBACK,
    MPI_NODES,
    heat,
    left_of_mpi,
    need_mpi,
    plate,
    progress_lines,
    size_now,
    uninterrupted,
)
from support.patience import PATIENCE

from bftrainer.wires.hosts_file import HostSlots
from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.reports import Ending

HOSTS = tuple(HostSlots(f"n{number}", 1, f"f{number}") for number in range(1, 5))


@pytest.fixture
def driven(tmp_path: Path) -> Driven:
    need_mpi()
    return Driven(tmp_path)


def trains_at(driven: Driven, size: int) -> None:
    def is_at_size() -> bool:
        assert driven.look().ending is None, driven.events()[-1]
        return size_now(TrainerDirectory.of(driven.path, "t").progress) == size

    eventually(is_at_size)


def sizes_of(folder: Path) -> list[int]:
    """Return the numbers of ranks at which the program has reported steps."""
    lines = progress_lines(TrainerDirectory.of(folder, "t").progress)
    return list(dict.fromkeys(line["world_size"] for line in lines if line["phase"] == "running"))


@pytest.mark.slow
def test_an_mpi_program_is_resized_and_its_result_is_that_of_an_uninterrupted_run(
    driven: Driven, tmp_path: Path
) -> None:
    with driven:
        driven.start(heat(steps=1200, pace_s=0.02), HOSTS[:2], env=LOOPBACK)
        trains_at(driven, 2)
        for count in (4, 3, 1):
            driven.launcher.order("t", HOSTS[:count])
            trains_at(driven, count)
        driven.ends(Ending.DONE)
    lines = progress_lines(TrainerDirectory.of(tmp_path, "t").progress)
    assert sizes_of(tmp_path) == [2, 4, 3, 1]
    steps = [line["step"] for line in lines if line["phase"] == "running"]
    assert steps == sorted(steps), "no step was computed twice"
    assert plate(tmp_path / "heat-result.npz") == uninterrupted(tmp_path / "alone", 1200)
    eventually(lambda: not left_of_mpi(tmp_path))


@pytest.mark.slow
def test_a_node_that_is_lost_leaves_no_rank_and_costs_the_steps_since_the_last_checkpoint(
    driven: Driven, tmp_path: Path
) -> None:
    with driven:
        driven.start(heat(steps=600, pace_s=0.02), HOSTS[:3], env=LOOPBACK)
        trains_at(driven, 3)
        eventually((tmp_path / "heat.npz").exists)
        started = {event["host"]: event["pid"] for event in driven.events("worker_started")}
        os.killpg(started["n3"], signal.SIGKILL)
        driven.launcher.order("t", HOSTS[:2])
        driven.ends(Ending.DONE)
    assert sizes_of(tmp_path) == [3, 2]
    assert plate(tmp_path / "heat-result.npz") == uninterrupted(tmp_path / "alone", 600)
    eventually(lambda: not left_of_mpi(tmp_path))


def test_several_workers_per_node_are_refused_in_one_line(tmp_path: Path) -> None:
    names = {"BFTRAINER_HOSTS": "n1:2", "LOCAL_WORLD_SIZE": "2", "RANK": "0"}
    ended = subprocess.run(
        [sys.executable, str(MPI_NODES), "true"],
        env={**os.environ, **names},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 1
    assert ended.stderr == (
        "mpi_nodes.py: set slots = 1 in the trainer file, and --ranks-per-node here\n"
    )


MPIEXEC = """#!/bin/sh
echo "$TMPDIR" > mpiexec.folder
ls -d "$TMPDIR" > mpiexec.was_there
for node in n1 n2; do
    $OMPI_MCA_plm_rsh_agent $node "echo \\"\\$TMPDIR\\" > $node.folder; ls -d \\"\\$TMPDIR\\" >&2; exit 3" &
done
wait
while [ ! -s n2.folder ]; do sleep 0.05; done
exit 213
"""
"""Starts a daemon on each of two nodes, which writes its folder for temporary files; then ends as
mpiexec does whose own session folder cannot be created.
"""


def test_each_daemon_has_its_own_folder_for_temporary_files(tmp_path: Path) -> None:
    """Daemons of one user and host that share theirs fail now and then, with status 213."""
    programs, temporary = tmp_path / "bin", tmp_path / "temporary"
    programs.mkdir()
    temporary.mkdir()
    (programs / "mpiexec").write_text(MPIEXEC)
    (programs / "mpiexec").chmod(0o755)
    names = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "TMPDIR": str(temporary),
        "BFTRAINER_HOSTS": "n1:1,n2:1",
        "BFTRAINER_TRAINER_DIR": str(tmp_path),
        "BFTRAINER_INCARNATION": "3",
        "LOCAL_WORLD_SIZE": "1",
    }
    workers = [
        subprocess.Popen(
            [sys.executable, str(MPI_NODES), "true"],
            env={**os.environ, **names, "RANK": str(rank), "BFTRAINER_NODE": f"n{rank + 1}"},
            cwd=tmp_path,
        )
        for rank in (0, 1)
    ]
    statuses = [worker.wait(timeout=60 * PATIENCE) for worker in workers]
    assert statuses == [1, 3], "213 is no signal; a daemon's own status is passed on"
    folders = [(tmp_path / f"{name}.folder").read_text() for name in ("mpiexec", "n1", "n2")]
    assert len(set(folders)) == 3
    assert all(folder.startswith(f"{temporary}/mpi-") for folder in folders)
    assert (tmp_path / "mpiexec.was_there").read_text() == folders[0]
    assert not list(temporary.iterdir()), "nothing is left"
