"""One grid on every executor: the same bytes, and a worker that is killed costs only its cells."""

from __future__ import annotations

import csv
import io
import os
import pickle
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from concurrent.futures import ThreadPoolExecutor as Threads
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from support.needs import need, need_package
from support.ran import ran

from bftrainer.errors import UserError
from bftrainer_replay.api import SweepOutcome, sweep
from bftrainer_replay.generation.generate import generate
from bftrainer_replay.logs.event_log import write_event_log
from bftrainer_replay.sweep import run_tasks
from bftrainer_replay.sweep.executors import opened_executor
from bftrainer_replay.sweep.grid import read_sweep
from bftrainer_replay.sweep.result_files import ResultStore
from bftrainer_replay.sweep.run_tasks import do_all
from bftrainer_replay.sweep.shared_inputs import read_shared, shared_inputs
from bftrainer_replay.sweep.tables import as_csv, as_parquet

GRID = """
[[logs]]
path = "log.csv"
[[workloads]]
kind = "hpo"
[grid]
policy = ["bftrainer", "equal-share"]
forward_s = [30, 120]
max_parallel = [3, "auto"]
split = [1, 2]
checkpoint_s = [0, 300]
"""


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("grid")
    write_event_log(folder / "log.csv", generate(24, 0.1, 1))
    (folder / "grid.toml").write_text(GRID)
    return folder / "grid.toml"


@pytest.fixture(scope="module")
def expected(grid: Path) -> bytes:
    """The table of one process."""
    chosen = read_sweep(grid)
    store = ResultStore(grid.parent / "one" / "cells")
    assert do_all(chosen.tasks, chosen.inputs, store, jobs=1) == ()
    return table(sweep(grid, grid.parent / "one"))


def table(outcome: SweepOutcome) -> bytes:
    assert outcome.failures == ()
    return as_csv(outcome.rows)


@pytest.fixture
def processes() -> Iterator[Executor]:
    with ProcessPoolExecutor(2, mp_context=get_context("forkserver")) as executor:
        yield executor


def test_every_cell_has_its_row_and_every_axis_an_effect(expected: bytes) -> None:
    lines = expected.decode().splitlines()
    names = lines[0].split(",")
    rows = [dict(zip(names, line.split(","), strict=True)) for line in lines[1:]]
    assert len(rows) == 2 * 2 * 2 * 2 * 2
    assert {row["max_parallel"] for row in rows} == {"3", "auto"}
    for axis in ("policy", "split", "checkpoint_s"):
        others = [name for name in names[: names.index("work_share")] if name != axis]
        by_others: dict[tuple[str, ...], set[str]] = {}
        for row in rows:
            key = tuple(row[name] for name in others)
            by_others.setdefault(key, set()).add(row["outcome_samples"])
        assert any(len(outcomes) == 2 for outcomes in by_others.values()), axis


def test_an_executor_of_anybody_gives_the_same_bytes(
    grid: Path, expected: bytes, processes: Executor, tmp_path: Path
) -> None:
    assert table(sweep(grid, tmp_path, processes)) == expected
    assert [path.name for path in tmp_path.iterdir()] == ["cells"]
    assert not list((tmp_path / "cells").glob(".inputs*")), "the shared inputs are removed"


@pytest.mark.slow
def test_dask_gives_the_same_bytes(grid: Path, expected: bytes, tmp_path: Path) -> None:
    need_package("distributed")
    from distributed import LocalCluster

    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
    )
    with cluster, opened_executor(f"dask:{cluster.scheduler_address}") as executor:
        assert table(sweep(grid, tmp_path, executor)) == expected


def test_a_worker_that_is_killed_costs_only_its_cells(
    grid: Path, expected: bytes, tmp_path: Path, processes: Executor
) -> None:
    """An executor that breaks after five tasks: what is there stays, and the rest comes later."""

    class Breaks(Executor):
        count = 0

        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            self.count += 1
            if self.count > 6:
                raise BrokenExecutor("made up")
            if self.count > 5:
                future: Future[Any] = Future()
                future.set_exception(BrokenExecutor("a process was killed"))
                return future
            return processes.submit(fn, *args, **kwargs)

    first = sweep(grid, tmp_path, Breaks())
    left = len(read_sweep(grid).tasks) - 5
    assert len(first.failures) == left
    assert {failure.reason for failure in first.failures} == {
        "its worker was lost (BrokenExecutor: a process was killed)",
        "its worker was lost (CancelledError:)",
    }
    assert len(list((tmp_path / "cells").glob("*.json"))) == 5
    assert table(sweep(grid, tmp_path, processes)) == expected


