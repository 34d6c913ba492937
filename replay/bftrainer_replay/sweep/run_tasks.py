"""Runs tasks, in this process or in several. Every result is stored immediately.

Workers are forked from a server that has imported all modules once. They receive the parsed log
once and write their results themselves: the parent process only counts, and uses no core. A
terminal sends Ctrl-C to all processes: only the parent acts on it, and kills the workers, whose
tasks may take minutes.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import forkserver, resource_tracker
from typing import Any

from bftrainer.errors import BFTrainerError
from bftrainer.system.own_programs import safe_path_for_children
from bftrainer_replay.sweep.cell import Inputs, Task
from bftrainer_replay.sweep.compute import compute
from bftrainer_replay.sweep.result_files import Result, ResultStore

OnDone = Callable[[float, float], None]
Compute = Callable[[Task, Inputs], Result]
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_UNFINISHED_WORKERS = "bftrainer_replay.sweep.unfinished_workers"
"""A module that changes the process that imports it."""
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
        futures: dict[Future[list[FailedTask]], float] = {
            pool.submit(_in_child, task): cost(task) for task in left
        }
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


@contextmanager
def _workers(jobs: int, sweep: tuple[Inputs, ResultStore, Compute]) -> Iterator[Executor]:
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))  # one core each
    try:
        server = multiprocessing.get_context("forkserver")
        server.set_forkserver_preload([_UNFINISHED_WORKERS, sweep[2].__module__])
        with safe_path_for_children():
            _start_server_deaf_to_the_terminal()
        others = set(multiprocessing.active_children())
        with ProcessPoolExecutor(
            jobs, mp_context=server, initializer=_begin_child, initargs=sweep
        ) as pool:
            try:
                yield pool
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for worker in set(multiprocessing.active_children()) - others:
                    worker.kill()
                raise
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value


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


def _begin_child(*sweep: Any) -> None:
    """Begin a worker process that ends when its parent ends, even if the parent is killed."""
    global _sweep  # a worker process has one
    _sweep = sweep
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker has a parent"

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _in_child(task: Task) -> list[FailedTask]:
    assert _sweep is not None, "the worker has its inputs"
    return _kept(task, *_sweep)
