"""``--workers``: where the replays of a command run.

Use::

    @workers_option
    def command(workers: Workers) -> None:

as the last decorator: under MPI, the ranks that compute for another one never enter the command.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click

from bftrainer.errors import UserError
from bftrainer_replay.cli.sweeping import cores

where_option = click.option(
    "--workers",
    "--jobs",
    "where",
    metavar="WHERE",
    help="Number of processes on this machine; mpi (start the command with mpiexec); "
    "dask:ADDRESS of a scheduler; or MODULE:EXECUTOR, any concurrent.futures.Executor.  "
    "[default: all cores]",
)
"""Gives a command the text, ``where``."""


@dataclass(frozen=True, slots=True)
class Workers:
    """Where replays run: on an ``executor``, or in so many processes of this machine."""

    processes: int
    executor: Executor | None = None

    def text(self, tasks: int) -> str:
        """Where so many tasks run, in words: ``2 cores``."""
        if self.executor is not None:
            return type(self.executor).__name__
        used = min(self.processes, tasks)
        return f"{used:,} core{'s' * (used != 1)}"


def workers_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command ``workers``."""

    @where_option
    @functools.wraps(function)
    def with_workers(*, where: str | None, **others: Any) -> Any:
        with opened_workers(where) as workers:
            return None if workers is None else function(workers=workers, **others)

    return with_workers


@contextmanager
def opened_workers(where: str | None) -> Iterator[Workers | None]:
    """The workers of ``--workers``; None if this process has computed for another rank, and has no
    more to do.
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
            yield None if executor is None else Workers(1, executor)
