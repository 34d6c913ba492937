"""Runs tasks: in this process, in several processes, or under MPI on many machines. Every result is stored immediately.

Local workers are forked from a server that has imported all modules once. They receive the parsed log once and write their
results themselves: the parent process only counts, and uses no core. Under MPI, where workers may not share the folder, the
first process receives and writes the results.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any

from bftrainer.errors import BFTrainerError, UserError
from bftrainer_replay.sweep.cell import Inputs, Task
from bftrainer_replay.sweep.compute import compute
from bftrainer_replay.sweep.store import Result, ResultStore

OnDone = Callable[[int, int], None]
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_inputs: Inputs | None = None  # of this worker process
_store: ResultStore | None = None  # where this worker writes its results; None: it returns them
_served = False  # whether the other MPI processes have received their work, or have been released


class SweepBackend(Enum):
    """Where tasks run: in processes of this machine, or in the processes of an MPI job."""

    LOCAL = "local"
    MPI = "mpi"


@dataclass(frozen=True, slots=True)
class FailedTask:
    """A task without a result, and the reason."""

    task: Task
    reason: str


def do_all(
    tasks: Sequence[Task],
    inputs: Inputs,
    store: ResultStore,
    *,
    jobs: int = 1,
    backend: SweepBackend = SweepBackend.LOCAL,
    on_done: OnDone = lambda done, whole: None,
) -> tuple[FailedTask, ...]:
    """Run the tasks that have no result in the store; ``on_done`` is called after each task with (done, total).

    A failed task does not stop the others; all failures are returned at the end. If the process is killed, only the tasks
    that were running are lost.
    """
    left = [task for task in tasks if store.get(task) is None]
    on_done(0, len(left))
    failures: list[FailedTask] = []
    if backend is SweepBackend.LOCAL and (jobs == 1 or len(left) <= 1):
        for done, task in enumerate(left, start=1):
            failures += _keep(store, task, _answer(task, inputs))
            on_done(done, len(left))
        return tuple(failures)
    with _workers(backend, min(jobs, len(left)) or 1, inputs, store) as pool:
        futures: dict[Future[Result | str | None], Task] = {pool.submit(_compute, task): task for task in left}
        try:
            for done, future in enumerate(as_completed(futures), start=1):
                failures += _keep(store, futures[future], future.result())
                on_done(done, len(left))
        except BaseException:
            for future in futures:
                future.cancel()
            raise
    return tuple(sorted(failures, key=lambda failure: failure.task.key))


def mpi_workers_serve() -> bool:
    """Under MPI: serve until the first process is done and return True; in the first process, return False at once."""
    mpi, executor = _mpi()
    if mpi.COMM_WORLD.Get_rank() == 0:
        return False
    with executor(mpi.COMM_WORLD, root=0):
        pass
    return True


def release_mpi_workers() -> None:
    """In the first process: release the others if they have received no work, for which they would wait forever."""
    if not _served:
        with _mpi_pool():
            pass


def _answer(task: Task, inputs: Inputs) -> Result | str:
    """The result, or the error as text, because not every exception can be sent between processes."""
    try:
        return compute(task, inputs)
    except BFTrainerError as error:
        return str(error)


def _keep(store: ResultStore, task: Task, answer: Result | str | None) -> list[FailedTask]:
    """Store a result; None means that its worker has stored it."""
    if isinstance(answer, str):
        return [FailedTask(task, answer)]
    if answer is not None:
        store.put(task, answer)
    return []


@contextmanager
def _workers(backend: SweepBackend, jobs: int, inputs: Inputs, store: ResultStore) -> Iterator[Executor]:
    if backend is SweepBackend.MPI:
        with _mpi_pool(initializer=_begin, initargs=(inputs, None)) as pool:
            yield pool
        return
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))  # one core each
    try:
        server = multiprocessing.get_context("forkserver")
        server.set_forkserver_preload([compute.__module__])
        with ProcessPoolExecutor(jobs, mp_context=server, initializer=_begin_child, initargs=(inputs, store)) as pool:
            try:
                yield pool
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value


def _mpi_pool(**options: object) -> AbstractContextManager[Executor]:
    global _served  # all processes enter and leave together, once
    _served = True
    mpi, executor = _mpi()
    pool: AbstractContextManager[Executor] = executor(mpi.COMM_WORLD, root=0, **options)
    return pool


def _mpi() -> tuple[Any, Any]:
    """mpi4py's MPI and its executor over the processes that mpiexec started."""
    try:
        from mpi4py import MPI
        from mpi4py.futures import MPICommExecutor
    except ImportError as error:
        raise UserError(f"--mpi needs mpi4py and an MPI library: pip install 'bftrainer[mpi]' ({error})") from error
    except RuntimeError as error:
        raise UserError(f"--mpi: no MPI library found: {error}") from error
    if MPI.COMM_WORLD.Get_size() < 2:
        raise UserError(
            "--mpi: only one process is running; start more, as in: mpiexec -n 9 bftrainer replay sweep --mpi ..."
        )
    return MPI, MPICommExecutor


def _begin(inputs: Inputs, store: ResultStore | None) -> None:
    global _inputs, _store  # a worker process has one sweep
    _inputs, _store = inputs, store


def _begin_child(inputs: Inputs, store: ResultStore) -> None:
    """Begin a worker process that ends when its parent ends, even if the parent is killed."""
    _begin(inputs, store)
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker has a parent"

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _compute(task: Task) -> Result | str | None:
    """The result; None if this worker has stored it."""
    assert _inputs is not None, "the worker has its inputs"
    answer = _answer(task, _inputs)
    if _store is None or isinstance(answer, str):
        return answer
    _store.put(task, answer)
    return None