KILLER = """
import os
import signal
import time
from pathlib import Path


def once(trainer, n):
    flag = Path(__file__).with_name("killed")
    if n == 3 and not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return float(n)


def always(trainer, n):
    os.kill(os.getpid(), signal.SIGKILL)


def slow(trainer, n):
    time.sleep(0.01)
    return float(n)
"""


@pytest.fixture
def killers(grid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with objectives that kill the process, and with the log."""
    shutil.copy(grid.parent / "log.csv", tmp_path)
    (tmp_path / "killer_of_sweep.py").write_text(KILLER)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def grid_of(folder: Path, *objectives: str) -> Path:
    listed = ", ".join(f'"{name}"' for name in objectives)
    path = folder / "grid.toml"
    path.write_text(
        f'[[logs]]\npath = "log.csv"\n[grid]\nobjective = [{listed}]\n'
        "max_parallel = [3]\nforward_s = [30, 60, 120]\n"
    )
    return path


def test_a_killed_process_of_this_machine_is_replaced(killers: Path) -> None:
    grid = grid_of(killers, "killer_of_sweep:once", "throughput")
    chosen = read_sweep(grid)
    store = ResultStore(killers / "out")
    assert do_all(chosen.tasks, chosen.inputs, store, jobs=2) == ()
    assert (killers / "killed").exists()
    assert all(store.get(task) is not None for task in chosen.tasks)


@pytest.mark.slow
def test_what_always_kills_its_process_fails_alone(killers: Path) -> None:
    """The slow tasks run longer than a process beside them lives."""
    grid = grid_of(killers, "killer_of_sweep:always", "killer_of_sweep:slow")
    chosen = read_sweep(grid)
    store = ResultStore(killers / "out")
    failures = do_all(chosen.tasks, chosen.inputs, store, jobs=2)
    assert {failure.task.cell.objective for failure in failures} == {"killer_of_sweep:always"}
    assert len(failures) == 3
    assert "its process was killed each time" in failures[0].reason


@pytest.mark.slow
def test_where_no_process_can_be_started_all_tasks_fail_with_the_reason(
    killers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_tasks, "_begin_task_worker", _kill_own_process)
    chosen = read_sweep(grid_of(killers, "throughput"))
    failures = do_all(chosen.tasks, chosen.inputs, ResultStore(killers / "out"), jobs=2)
    assert len(failures) == len(chosen.tasks)
    assert "no process can be started" in failures[0].reason


def _kill_own_process(*sweep: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def mpiexec(ranks: int, *arguments: object, path: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command line under MPI; ``path`` is searched for modules, too."""
    environment = {
        **os.environ,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, (path, os.environ.get("PYTHONPATH", "")))),
    }
    command = [sys.executable, "-m", "bftrainer", "replay", "sweep"]
    return ran("mpiexec", "-n", ranks, *command, *arguments, env=environment)


@pytest.fixture
def mpi() -> None:
    need_package("mpi4py")
    need("" if shutil.which("mpiexec") else "mpiexec is not installed")


@pytest.mark.slow
@pytest.mark.usefixtures("mpi")
def test_mpi_gives_the_same_bytes(grid: Path, expected: bytes, tmp_path: Path) -> None:
    ended = mpiexec(3, grid, "--out", tmp_path, "--workers", "mpi")
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "results.csv").read_bytes() == expected
    assert ended.stdout == f"Written: {tmp_path / 'results.csv'}, 32 rows\n"


