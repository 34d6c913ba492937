"""Runs tasks, in this process, in several, or on an executor. Every result is stored immediately.

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
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
)
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import forkserver, reduction, resource_tracker
from queue import Empty, SimpleQueue
from typing import Any

from bftrainer.errors import BFTrainerError
from bftrainer.system.own_programs import safe_path_for_children
from bftrainer.system.signals import ending_deferred
from bftrainer_replay.sweep.cell import Inputs, Task
from bftrainer_replay.sweep.compute import compute
from bftrainer_replay.sweep.result_files import Result, ResultStore
from bftrainer_replay.sweep.shared_inputs import SharedInputs, read_shared, shared_inputs

OnDone = Callable[[float, float], None]
Compute = Callable[[Task, Inputs], Result]
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_sweep: tuple[Inputs, ResultStore, Compute] | None = None  # of this worker process


@dataclass(frozen=True, slots=True)
class FailedTask:
    """A task without a result, and the reason."""

    task: Task
    reason: str


@dataclass(slots=True)
class _Progress:
    """Adds up the costs of the tasks that have ended; tasks that are running count half."""

    on_done: OnDone
    cost: Callable[[Task], float]
    pending: Sequence[Task]
    """All tasks of this run, also those that have ended."""
    parallel_count: int
    """How many tasks run at once."""
    done: float = 0.0
    """The cost of the tasks that have ended."""
    count: int = 0
    """The number of tasks that have ended."""
    total: float = field(init=False)
    """The cost of all tasks."""

    def __post_init__(self) -> None:
        self.total = sum(map(self.cost, self.pending))

    def add(self, task: Task) -> None:
        """Count a task that has ended, with or without a result, and report the progress."""
        self.done += self.cost(task)
        self.count += 1
        self.show()

    def show(self) -> None:
        """Report the progress to ``on_done``."""
        running_count = min(self.parallel_count - 1, len(self.pending) - self.count)
        half_cost = running_count / 2 * self.total / len(self.pending) if self.count else 0.0
        self.on_done(self.done + half_cost, self.total)


def do_all(
    tasks: Sequence[Task],
    inputs: Inputs,
    store: ResultStore,
    *,
    compute: Compute = compute,
    jobs: int = 1,
    executor: Executor | None = None,
    on_done: OnDone = lambda done, total: None,
    cost: Callable[[Task], float] = lambda task: 1,
) -> tuple[FailedTask, ...]:
    """Run the tasks that have no result in the store; return those that failed.

    They run in ``jobs`` processes or on an ``executor``. ``on_done`` is called after each task, and
    every minute, with (done, total), sums of ``cost``.

    A failed task does not stop the others. If a process is killed, only the tasks that were running
    in it are lost: here they are computed again, and on an ``executor`` they count as failed.
    """
    pending = [task for task in tasks if store.get(task) is None]
    # How many an executor runs at once is not known.
    parallel_count = jobs if executor is None else 1
    progress = _Progress(on_done, cost, pending, parallel_count)
    progress.show()
    failures: list[FailedTask] = []
    if executor is not None:
        with shared_inputs(inputs, store.folder) as shared:
            job = partial(_run_on_any_host, shared, store, compute)
            failures += _run_on_executor(executor, job, pending, progress)
    elif jobs == 1 or len(pending) <= 1:
        for task in pending:
            failures += _compute_and_store(task, inputs, store, compute)
            progress.add(task)
    else:
        failures += _run_in_processes(jobs, (inputs, store, compute), progress)
    return tuple(sorted(failures, key=lambda failure: failure.task.key))


def _run_in_processes(
    jobs: int, sweep: tuple[Inputs, ResultStore, Compute], progress: _Progress
) -> list[FailedTask]:
    """Run the tasks in processes of this machine; return those that failed.

    Where a process was killed, for example because the memory did not suffice, the tasks that were
    running then are run again, each alone, so that a task that kills its process fails alone.
    """
    failures: list[FailedTask] = []
    pending = list(progress.pending)
    while pending:
        lost = _run_until_a_process_is_killed(jobs, pending, sweep, progress, failures)
        # Processes take the tasks in their order: those that were running are the first ones left.
        suspects, pending = lost[:jobs], lost[jobs:]
        # Not the tasks, but the machine is at fault.
        if suspects and not _can_start_a_process(sweep):
            return failures + [FailedTask(task, _NO_PROCESS) for task in (*suspects, *pending)]
        for task in suspects:
            failures += _run_alone(task, sweep)
            progress.add(task)
    return failures


def _run_until_a_process_is_killed(
    jobs: int,
    tasks: Sequence[Task],
    sweep: tuple[Inputs, ResultStore, Compute],
    progress: _Progress,
    failures: list[FailedTask],
) -> list[Task]:
    """Run the tasks in ``jobs`` processes; return those that have not ended, in their order.

    All have ended, unless a process was killed: then the pool is broken. Tasks that failed are
    appended to ``failures``.
    """
    lost: set[str] = set()
    with _task_pool(min(jobs, len(tasks)), sweep) as pool:
        for task, future in _run_and_yield(pool, _run_in_child, tasks, progress.show, []):
            if future is None or isinstance(future.exception(), BrokenExecutor):
                lost.add(task.key)
                continue
            failures += future.result()
            progress.add(task)
    return [task for task in tasks if task.key in lost]


def _run_alone(task: Task, sweep: tuple[Inputs, ResultStore, Compute]) -> list[FailedTask]:
    """Run a task with no other beside it; return a list with its failure, or an empty list."""
    for _attempt in range(_ATTEMPTS_ALONE):
        with _task_pool(1, sweep) as pool:
            future = pool.submit(_run_in_child, task)
            if not isinstance(future.exception(), BrokenExecutor):
                return future.result()
    return [FailedTask(task, _KILLED)]


def _can_start_a_process(sweep: tuple[Inputs, ResultStore, Compute]) -> bool:
    """Return whether a process with the sweep's inputs can be started at all."""
    with _task_pool(1, sweep) as pool:
        return not isinstance(pool.submit(os.getpid).exception(), BrokenExecutor)


