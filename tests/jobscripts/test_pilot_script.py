"""pilot.slurm, pilot.lsf and pilot.pbs supervise: a crash is a new start, a mistake or an end is not, signals
go on to the pilot.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.live_machine import eventually
from support.patience import PATIENCE
from support.ran import ran

SCRIPTS = Path(__file__).parents[2] / "jobscripts"
LONG_S = 30.0 * PATIENCE


@pytest.fixture(params=["pilot.slurm", "pilot.lsf", "pilot.pbs"])
def script(request: pytest.FixtureRequest) -> Path:
    return SCRIPTS / str(request.param)


def environment(folder: Path, program: str) -> dict[str, str]:
    """PATH with a bftrainer that runs ``program`` (sh) and counts its starts in FOLDER/starts."""
    (folder / "bin").mkdir()
    fake = folder / "bin" / "bftrainer"
    fake.write_text(
        f'#!/bin/sh\necho "$@" >>"{folder}/starts"\nstarts=$(wc -l <"{folder}/starts")\n{program}\n'
    )
    fake.chmod(0o755)
    clean = {
        k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "LSB_", "BFTRAINER_"))
    }
    return clean | {"PATH": f"{folder / 'bin'}:/usr/bin:/bin", "BFTRAINER_RESTART_S": "0.05"}


def supervise(
    script: Path, folder: Path, program: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    return ran("bash", script, *arguments, env=environment(folder, program))


def starts(folder: Path) -> list[str]:
    path = folder / "starts"
    return path.read_text().splitlines() if path.exists() else []


def wait_for(folder: Path, lines: list[str]) -> None:
    """Until the fake has written just these lines."""
    eventually(lambda: starts(folder) == lines)


@contextmanager
def supervised(
    name: str, folder: Path, program: str, **variables: str
) -> Iterator[subprocess.Popen[bytes]]:
    """The script, until it has ended."""
    process = subprocess.Popen(
        ["bash", str(SCRIPTS / name)], env=environment(folder, program) | variables
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def test_a_crash_is_a_new_start_until_it_ends_by_itself(script: Path, tmp_path: Path) -> None:
    done = supervise(script, tmp_path, '[ "$starts" -lt 3 ] && kill -KILL $$\nexit 0')
    assert done.returncode == 0
    assert starts(tmp_path) == ["pilot"] * 3
    said = [line for line in done.stderr.splitlines() if "restarting" in line]
    pauses = [line.partition("exited with status 137; restarting in ")[2] for line in said]
    assert pauses == ["0.05 s", "0.1 s"], "twice as long each time"


def test_a_users_mistake_is_not_tried_again(script: Path, tmp_path: Path) -> None:
    done = supervise(script, tmp_path, "exit 2")
    assert (done.returncode, starts(tmp_path)) == (2, ["pilot"])
    (tmp_path / "starts").unlink()
    (tmp_path / "bin").rename(tmp_path / "old")
    done = supervise(
        script, tmp_path, "exit 0", "--state", "x"
    )  # its successor would lose an argument
    assert (done.returncode, starts(tmp_path)) == (2, [])
    assert "give the state directory as BFTRAINER_STATE" in done.stderr


def test_the_cores_of_the_pilots_own_job_are_not_those_of_workers(tmp_path: Path) -> None:
    """PBS sets these variables in every job; workers have the pilot's environment."""
    program = f'echo "$NCPUS,$OMP_NUM_THREADS,$CUDA_VISIBLE_DEVICES" >"{tmp_path}/seen"'
    of_pbs = {"NCPUS": "1", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    with supervised("pilot.pbs", tmp_path, program, **of_pbs) as process:
        assert process.wait(LONG_S) == 0
    assert (tmp_path / "seen").read_text() == ",,\n"


@pytest.mark.parametrize(
    ("name", "signalled"),
    [
        ("pilot.slurm", signal.SIGTERM),
        ("pilot.slurm", signal.SIGUSR1),
        ("pilot.lsf", signal.SIGINT),
        ("pilot.lsf", signal.SIGUSR2),
    ],
)
def test_a_signal_goes_on_to_the_pilot_which_takes_its_time(
    tmp_path: Path, name: str, signalled: signal.Signals
) -> None:
    """The notice of the end of the job's time is SIGUSR1 to the pilot, whatever the scheduler makes
    of it.
    """
    heard = {signal.SIGUSR1: "USR1", signal.SIGUSR2: "USR1"}.get(signalled, "TERM")
    said = f'>>"{tmp_path}/starts"'
    drain = f"trap 'sleep 0.3; echo drained {said}; exit 0' {heard}"
    with supervised(
        name, tmp_path, f"{drain}\necho listens {said}\nwhile :; do sleep 0.05; done"
    ) as process:
        wait_for(tmp_path, ["pilot", "listens"])
        process.send_signal(signalled)
        assert process.wait(LONG_S) == 0
    assert starts(tmp_path) == ["pilot", "listens", "drained"]


def test_a_hangup_is_the_pilots_to_reload_and_ends_nothing(script: Path, tmp_path: Path) -> None:
    said = f'>>"{tmp_path}/starts"'
    program = (
        f"trap 'echo reloaded {said}' HUP\ntrap 'exit 0' TERM\necho listens "
        f"{said}\nwhile :; do sleep 0.05; done"
    )
    with supervised(script.name, tmp_path, program) as process:
        wait_for(tmp_path, ["pilot", "listens"])
        for times in (1, 2):
            process.send_signal(signal.SIGHUP)
            wait_for(tmp_path, ["pilot", "listens", *["reloaded"] * times])
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONG_S) == 0
