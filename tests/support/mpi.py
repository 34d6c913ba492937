"""The MPI program of the recipe (``docs/examples/mpi_heat.py``), for tests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from support.needs import need, need_package
from support.patience import PATIENCE

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
MPI_NODES, MPI_HEAT = EXAMPLES / "mpi_nodes.py", EXAMPLES / "mpi_heat.py"
CELLS = 64
LOOPBACK = {
    "OMPI_MCA_btl_tcp_if_include": "lo",
    "OMPI_MCA_oob_tcp_if_include": "lo",
    # Each daemon would bind its first rank to the first core.
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
"""All nodes are this machine, which may have no network."""


def need_mpi() -> None:
    """Skip, visibly, where mpi4py or Open MPI is missing; in CI that is a failure."""
    need_package("mpi4py", "numpy")
    need("" if shutil.which("mpiexec") else "mpiexec is not installed")


def heat(steps: int, pace_s: float = 0.0, every: int = 50) -> list[str]:
    """Return the command of a trainer that solves the heat equation."""
    options = ["--steps", steps, "--cells", CELLS, "--pace-s", pace_s, "--checkpoint-every", every]
    program = [sys.executable, "-m", "mpi4py", str(MPI_HEAT), *map(str, options)]
    return [sys.executable, str(MPI_NODES), *program]


def uninterrupted(folder: Path, steps: int) -> bytes:
    """Return the plate after an uninterrupted run with one rank, without bftrainer."""
    folder.mkdir()
    program = heat(steps)[2:]
    subprocess.run(
        ["mpiexec", "-n", "1", *program],
        cwd=folder,
        env={**os.environ, **LOOPBACK},
        check=True,
        capture_output=True,
        timeout=120 * PATIENCE,
    )
    return plate(folder / "heat-result.npz")


def plate(path: Path) -> bytes:
    """Return the bytes of a plate's temperatures, of which some are warm."""
    with np.load(path) as saved:
        values = saved["plate"]
    assert values.shape == (CELLS, CELLS)
    assert values[CELLS // 2, 0] > 50 > values[CELLS // 2, -1]
    return bytes(values.tobytes())


def progress_lines(path: Path) -> list[dict[str, Any]]:
    """Return the reports of the program until now."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def size_now(path: Path) -> int:
    """Return the number of ranks of the last report; 0 without one."""
    running = [line for line in progress_lines(path) if line["phase"] == "running"]
    return running[-1]["world_size"] if running else 0


def left_of_mpi(folder: Path) -> list[str]:
    """Return the command lines of ranks and daemons that run in this working directory."""
    lines = []
    for entry in Path("/proc").iterdir():
        try:
            if not entry.name.isdigit() or (entry / "cwd").resolve() != folder.resolve():
                continue
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:  # it has ended, or is another user's
            continue
        if "mpi_heat" in line or "orted" in line:
            lines.append(line)
    return lines
