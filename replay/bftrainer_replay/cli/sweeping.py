"""Helpers for commands that run many replays: cores, progress, failures."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer.console.cli.output import note
from bftrainer.counted import counted
from bftrainer.errors import BFTrainerError
from bftrainer_replay.limited_file import OnBytes

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

    from bftrainer_replay.sweep.run_tasks import FailedTask


class SweepFailedError(BFTrainerError):
    """Some replays failed; the results of the others are kept."""


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


@contextmanager
def _progress_bars(*last: ProgressColumn) -> Iterator[Progress]:
    """Open progress bars on stderr that end with the columns ``last``; they are shown on a terminal
    only.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        *last,
    )
    with Progress(
        *columns, console=console, disable=not console.is_terminal, transient=True
    ) as bars:
        yield bars


_MIN_INTERVAL_S = 5.0
"""Seconds between two lines of progress: a command that takes a few seconds prints none."""
_LARGE_BYTES = 8 * 1024**2
"""Compressed to this size, a job log has about 400,000 jobs and takes ten seconds."""


class TenthLines:
    """Prints a line on stderr per tenth of the work, where there is no terminal for a bar."""

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._clock = clock
        self._began_s = self._printed_s = clock()
        self._next = 0.1

    def show(self, part: float) -> None:
        """Tell that ``part`` of the work is done, from 0 to 1."""
        # The next tenth has not been reached.
        if part < self._next:
            return
        now_s = self._clock()
        if now_s - self._printed_s < _MIN_INTERVAL_S or part >= 1:
            return
        # The margin keeps 0.3 from becoming 2 tenths by rounding.
        tenths = math.floor(10 * part + 1e-9)
        left_s = (now_s - self._began_s) * (1 - part) / part
        click.echo(f"{self._what}: {10 * tenths} %, about {span(left_s)} left", err=True)
        self._printed_s, self._next = now_s, (tenths + 1) / 10


class MinuteLines:
    """Prints a line on stderr per minute, for work of hours in a batch job."""

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._clock = clock
        self._began_s = self._printed_s = clock()

    def show(self, part: float) -> None:
        """Tell that ``part`` of the work is done, from 0 to 1."""
        now_s = self._clock()
        if now_s - self._printed_s < _MINUTE_S or part >= 1:
            return
        self._printed_s = now_s
        left = f", about {span((now_s - self._began_s) * (1 - part) / part)} left" if part else ""
        click.echo(f"{self._what}: {100 * part:.0f} %{left}", err=True)


_MINUTE_S = 60.0


@contextmanager
def progress_over_time(
    start_s: float, end_s: float, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[str], Callable[[float], None]]]:
    """Yield ``begin(what)``, which shows the progress of a computation from ``start_s`` to
    ``end_s``.

    It starts a progress bar, and returns a function to call with the time reached. Without a
    terminal, there is a line per tenth instead of the bar.
    """
    from rich.progress import TimeRemainingColumn

    with _progress_bars(TimeRemainingColumn()) as bars:

        def begin(what: str) -> Callable[[float], None]:
            # No division by 0.
            length_s = max(end_s - start_s, 1e-9)
            if bars.disable:
                lines = TenthLines(what, clock)
                return lambda at_s: lines.show((at_s - start_s) / length_s)
            task = bars.add_task(what, total=length_s)
            return lambda at_s: bars.update(task, completed=at_s - start_s)

        yield begin


def progress_each_minute(what: str) -> AbstractContextManager[Callable[[float, float], None]]:
    """The same as :func:`progress_of_tasks`, with a line per minute where there is no terminal."""
    return progress_of_tasks(what, MinuteLines)


@contextmanager
def progress_of_reading(
    files: Sequence[Path], clock: Callable[[], float] = time.monotonic
) -> Iterator[OnBytes | None]:
    """Yield a function to call with the number of bytes read from the files, which shows the
    progress.

    None for files that are read within seconds.
    """
    total = sum(map(_file_bytes, files))
    if total < _LARGE_BYTES:
        yield None
        return
    position = 0
    with progress_over_time(0.0, float(total), clock) as begin:
        show = begin(f"reading {files[0].name}")

        def count(size: int) -> None:
            nonlocal position
            position += size
            show(float(position))

        yield count


def _file_bytes(path: Path) -> int:
    """Return the bytes of a file; 0 if it cannot be read, which its reader then reports."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


@contextmanager
def progress_of_tasks(
    what: str, lines_of: Callable[[str], TenthLines | MinuteLines] = TenthLines
) -> Iterator[Callable[[float, float], None]]:
    """Yield a function to call with (done, total), the work of tasks, which shows the progress.

    On a terminal this is a bar, elsewhere the lines of ``lines_of``.
    """
    from rich.progress import ProgressColumn, Task, TimeElapsedColumn
    from rich.text import Text

    class Left(ProgressColumn):
        """Estimates the time left from the rate of all replays so far; between their ends, it
        counts down.
        """

        def render(self, task: Task) -> Text:
            ends = task.fields["ends"]
            return Text(
                "" if ends is None else f"about {span(max(ends - time.monotonic(), 0.0))} left"
            )

    began = time.monotonic()
    with _progress_bars(TimeElapsedColumn(), Left()) as bars:
        if bars.disable:
            lines = lines_of(what)
            yield lambda done, total: lines.show(done / total if total else 1.0)
            return
        bar = bars.add_task(what, total=None, ends=None)

        def show(done: float, total: float) -> None:
            now = time.monotonic()
            is_begun = done > 0.05 * total  # before, the rate is that of the start
            ends = now + (now - began) * (total - done) / done if is_begun else None
            bars.update(bar, completed=done, total=total, ends=ends)

        yield show


def span(seconds: float) -> str:
    """Write a duration in seconds, minutes or hours, by its length."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


_LONG_S = 60.0


def note_slow_replays(took_s: float, has_engine: bool) -> None:
    """Say how replays become faster, after some that took long in Python."""
    if took_s >= _LONG_S and not has_engine:
        note(
            f"the replays took {span(took_s)} in Python; the compiled engine is several times "
            "faster, with the same results: install a C++20 compiler, then run pip install again"
        )


def complain_of(failures: Sequence[FailedTask], of: int) -> None:
    """Print each reason of the failures once, then raise :class:`SweepFailedError`; do nothing
    without failures.
    """
    if not failures:
        return
    for reason in sorted({failure.reason for failure in failures}):
        note(reason)
    raise SweepFailedError(
        f"{len(failures)} of {counted(of, 'replay')} failed; the other results are kept, and "
        "the same command retries only the "
        "failed ones"
    )
