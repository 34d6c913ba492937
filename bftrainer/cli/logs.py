"""``bftrainer logs``: the output of a trainer's workers."""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from bftrainer.cli.output import say
from bftrainer.cli.state import state_option
from bftrainer.client.state_dir import opened_registry, pending_submissions
from bftrainer.errors import UserError
from bftrainer.system.regular import open_regular

POLL_S = 0.5
_TAIL_BYTES = 64 << 20
"""Most that is read at once; a worker's log is no longer, unless another program writes it."""


@click.command()
@click.argument("trainer", metavar="NAME")
@click.option("-f", "--follow", is_flag=True, help="Print new output until the trainer ends.")
@click.option(
    "-n",
    "--lines",
    default=20,
    show_default=True,
    type=click.IntRange(min=0),
    metavar="N",
    help="Number of lines to show per worker.",
)
@state_option
def logs(trainer: str, follow: bool, lines: int, state: Path) -> None:
    """Print the output of a trainer's workers since its last start.

    \b
    Example:
      bftrainer logs digits
      bftrainer logs -f digits
    """
    from bftrainer.persistence.spool import open_state_dir
    from bftrainer.protocol.paths import TrainerDirectory

    folder = open_state_dir(state)
    _wait_for_pilot(folder, trainer, follow)
    directory = TrainerDirectory.of(folder, trainer)
    offsets: dict[Path, int] = {}
    first = True
    while True:
        with opened_registry(folder) as registry:
            ended = registry.trainer(trainer).finished_s is not None
        found = directory.latest_logs()
        if not found and first:
            _nothing_yet(f"trainer {trainer!r} has not written any output yet", follow and not ended)
        for path in found:
            print_new(path, offsets, lines if first else None, named=len(found) > 1)
        if not follow or ended:
            return
        first = False
        time.sleep(POLL_S)


def _wait_for_pilot(folder: Path, trainer: str, follow: bool) -> None:
    """A trainer whose submission no pilot has read has no logs yet: with ``follow``, wait for the pilot."""

    def is_pending() -> bool:
        return any(request.trainer == trainer for request in pending_submissions(folder))

    if is_pending():
        _nothing_yet(f"trainer {trainer!r} is submitted, but no pilot has read it yet (bftrainer pilot)", follow)
        while is_pending():
            time.sleep(POLL_S)


def _nothing_yet(text: str, follow: bool) -> None:
    if not follow:
        raise UserError(text)
    say(f"note: {text}; waiting", err=True)


def print_new(path: Path, offsets: dict[Path, int], tail: int | None, *, named: bool) -> None:
    """Print what a log has gained since the last call with these ``offsets``, or its last ``tail`` lines."""
    begin = offsets.get(path, 0)
    try:
        handle = open_regular(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    with os.fdopen(handle, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if tail is not None:
            begin = max(begin, size - _TAIL_BYTES)
        file.seek(begin if begin <= size else 0)
        data = file.read(_TAIL_BYTES)
        offsets[path] = file.tell()
    text = data.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n").split("\n")  # as progress bars write
    if not text[-1]:
        del text[-1]
    if tail is not None:
        text = text[-tail:] if tail else []
    for line in text:
        say(f"{path.stem}: {line}" if named else line, keep="\t")
