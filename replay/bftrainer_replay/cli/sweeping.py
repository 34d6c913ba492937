"""Helpers for commands that run many replays: cores, progress, failures."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from bftrainer.errors import BFTrainerError

if TYPE_CHECKING:
    from bftrainer_replay.sweep.run_tasks import FailedTask


class SweepFailedError(BFTrainerError):
    """Some replays failed; the results of the others are kept."""


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


@contextmanager
def progress_of_tasks(what: str) -> Iterator[Callable[[float, float], None]]:
    """Yields a function to call with (done, total): a progress bar on a terminal, elsewhere nothing."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
    from rich.text import Text

    class Left(ProgressColumn):
        """From the rate of all replays so far; between their ends, the time goes down."""

        def render(self, task: Task) -> Text:
            ends = task.fields["ends"]
            return Text("" if ends is None else f"about {span(max(ends - time.monotonic(), 0.0))} left")

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f}%"), TimeElapsedColumn(), Left()
    )  # fmt: skip
    began = time.monotonic()
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bars:
        bar = bars.add_task(what, total=None, ends=None)

        def show(done: float, whole: float) -> None:
            now = time.monotonic()
            is_begun = done > 0.05 * whole  # before, the rate is that of the start
            ends = now + (now - began) * (whole - done) / done if is_begun else None
            bars.update(bar, completed=done, total=whole, ends=ends)

        yield show


def span(seconds: float) -> str:
    """A duration in seconds, minutes or hours, whichever is the easiest to read."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def complain_of(failures: Sequence[FailedTask], of: int) -> None:
    """Print a line per reason, then raise :class:`SweepFailedError`; does nothing without failures."""
    if not failures:
        return
    for reason in sorted({failure.reason for failure in failures}):
        click.echo(f"note: {reason}", err=True)
    raise SweepFailedError(
        f"{len(failures)} of {of} replays failed; the other results are kept, and the same command retries only the "
        "failed ones"
    )
