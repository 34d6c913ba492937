"""The job scripts, run by bash without a scheduler, with a bftrainer that only records how it was called."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from patience import PATIENCE

SCRIPTS = Path(__file__).parents[2] / "jobscripts"

# Options of sbatch that our scripts may use, each with what its value looks like.
# https://slurm.schedmd.com/sbatch.html (22.05 to 24.11)
SBATCH = {
    "account": r"\w+",
    "cpus-per-task": r"\d+",
    "job-name": r"[\w-]+",
    "mail-type": r"[A-Z,]+",
    "mem-per-cpu": r"\d+[KMGT]?",
    "mem": r"\d+[KMGT]?",
    "nodes": r"\d+",
    "ntasks": r"\d+",
    "open-mode": r"append|truncate",
    "output": r"[\w%.-]+",
    "partition": r"\w+",
    "qos": r"\w+",
    "requeue": None,
    "signal": r"(B:)?[A-Z0-9]+(@\d+)?",
    "time": r"(\d+-)?\d\d:\d\d:\d\d",
}


def slurm_scripts() -> list[Path]:
    return sorted(SCRIPTS.glob("*.slurm"))


@pytest.mark.parametrize("script", slurm_scripts(), ids=lambda path: path.name)
def test_sbatch_lines_are_options_of_sbatch(script: Path) -> None:
    lines = script.read_text().splitlines()
    assert lines[0] == "#!/bin/bash"
    # sbatch stops reading at the first line that is neither blank nor a comment.
    first_command = next(i for i, line in enumerate(lines) if line and not line.startswith("#"))
    found = [i for i, line in enumerate(lines) if re.match(r"#+SBATCH", line)]
    assert found
    assert found[-1] < first_command
    for i in found:
        option = re.fullmatch(r"##?SBATCH --([a-z-]+)(?:=(\S+))?", lines[i])
        assert option, lines[i]
        name, value = option.groups()
        assert name in SBATCH, f"unknown option in {lines[i]!r}; valid: {', '.join(sorted(SBATCH))}"
        shape = SBATCH[name]
        assert value is None if shape is None else re.fullmatch(shape, value or ""), lines[i]


@pytest.mark.parametrize("script", slurm_scripts(), ids=lambda path: path.name)
def test_bash_can_read_it(script: Path) -> None:
    subprocess.run(["bash", "-n", str(script)], check=True)


def make_bftrainer(folder: Path, status: int = 0) -> Path:
    """A bftrainer that writes its arguments, one a line, and what it sees of the environment."""
    folder.mkdir(parents=True)
    told = folder / "told"
    program = folder / "bftrainer"
    seen = '"threads=$OMP_NUM_THREADS" "backend=$MPLBACKEND"'
    program.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" {seen} >{shlex.quote(str(told))}\necho replayed\nexit {status}\n'
    )
    program.chmod(0o755)
    return told


def replay(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "BFTRAINER_"))}
    return subprocess.run(
        ["bash", str(SCRIPTS / "replay.slurm"), *arguments],
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=30 * PATIENCE,
        check=False,
    )


def test_replay_passes_its_arguments_on(tmp_path: Path) -> None:
    told = make_bftrainer(tmp_path / "bin")
    done = replay("--log", "my log.csv", "--out", "*", PATH=f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert (done.returncode, done.stdout, done.stderr) == (0, "replayed\n", "")
    assert told.read_text().splitlines() == [
        *("replay", "run", "--log", "my log.csv", "--out", "*"),
        *("threads=1", "backend=Agg"),
    ]


def test_replay_takes_the_environment_that_is_named(tmp_path: Path) -> None:
    other = make_bftrainer(tmp_path / "on path")
    told = make_bftrainer(tmp_path / "my venv" / "bin")
    path = f"{tmp_path / 'on path'}:/usr/bin:/bin"
    done = replay(PATH=path, BFTRAINER_VENV=str(tmp_path / "my venv"), SLURM_CPUS_PER_TASK="4")
    assert done.returncode == 0, done.stderr
    assert told.read_text().splitlines() == ["replay", "run", "threads=4", "backend=Agg"]
    assert not other.exists()


def test_replay_ends_with_bftrainers_status(tmp_path: Path) -> None:
    make_bftrainer(tmp_path / "bin", status=2)
    assert replay(PATH=f"{tmp_path / 'bin'}:/usr/bin:/bin").returncode == 2


def test_replay_says_where_it_looked_for_bftrainer(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "bash").symlink_to("/bin/bash")
    done = replay(PATH=str(tmp_path / "bin"))
    assert done.returncode == 127
    assert "BFTRAINER_VENV" in done.stderr
    done = replay(BFTRAINER_VENV=str(tmp_path))
    assert done.returncode == 127
    assert f"{tmp_path}/bin/bftrainer not found" in done.stderr


def test_sweep_runs_under_srun_where_it_has_tasks(tmp_path: Path) -> None:
    told = make_bftrainer(tmp_path / "bin")
    srun = tmp_path / "bin" / "srun"
    srun.write_text('#!/bin/sh\nexec "$@"\n')
    srun.chmod(0o755)
    for tasks, expected in (
        ("9", ["replay", "sweep", "--mpi", "--out", "x y"]),
        ("1", ["replay", "sweep", "--out", "x y"]),
    ):
        done = subprocess.run(
            ["bash", str(SCRIPTS / "sweep.slurm"), "--out", "x y"],
            env={"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "SLURM_NTASKS": tasks},
            capture_output=True,
            text=True,
            timeout=30 * PATIENCE,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert told.read_text().splitlines()[:-2] == expected