def _task_pool(
    jobs: int, sweep: tuple[Inputs, ResultStore, Compute]
) -> AbstractContextManager[Executor]:
    """Return a pool whose processes have the inputs and the store of the sweep."""
    return process_pool(jobs, sweep[2].__module__, _begin_task_worker, sweep)


_ATTEMPTS_ALONE = 2
_KILLED = "its process was killed each time, perhaps because the memory does not suffice"
_NO_PROCESS = "no process can be started: each was killed, perhaps because of the memory"


def _run_on_executor(
    executor: Executor,
    job: Callable[[Task], list[FailedTask]],
    pending: Sequence[Task],
    progress: _Progress,
) -> list[FailedTask]:
    """Run the tasks on an executor, maybe on other hosts; return those that failed."""
    failures: list[FailedTask] = []
    futures: list[Future[list[FailedTask]]] = []
    try:
        for task, future in _run_and_yield(executor, job, pending, progress.show, futures):
            failures += _failures_of(task, future)
            progress.add(task)
    finally:  # after an interruption, nobody waits for the rest
        for future in futures:
            future.cancel()
    return failures


def _failures_of(task: Task, future: Future[list[FailedTask]] | None) -> list[FailedTask]:
    """Return the failure of a task in a list, as its worker returned it, or an empty list.

    A worker that was lost, or an executor that refused the task (``future`` is None), is a failure
    as well.
    """
    error = CancelledError() if future is None or future.cancelled() else future.exception()
    if future is not None and error is None:
        return future.result()
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    return [FailedTask(task, f"its worker was lost ({reason:.200})")]


def _run_and_yield(
    executor: Executor,
    job: Callable[[Task], list[FailedTask]],
    tasks: Sequence[Task],
    show: Callable[[], None],
    futures: list[Future[list[FailedTask]]],
) -> Iterator[tuple[Task, Future[list[FailedTask]] | None]]:
    """Submit the tasks, and yield each with its future when it ends.

    The future is None if the executor refused the task. All futures are added to ``futures``.

    Signals wait until all tasks are submitted: a ProcessPoolExecutor starts its workers then. A
    signal in the middle of that would leave a worker that the parent does not list, and whose
    semaphores are removed while it opens them: it would end with a traceback.
    """
    completions: SimpleQueue[tuple[Task, Future[list[FailedTask]] | None]] = SimpleQueue()
    with ending_deferred():
        for task in tasks:
            try:
                future = executor.submit(job, task)
            except (BrokenExecutor, RuntimeError):  # RuntimeError: it was shut down
                completions.put((task, None))
                continue
            futures.append(future)
            future.add_done_callback(partial(_put_completion, completions, task))
    count = 0
    while count < len(tasks):
        try:
            task, outcome = completions.get(timeout=SHOW_S)
        except Empty:
            show()
            continue
        count += 1
        yield task, outcome


def _put_completion(
    completions: SimpleQueue[tuple[Task, Future[list[FailedTask]] | None]],
    task: Task,
    future: Future[list[FailedTask]],
) -> None:
    completions.put((task, future))


