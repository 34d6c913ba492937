"""What the pilot's commands share: where its state is, how rows and times are shown."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bftrainer.persistence.registry import Registry

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT = "~/.bftrainer"


def state_option(command: F) -> F:
    """``--state DIR``, or $BFTRAINER_STATE."""
    return click.option(
        "--state",
        type=click.Path(path_type=Path, file_okay=False),
        default=lambda: Path(os.environ.get("BFTRAINER_STATE", DEFAULT)).expanduser(),
        show_default=f"$BFTRAINER_STATE, or {DEFAULT}",
        metavar="DIR",
        help="The pilot's state directory.",
    )(command)


def json_option(command: F) -> F:
    """``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="For programs: one JSON object per line.")(command)


@contextmanager
def opened_registry(state: Path) -> Iterator[Registry]:
    """The registry, to read."""
    from bftrainer.persistence.registry import Registry
    from bftrainer.persistence.spool import open_state_dir
    from bftrainer.persistence.store import open_store

    with closing(open_store(open_state_dir(state))) as store:
        yield Registry(store)


def show_rows(columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()) -> None:
    """A table for people; wide ones are not cut where the output is no terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_header=any(columns))
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    console.print(table, markup=False)  # a cell may hold what looks like markup: pip install 'x[y]'


def show_json(rows: Sequence[dict[str, object]]) -> None:
    """One object per line."""
    for row in rows:
        click.echo(json.dumps(row))


def clock_time(at_s: float | None) -> str:
    """Local time to the second; a dash for what has not happened."""
    return "-" if at_s is None else datetime.fromtimestamp(at_s).astimezone().strftime("%m-%d %H:%M:%S")


def hours(node_s: float) -> str:
    """Node-hours."""
    return f"{node_s / 3600:,.2f}"