@pytest.mark.slow
@pytest.mark.usefixtures("mpi")
def test_a_killed_rank_costs_only_its_cells(killers: Path) -> None:
    grid = grid_of(killers, "throughput", "killer_of_sweep:once")
    arguments = (grid, "--out", killers / "out", "--workers", "mpi")
    killed = mpiexec(3, *arguments, path=str(killers))
    assert killed.returncode != 0
    assert (killers / "killed").exists()
    again = mpiexec(3, *arguments, path=str(killers))
    assert again.returncode == 0, again.stderr
    assert (killers / "out" / "results.csv").read_bytes() == table(sweep(grid, killers / "one"))


@pytest.mark.slow
@pytest.mark.usefixtures("mpi")
def test_a_mistake_ends_all_ranks(tmp_path: Path) -> None:
    ended = mpiexec(3, tmp_path / "none.toml", "--out", tmp_path, "--workers", "mpi")
    assert ended.returncode == 2
    assert ended.stderr.count("none.toml: cannot be read: No such file") == 1


def test_inputs_that_were_exchanged_are_not_read(grid: Path, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return (tmp_path.joinpath("evil").touch, ())

    with shared_inputs(read_sweep(grid).inputs, tmp_path) as shared:
        assert shared.path.stat().st_mode & 0o077 == 0
        assert read_shared(shared).windows.keys() == {"log.csv"}
        read_shared.cache_clear()
        shared.path.write_bytes(pickle.dumps(Evil()))
        with pytest.raises(UserError, match="is not the file that this sweep wrote"):
            read_shared(shared)
    assert not (tmp_path / "evil").exists()
    with pytest.raises(UserError, match=r"cannot be read by a worker: No such file .* share"):
        read_shared(shared)


MINE = """
from concurrent.futures import ThreadPoolExecutor

NUMBER = 3
POOL = ThreadPoolExecutor(1)


def make():
    return ThreadPoolExecutor(1)


def wrong():
    return 3


def broken():
    return NUMBER / 0
"""


@pytest.mark.parametrize("name", ["mine_executor_of_sweep:POOL", "mine_executor_of_sweep:make"])
def test_a_module_names_an_executor_or_makes_one(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine_executor_of_sweep.py").write_text(MINE)
    monkeypatch.syspath_prepend(str(tmp_path))
    with opened_executor(name) as executor:
        assert isinstance(executor, Threads)
        assert executor.submit(int, "3").result() == 3


@pytest.mark.parametrize(
    ("workers", "message"),
    [
        ("many", "expected a number, mpi, dask:ADDRESS or MODULE:EXECUTOR"),
        ("no_module_of_sweep:x", "cannot import 'no_module_of_sweep'"),
        ("mine_wrong_of_sweep:NUMBER", "has no executor 'NUMBER'"),
        ("mine_wrong_of_sweep:wrong", "gives a int, expected a concurrent.futures.Executor"),
        ("mine_wrong_of_sweep:broken", r"ZeroDivisionError: division by zero, at .*sweep.py:17\)$"),
        ("mine_syntax_of_sweep:make", r"was never closed \(mine_syntax_of_sweep.py, line 1\)"),
        ("dask:nonsense://x", "no scheduler answers"),
    ],
)
def test_other_workers_are_refused(
    workers: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine_wrong_of_sweep.py").write_text(MINE)
    (tmp_path / "mine_syntax_of_sweep.py").write_text("make = (\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UserError, match=message), opened_executor(workers):
        pass


def test_without_mpi4py_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(UserError, match=r"pip install 'bftrainer\[mpi\]'"), opened_executor("mpi"):
        pass


def test_parquet_is_read_back_as_the_csv_table(grid: Path, tmp_path: Path) -> None:
    need_package("pyarrow")
    import pyarrow.parquet as parquet

    rows = sweep(grid, tmp_path / "one").rows
    path = tmp_path / "results.parquet"
    path.write_bytes(as_parquet(rows) or b"")
    read_back = parquet.read_table(path).to_pylist()
    written = list(csv.DictReader(io.StringIO(as_csv(rows).decode())))
    assert len(read_back) == len(rows) > 1
    assert [list(row) for row in read_back] == [list(row) for row in written]
    as_text = [
        {name: "" if value is None else str(value) for name, value in row.items()}
        for row in read_back
    ]
    assert as_text == written, "every cell, also of a column with numbers and text"


def test_without_pyarrow_there_is_no_parquet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert as_parquet(()) is None
