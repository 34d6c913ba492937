"""``--workers``: where the replays of a command run.

Use::

    @workers_option
    def command(workers: Workers) -> None:

as the last decorator: under MPI, the ranks that compute for another one never enter the command.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import click

from bftrainer.errors import UserError
from bftrainer_replay.cli.sweeping import cores

Common = TypeVar("Common")
Item = TypeVar("Item")
Result = TypeVar("Result")


def where_option_with(default: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the option --workers, as the text ``where``; ``default`` says in its help what
    None means.
    """
    return click.option(
        "--workers",
        "--jobs",
        "where",
        metavar="WHERE",
        help="Number of processes on this machine; mpi (start the command with mpiexec); "
        "dask:ADDRESS of a scheduler; or MODULE:EXECUTOR, any concurrent.futures.Executor.  "
        f"[default: {default}]",
    )


where_option = where_option_with("all cores")


@dataclass(frozen=True, slots=True)
class Workers:
    """Where replays run: on an ``executor``, or in so many ``processes`` of this machine."""

    processes: int
    executor: Executor | None = None

    @property
    def is_this_process(self) -> bool:
        """Whether one task after another runs in this process."""
        return self.executor is None and self.processes == 1

    def text(self, tasks: int) -> str:
        """Say where so many tasks run: ``2 cores``."""
        if self.executor is not None:
            return type(self.executor).__name__
        used = min(self.processes, tasks)
        return f"{used:,} core{'s' * (used != 1)}"


def workers_option_with(
    text: str, default: str | None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that gives a command the option --workers, as an opened ``workers``.

    Without the option, they are those of the value ``default``, which the help describes as
    ``text``. A rank of MPI that has computed for another one does not run the command.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the command with the option."""

        @where_option_with(text)
        @functools.wraps(function)
        def with_workers(*, where: str | None, **others: Any) -> Any:
            with opened_workers(default if where is None else where) as workers:
                return None if workers is None else function(workers=workers, **others)

        return with_workers

    return decorate


workers_option = workers_option_with("all cores", None)


def in_order(
    workers: Workers,
    function: Callable[[Common, Item], Result],
    common: Common,
    items: Sequence[Item],
) -> Generator[Result]:
    """Yield the results of ``function(common, item)`` for each item, in the order of the items.

    The function has to be one of a module, which another process can import. Closing the iterator
    ends the rest. ``common`` may be large; items have to be small: a process of this machine gets
    ``common`` once, each item on its own.
    """
    if workers.is_this_process:
        yield from (function(common, item) for item in items)
        return
    if workers.executor is not None:
        yield from workers.executor.map(partial(function, common), items)
        return
    from bftrainer_replay.sweep.run_tasks import process_pool

    job = (function, common)
    count = min(workers.processes, len(items))
    with process_pool(count, function.__module__, _begin_worker, job) as pool:
        try:
            yield from pool.map(_in_worker, items)
        except GeneratorExit:  # tasks that run come to their end, which is better than a kill
            pool.shutdown(cancel_futures=True)


_worker_job: tuple[Callable[[Any, Any], Any], object] | None = None  # of this worker process


def _begin_worker(function: Callable[[Any, Any], Any], common: object) -> None:
    global _worker_job  # a worker process has one
    _worker_job = function, common


def _in_worker(item: object) -> Any:
    assert _worker_job is not None, "the worker has begun"
    function, common = _worker_job
    return function(common, item)


@contextmanager
def opened_workers(where: str | None) -> Iterator[Workers | None]:
    """Open the workers that --workers names; yield None if this process has no more to do.

    That is the case for a rank of MPI, which has by then computed for another one. ``where`` is
    None for all cores, a number of processes, or the name of an executor.
    """
    if where is None:
        yield Workers(cores())
    elif where.isdecimal():
        if int(where) < 1:
            raise UserError(f"--workers {where}: expected 1 or more")
        yield Workers(int(where))
    else:
        from bftrainer_replay.sweep.executors import opened_executor

        with opened_executor(where) as executor:
            # The number of processes does not count if there is an executor.
            yield None if executor is None else Workers(1, executor)
