"""Runs tasks, in this process or in several. Every result is stored immediately.

Workers are forked from a server that has imported all modules once. They map the parsed log from
shared memory and write their results themselves: the parent process only counts, and uses no core.
A terminal sends Ctrl-C to all processes: only the parent acts on it, and kills the workers, whose
tasks may take minutes.
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import forkserver, reduction, resource_tracker
from typing import Any

from bftrainer.errors import BFTrainerError
from bftrainer.system.own_programs import safe_path_for_children
from bftrainer.system.signals import ending_deferred
from bftrainer_replay.sweep.cell import Inputs, Task
from bftrainer_replay.sweep.compute import compute
from bftrainer_replay.sweep.result_files import Result, ResultStore

OnDone = Callable[[float, float], None]
Compute = Callable[[Task, Inputs], Result]
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_sweep: tuple[Inputs, ResultStore, Compute] | None = None  # of this worker process


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
    compute: Compute = compute,
    jobs: int = 1,
    on_done: OnDone = lambda done, whole: None,
    cost: Callable[[Task], float] = lambda task: 1,
) -> tuple[FailedTask, ...]:
    """Run the tasks that have no result in the store; ``on_done`` is called after each task with
    (done, total), sums of ``cost``: those that are running are half done.

    A failed task does not stop the others; all failures are returned at the end. If the process is
    killed, only the tasks that were running are lost.
    """
    left = [task for task in tasks if store.get(task) is None]
    done, whole = 0.0, sum(map(cost, left))
    on_done(done, whole)
    failures: list[FailedTask] = []
    if jobs == 1 or len(left) <= 1:
        for task in left:
            failures += _kept(task, inputs, store, compute)
            done += cost(task)
            on_done(done, whole)
        return tuple(failures)
    with _workers(min(jobs, len(left)), (inputs, store, compute)) as pool:
        futures = _submitted(pool, left, cost)
        for count, future in enumerate(as_completed(futures), start=1):
            failures += future.result()
            done += futures[future]
            running = min(jobs - 1, len(left) - count)
            on_done(done + running / 2 * whole / len(left), whole)
    return tuple(sorted(failures, key=lambda failure: failure.task.key))


def _kept(task: Task, inputs: Inputs, store: ResultStore, compute: Compute) -> list[FailedTask]:
    """Compute and store a result. An error becomes text, because not every exception can be sent
    between processes.
    """
    try:
        store.put(task, compute(task, inputs))
    except BFTrainerError as error:
        return [FailedTask(task, str(error))]
    return []


class _SharedSweep:
    """What every worker needs, pickled once into memory that all of them map.

    A worker that starts receives a file descriptor only. Sent through its pipe, a log of some
    megabytes would hold the parent until the worker has read it.
    """

    def __init__(self, sweep: tuple[Inputs, ResultStore, Compute]) -> None:
        self._descriptor = os.memfd_create("bftrainer-sweep")
        with os.fdopen(self._descriptor, "wb", closefd=False) as memory:
            pickle.dump(sweep, memory, pickle.HIGHEST_PROTOCOL)

    def load(self) -> tuple[Inputs, ResultStore, Compute]:
        """The same values in a worker."""
        with mmap.mmap(self._descriptor, 0, prot=mmap.PROT_READ) as memory:
            sweep: tuple[Inputs, ResultStore, Compute] = pickle.loads(memory)  # noqa: S301  # ours
        return sweep

    def close(self) -> None:
        """Free the memory once no worker maps it any more."""
        os.close(self._descriptor)

    def __getstate__(self) -> Any:
        return reduction.DupFd(self._descriptor)

    def __setstate__(self, duplicate: Any) -> None:
        self._descriptor = duplicate.detach()


@contextmanager
def _workers(jobs: int, sweep: tuple[Inputs, ResultStore, Compute]) -> Iterator[Executor]:
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))  # one core each
    shared = _SharedSweep(sweep)
    try:
        server = multiprocessing.get_context("forkserver")
        server.set_forkserver_preload([sweep[2].__module__])
        others = set(multiprocessing.active_children())
        # A signal that interrupted the creation of semaphores would leave them behind.
        with ending_deferred():
            with safe_path_for_children():
                _start_server_deaf_to_the_terminal()
            pool = ProcessPoolExecutor(
                jobs, mp_context=server, initializer=_begin_child, initargs=(shared,)
            )
        with pool:
            try:
                yield pool
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for worker in set(multiprocessing.active_children()) - others:
                    worker.kill()
                raise
    finally:
        shared.close()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value


def _submitted(
    pool: Executor, tasks: Sequence[Task], cost: Callable[[Task], float]
) -> dict[Future[list[FailedTask]], float]:
    """Submit the tasks; returns the cost of each future.

    The executor starts its workers here. A signal in the middle of that would leave a worker that
    the parent does not list, and whose semaphores are removed while it opens them: it would end
    with a traceback.
    """
    costs = [cost(task) for task in tasks]
    with ending_deferred():
        return dict(zip([pool.submit(_in_child, task) for task in tasks], costs, strict=True))


def _start_server_deaf_to_the_terminal() -> None:
    """Start the fork server with the signals of a terminal blocked. Its workers inherit that: none
    prints a traceback.

    multiprocessing's resource tracker is started first: it ignores Ctrl-C itself, and unblocks it
    here when it has started.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
    try:
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin_child(shared: _SharedSweep) -> None:
    """Begin a worker process that ends when its parent ends, even if the parent is killed."""
    global _sweep  # a worker process has one
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker has a parent"

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    _sweep = shared.load()


def _in_child(task: Task) -> list[FailedTask]:
    assert _sweep is not None, "the worker has its inputs"
    return _kept(task, *_sweep)
