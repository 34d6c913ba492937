"""The job scripts, run by bash without a scheduler, with a bftrainer that only records how it was
called.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from support.ran import ran

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


def make_bftrainer(folder: Path, status: int = 0) -> Path:
    """A bftrainer that writes its arguments, one a line, and what it sees of the environment."""
    folder.mkdir(parents=True)
    told = folder / "told"
    program = folder / "bftrainer"
    seen = '"threads=$OMP_NUM_THREADS" "backend=$MPLBACKEND"'
    program.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" {seen} >{shlex.quote(str(told))}\necho replayed\nexit '
        f"{status}\n"
    )
    program.chmod(0o755)
    return told


def started(script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return ran("bash", SCRIPTS / script, *arguments, env=environment)


def test_replay_passes_its_arguments_on_to_the_environment_that_is_named(tmp_path: Path) -> None:
    told = make_bftrainer(tmp_path / "my venv" / "bin", status=2)
    named = {
        "PATH": "/usr/bin:/bin",
        "BFTRAINER_VENV": str(tmp_path / "my venv"),
        "SLURM_CPUS_PER_TASK": "4",
    }
    done = started("replay.slurm", "my log.csv", "--out", "*", **named)
    assert (done.returncode, done.stdout, done.stderr) == (2, "replayed\n", "")
    seen = ["threads=4", "backend=Agg"]
    assert told.read_text().splitlines() == [
        "replay",
        "run",
        "my log.csv",
        "--out",
        "*",
        *seen,
    ]
    done = started("replay.slurm", PATH="/usr/bin:/bin", BFTRAINER_VENV=str(tmp_path))
    assert (done.returncode, f"{tmp_path}/bin/bftrainer not found" in done.stderr) == (127, True)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, []),
        ({"ID": "1", "MIN": "1", "MAX": "64", "STEP": "1"}, ["--shard", "1/64"]),
        ({"ID": "63", "MIN": "0", "MAX": "63", "STEP": "1"}, ["--shard", "64/64"]),
        ({"ID": "4", "MIN": "0", "MAX": "6", "STEP": "2"}, ["--shard", "3/4"]),
    ],
)
def test_a_job_of_an_array_computes_its_shard(
    tmp_path: Path, variables: dict[str, str], expected: list[str]
) -> None:
    told = make_bftrainer(tmp_path / "bin")
    named = {f"SLURM_ARRAY_TASK_{name}": value for name, value in variables.items()}
    path = f"{tmp_path}/bin:/usr/bin:/bin"
    done = started("sweep.slurm", "my grid.toml", "--out", "*", PATH=path, **named)
    assert done.returncode == 0, done
    one_core = ["--workers", "1"] if expected else []
    given = ["replay", "sweep", "my grid.toml", "--out", "*", *one_core, *expected]
    assert told.read_text().splitlines() == [*given, "threads=1", "backend=Agg"]
