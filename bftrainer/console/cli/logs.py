"""``bftrainer logs``: the output of a trainer's workers."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import click

from bftrainer.console.cli.output import note, say
from bftrainer.console.cli.state import state_option
from bftrainer.console.cli.trainer_names import TrainerName
from bftrainer.console.client.state_dir import opened_registry, pending_submissions
from bftrainer.errors import UserError
from bftrainer.system.regular import open_regular

POLL_S = 0.5
_LINE = 10_000
"""Characters of a line in which --grep looks."""
_TAIL_BYTES = 64 << 20
"""Most that is read at once; a worker's log is no longer, unless another program writes it."""


@click.command()
@click.argument("trainer", type=TrainerName(), metavar="NAME", required=False)
@click.option(
    "--group",
    metavar="NAME",
    help="All trainings of a group, each with its last lines or those of --grep.",
)
@click.option(
    "--grep", "pattern", metavar="REGEX", help="Only lines in which the regular expression matches."
)
@click.option("-f", "--follow", is_flag=True, help="Print new output until the training ends.")
@click.option(
    "-n",
    "--lines",
    default=20,
    type=click.IntRange(min=0),
    metavar="N",
    help="Number of lines to show per worker.",
)
@state_option
def logs(
    trainer: str | None,
    group: str | None,
    pattern: str | None,
    follow: bool,
    lines: int,
    state: Path,
) -> None:
    """Print the output of a training's workers since its last start.

    \b
    Example:
      bftrainer logs digits
      bftrainer logs -f digits
      bftrainer logs --group sweep --grep 'Error|nan'
    """
    if (trainer is None) is (group is None):
        raise UserError("expected the NAME of a training, or --group")
    if group is not None or pattern is not None:
        if follow:
            raise UserError(
                "--follow prints all lines of one training: expected neither --group nor --grep"
            )
        _print_several(state, trainer, group, pattern, lines)
        return
    assert trainer is not None
    from bftrainer.pilot.persistence.spool import open_state_dir
    from bftrainer.wires.paths import TrainerDirectory

    folder = open_state_dir(state)
    wait_for_pilot(folder, trainer, follow)
    directory = TrainerDirectory.of(folder, trainer)
    offsets: dict[Path, int] = {}
    is_first_poll = True
    while True:
        # The status is read before the logs, so that they have the last lines of an ended trainer.
        with opened_registry(folder) as registry:
            has_ended = registry.trainer(trainer).finished_s is not None
        paths = directory.latest_logs()
        if not paths and is_first_poll:
            _refuse_or_wait(
                f"training {trainer!r} has not written any output yet", follow and not has_ended
            )
        tail = lines if is_first_poll else None
        for path in paths:
            print_new(path, offsets, tail, has_worker_names=len(paths) > 1)
        if not follow or has_ended:
            return
        is_first_poll = False
        time.sleep(POLL_S)


def _print_several(
    state: Path, trainer: str | None, group: str | None, pattern: str | None, lines: int
) -> None:
    """Print the last ``lines`` lines of each latest log of one trainer, or of all of a group; with
    ``pattern``, all lines that match it instead.

    Raises ``UserError`` for an invalid pattern, an unknown trainer and an empty group.
    """
    from bftrainer.pilot.persistence.spool import open_state_dir
    from bftrainer.wires.paths import TrainerDirectory

    folder = open_state_dir(state)
    try:
        expression = None if pattern is None else re.compile(pattern)
    except re.error as error:
        raise UserError(f"--grep {pattern!r:.100}: is not a regular expression: {error}") from error
    with opened_registry(folder) as registry:
        if trainer is not None:
            names = [registry.trainer(trainer).name]
        else:
            names = [record.name for record in registry.trainers() if record.spec.group == group]
    if not names:
        raise UserError(f"no training of group {group!r}; see `bftrainer list --all`")
    for name in names:
        for path in TrainerDirectory.of(folder, name).latest_logs():
            print_new(
                path,
                {},
                lines,
                has_worker_names=True,
                prefix=f"{name} ",
                expression=expression,
            )


def wait_for_pilot(folder: Path, trainer: str, follow: bool) -> None:
    """Check that a pilot has read the submission of a trainer, if it is one: before, there are no
    logs.

    Raises ``UserError`` if none has; with ``follow``, notes that and waits for the pilot instead.
    """

    def is_pending() -> bool:
        return any(request.trainer == trainer for request in pending_submissions(folder))

    if is_pending():
        _refuse_or_wait(
            f"training {trainer!r} is submitted, but no pilot has read it yet (bftrainer pilot)",
            follow,
        )
        while is_pending():
            time.sleep(POLL_S)


def _refuse_or_wait(text: str, follow: bool) -> None:
    """Say why there is no output: as ``UserError``, or with ``follow`` as a note before a wait."""
    if not follow:
        raise UserError(text)
    note(f"{text}; waiting")


def print_new(
    path: Path,
    offsets: dict[Path, int],
    tail: int | None,
    *,
    has_worker_names: bool,
    prefix: str = "",
    expression: re.Pattern[str] | None = None,
) -> None:
    """Print what was added to a log since the last call with the same ``offsets``.

    ``offsets`` has the end of what was printed of each log; that of ``path`` is updated. With
    ``tail``, only the last ``tail`` lines are printed; with ``expression``, all lines that match it
    instead. With ``has_worker_names``, each line begins with ``prefix`` and the worker's name.
    Raises ``UserError`` if the log cannot be read.
    """
    begin = offsets.get(path, 0)
    try:
        handle = open_regular(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    with os.fdopen(handle, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if tail is not None:
            begin = max(begin, size - _TAIL_BYTES)
        # A log that is shorter than what was printed is a new one.
        file.seek(begin if begin <= size else 0)
        data = file.read(_TAIL_BYTES)
        offsets[path] = file.tell()
    # Progress bars end their lines with a carriage return alone.
    lines = data.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if not lines[-1]:
        del lines[-1]
    if expression is not None:
        lines = [line for line in lines if expression.search(line[:_LINE])]
    elif tail is not None:
        lines = lines[-tail:] if tail else []
    for line in lines:
        say(f"{prefix}{path.stem}: {line}" if has_worker_names else line, keep="\t")
