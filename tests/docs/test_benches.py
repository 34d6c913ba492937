"""The benchmarks of the docs still run: nobody else runs them between two measurements."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHES = [
    *sorted(Path("tests/bench").glob("[!_]*.py")),
    *(Path("tests/slurm") / f"{name}.py" for name in ("latency", "race", "zero_impact")),
]


def test_every_bench_can_be_imported_and_tells_its_use() -> None:
    began = {
        path.name: subprocess.Popen(
            [sys.executable, path, "--help"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        for path in BENCHES
    }
    told = {name: process.communicate(timeout=300)[0] for name, process in began.items()}
    assert {name: told[name] for name, process in began.items() if process.returncode} == {}
    assert [name for name, text in told.items() if not text.startswith("usage: ")] == []


def test_the_pilots_bench_runs_on_a_small_cluster() -> None:
    """It has the most stand-ins for our own ports."""
    size = ["--trainers", "3", "--nodes", "60", "--idle", "0.1", "--warm", "0", "--seconds", "2"]
    ended = subprocess.run(
        [sys.executable, "tests/bench/pilot.py", *size], text=True, capture_output=True, timeout=300, check=False
    )
    assert "% of a core" in ended.stdout, ended.stderr
    assert ended.stderr == ""
