"""``bftrainer top``: a pilot on a terminal screen, or once as text."""

from __future__ import annotations

import locale
import shutil
import time
from pathlib import Path

import click

from bftrainer.console.cli.choices import NumberRange
from bftrainer.console.cli.output import say
from bftrainer.console.cli.state import state_option
from bftrainer.errors import UserError


@click.command()
@click.option(
    "--every",
    default=1.0,
    type=NumberRange(min=0.2),
    metavar="S",
    help="Seconds between refreshes.",
)
@click.option(
    "--once",
    is_flag=True,
    help=(
        "Print one screen as text and exit; for pipes, or if the Textual package is not installed."
    ),
)
@click.option(
    "--ascii",
    "plain",
    is_flag=True,
    help="Draw bars with ASCII characters.  [default: on if the locale is not UTF-8]",
)
@state_option
def top(every: float, once: bool, plain: bool, state: Path) -> None:
    """Watch a pilot: its nodes over time, its trainings with speed, progress and time left, and the
    latest events.

    Press ? for the keys that pause, resume, cancel and explain trainings. The pilot need not be
    running. In scripts, use list, nodes and events with --json.

    \b
    Example:
      bftrainer top
      bftrainer top --once | less
    """
    from bftrainer.console.cli.top.board import Board, Sort
    from bftrainer.console.cli.top.reader import Reader
    from bftrainer.console.cli.top.text import ASCII, UNICODE
    from bftrainer.console.cli.top.text import screen_text as as_text

    is_utf8 = locale.getpreferredencoding(False).lower().replace("-", "") == "utf8"
    marks = ASCII if plain or not is_utf8 else UNICODE
    reader = Reader(state, time.time)
    try:
        if once:
            board = Board()
            board.add(reader.read_snapshot())
            width = shutil.get_terminal_size((100, 24)).columns
            say(as_text(board, max(width, 80), marks, Sort.STATUS, "", ended=False), nl=False)
            return
        try:
            from bftrainer.console.cli.top.app import Top
        except ImportError as error:
            raise UserError(
                "top requires the textual package, which is not installed; run pip install "
                "'bftrainer[top]', or use --once"
            ) from error
        Top(reader, every, marks).run()
    finally:
        reader.close()
