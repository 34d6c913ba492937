"""A progress bar, shown on a terminal only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_over_time(start_s: float, end_s: float) -> Iterator[Callable[[str], Callable[[float], None]]]:
    """Yields ``begin(what)``, which starts a bar on stderr and returns a function to call with the time reached."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bars:

        def begin(what: str) -> Callable[[float], None]:
            if bars.disable:
                return lambda _: None
            task = bars.add_task(what, total=max(end_s - start_s, 1e-9))
            return lambda at_s: bars.update(task, completed=at_s - start_s)

        yield begin
