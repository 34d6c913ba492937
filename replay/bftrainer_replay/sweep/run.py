"""Do tasks: in this process, in many on this machine, or under MPI on many. Every result is kept as soon as it comes.

On this machine the workers are forked from a server that has imported everything once, get the parsed log once, and write
their results themselves: the process that started them only counts, and takes no core from them. Under MPI, where workers
may not see the folder, results travel to the first process.
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
_store: ResultStore | None = None  # where it keeps its results, if it does so itself
_served = False  # the other processes of MPI have been given their work, or let go


class Workplace(Enum):
    """Where the tasks are done."""

    HERE = "here"
    MPI = "mpi"


@dataclass(frozen=True, slots=True)
class Failure:
    """A task without a result, and why."""

    task: Task
    reason: str


def do_all(
    tasks: Sequence[Task],
    inputs: Inputs,
    store: ResultStore,
    *,
    jobs: int = 1,
    place: Workplace = Workplace.HERE,
    on_done: OnDone = lambda done, whole: None,
) -> tuple[Failure, ...]:
    """Do what the store does not have yet; ``on_done`` hears after each task how many of how many are done.

    A task that fails is reported at the end; the others go on. To be killed at any moment costs the tasks in flight.
    """
    left = [task for task in tasks if store.get(task) is None]
    on_done(0, len(left))
    failures: list[Failure] = []
    if place is Workplace.HERE and (jobs == 1 or len(left) <= 1):
        for done, task in enumerate(left, start=1):
            failures += _keep(store, task, _answer(task, inputs))
            on_done(done, len(left))
        return tuple(failures)
    with _workers(place, min(jobs, len(left)) or 1, inputs, store) as pool:
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
    """Under MPI: every process but the first serves until the first is done, and this returns True. False in the first."""
    mpi, executor = _mpi()
    if mpi.COMM_WORLD.Get_rank() == 0:
        return False
    with executor(mpi.COMM_WORLD, root=0):
        pass
    return True


def mpi_workers_go() -> None:
    """In the first process: let the others go if they have not been, as they would wait for work for ever."""
    if not _served:
        with _mpi_pool():
            pass


def _answer(task: Task, inputs: Inputs) -> Result | str:
    """The result, or why there is none: in words, as not every exception can be sent from process to process."""
    try:
        return compute(task, inputs)
    except BFTrainerError as error:
        return str(error)


def _keep(store: ResultStore, task: Task, answer: Result | str | None) -> list[Failure]:
    """Put a result where it belongs; None is one that its worker has put there."""
    if isinstance(answer, str):
        return [Failure(task, answer)]
    if answer is not None:
        store.put(task, answer)
    return []


@contextmanager
def _workers(place: Workplace, jobs: int, inputs: Inputs, store: ResultStore) -> Iterator[Executor]:
    if place is Workplace.MPI:
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
        raise UserError(f"--mpi: no MPI library is found: {error}") from error
    if MPI.COMM_WORLD.Get_size() < 2:
        raise UserError("--mpi: only one process; start it like: mpiexec -n 9 bftrainer replay sweep --mpi ...")
    return MPI, MPICommExecutor


def _begin(inputs: Inputs, store: ResultStore | None) -> None:
    global _inputs, _store  # a worker process has one sweep
    _inputs, _store = inputs, store


def _begin_child(inputs: Inputs, store: ResultStore) -> None:
    """A worker process; it does not outlive whoever started it, however that ends."""
    _begin(inputs, store)
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker has been started by somebody"

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _compute(task: Task) -> Result | str | None:
    """The result, or None once this worker has kept it itself."""
    assert _inputs is not None, "the worker was given its inputs"
    answer = _answer(task, _inputs)
    if _store is None or isinstance(answer, str):
        return answer
    _store.put(task, answer)
    return None