SHOW_S = 60.0
"""Seconds between two reports of progress, where no task ends."""


def _compute_and_store(
    task: Task, inputs: Inputs, store: ResultStore, compute: Compute
) -> list[FailedTask]:
    """Compute and store the result of a task; return its failure in a list, or an empty list.

    The reason is text, because not every exception can be sent between processes.
    """
    try:
        store.put(task, compute(task, inputs))
    except BFTrainerError as error:
        return [FailedTask(task, str(error))]
    return []


class _SharedArguments:
    """The arguments that every worker process needs, pickled once into memory that all of them map.

    A worker that starts receives a file descriptor only. Sent through its pipe, a log of some
    megabytes would hold the parent until the worker has read it.
    """

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        self._descriptor = os.memfd_create("bftrainer-sweep")
        with os.fdopen(self._descriptor, "wb", closefd=False) as memory:
            pickle.dump(arguments, memory, pickle.HIGHEST_PROTOCOL)

    def load(self) -> tuple[Any, ...]:
        """Return the same values in a worker."""
        with mmap.mmap(self._descriptor, 0, prot=mmap.PROT_READ) as memory:
            arguments: tuple[Any, ...] = pickle.loads(memory)  # noqa: S301  # ours
        return arguments

    def close(self) -> None:
        """Free the memory once no worker maps it any more."""
        os.close(self._descriptor)

    def __getstate__(self) -> Any:
        return reduction.DupFd(self._descriptor)

    def __setstate__(self, duplicate: Any) -> None:
        self._descriptor = duplicate.detach()


def _begin_worker(begin: Callable[..., None], shared: _SharedArguments) -> None:
    """Call ``begin`` with the shared arguments, at the start of a worker process.

    From then on, the worker ends when its parent ends, even if the parent is killed.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker has a parent"

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    begin(*shared.load())


@contextmanager
def process_pool(
    jobs: int,
    preload: str,
    begin: Callable[..., None],
    arguments: tuple[Any, ...] = (),
) -> Iterator[Executor]:
    """Open a pool of ``jobs`` processes of one core each; an error in the block kills them.

    They are forked from a server that has imported the module ``preload``, and each first calls
    ``begin(*arguments)``.
    """
    earlier_values = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))  # one core each
    shared = _SharedArguments(arguments)
    try:
        server = multiprocessing.get_context("forkserver")
        server.set_forkserver_preload([preload])
        # The workers are those children that begin from here on.
        other_children = set(multiprocessing.active_children())
        # A signal that interrupted the creation of semaphores would leave them behind.
        with ending_deferred():
            with safe_path_for_children():
                _start_server_without_terminal_signals()
            pool = ProcessPoolExecutor(
                jobs, mp_context=server, initializer=_begin_worker, initargs=(begin, shared)
            )
        with pool:
            try:
                yield pool
            except BaseException:
                for worker in set(multiprocessing.active_children()) - other_children:
                    worker.kill()
                # The pool's threads end with its workers. One that is still there when the program
                # ends may find its pipe closed, and print a traceback.
                pool.shutdown(wait=True, cancel_futures=True)
                raise
    finally:
        shared.close()
        for name, value in earlier_values.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value


def _start_server_without_terminal_signals() -> None:
    """Start the fork server with the signals of a terminal blocked.

    Its workers inherit that, so Ctrl-C makes none print a traceback. multiprocessing's resource
    tracker is started first: it ignores Ctrl-C itself, and unblocks it here when it has started.
    """
    earlier_mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
    try:
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, earlier_mask)


def _begin_task_worker(*sweep: Any) -> None:
    """Keep (inputs, store, compute) for the tasks of this worker process."""
    global _sweep  # a worker process has one
    _sweep = sweep


def _run_in_child(task: Task) -> list[FailedTask]:
    assert _sweep is not None, "the worker has its inputs"
    return _compute_and_store(task, *_sweep)


def _run_on_any_host(
    shared: SharedInputs, store: ResultStore, compute: Compute, task: Task
) -> list[FailedTask]:
    """Compute a task in a worker on any host that has the results' folder.

    Return its failure in a list, or an empty list. A result that another worker has stored
    meanwhile is not computed again.
    """
    if store.get(task) is not None:
        return []
    for name in _ONE_THREAD:
        os.environ.setdefault(name, "1")
    try:
        inputs = read_shared(shared)
    except BFTrainerError as error:
        return [FailedTask(task, str(error))]
    return _compute_and_store(task, inputs, store, compute)
