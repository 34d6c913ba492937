"""The examples of docs/examples/search on a real pilot whose nodes are processes of this machine,
in short form.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.live_machine import Machine, machine
from support.patience import PATIENCE
from support.ran import python

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples" / "search"
LIMIT_S = 120 * PATIENCE


@pytest.fixture(scope="module")
def pilot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """Three nodes; one of them leaves for a while."""
    it = machine(
        tmp_path_factory.mktemp("pilot"),
        [(0, "n1 n2 n3", ""), (12, "", "n3"), (20, "n3", ""), (80000, "", "")],
    )
    for path in EXAMPLES.iterdir():
        if path.is_file():
            shutil.copy(path, it.work)
    it.pilot()
    yield it
    it.close()


def run(pilot: Machine, *argv: str) -> str:
    environment = {
        **os.environ,
        "BFTRAINER_STATE": str(pilot.state),
        "PYTHONWARNINGS": "ignore",
        "PYTHONPATH": str(ROOT),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    ended = python(*argv, limit_s=LIMIT_S, cwd=pilot.work, env=environment)
    assert ended.returncode == 0, (
        ended.stdout + ended.stderr + (pilot.work / "pilot.log").read_text()[-2000:]
    )
    return ended.stdout


@pytest.mark.slow
def test_optuna_asks_and_trainers_answer(pilot: Machine) -> None:
    pytest.importorskip("optuna")
    out = run(pilot, "optuna_search.py", "--trials", "5", "--at-once", "3")
    assert len(re.findall(r"search-\d: done accuracy=0\.\d+ loss=\d", out)) == 5, out
    assert re.search(r"best: \d with accuracy 0\.[3-9]", out), out
    assert "best: " in run(pilot, "optuna_search.py", "--trials", "5"), "it continues where it was"
    assert len(pilot.rows("results", "--group", "search")) == 5


@pytest.mark.slow
def test_halving_cancels_the_worse_ones(pilot: Machine) -> None:
    out = run(pilot, "halving.py", "--trials", "5", "--first", "1024", "--most", "4096")
    best = re.search(r"best: halving-lr(\S+) with loss (\S+); (\d) of 5 trained to the end", out)
    assert best is not None, out
    assert 0.03 < float(best[1]) < 2, "neither the smallest rates nor one that diverges"
    assert int(best[3]) < 5
    statuses = {row["status"] for row in pilot.rows("results", "--group", "halving")}
    assert statuses == {"done", "canceled"}


@pytest.mark.slow
def test_the_notebook_runs_from_its_first_cell_to_its_last(pilot: Machine) -> None:
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    program = (
        "import nbformat, nbclient\n"
        "book = nbformat.read('notebook.ipynb', as_version=4)\n"
        "nbclient.NotebookClient(book, timeout=200, kernel_name='python3').execute()\n"
        "print([cell.outputs for cell in book.cells if cell.cell_type == 'code'])\n"
    )
    out = run(pilot, "-c", program)
    assert "did you mean 'max_nodes'?" in out
    assert "note-lr0.3-hidden16" in out
