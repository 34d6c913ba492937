"""Follow a trainer to its end on the terminal: ``bftrainer submit --follow``."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer.cli.logs import POLL_S, print_new
from bftrainer.cli.output import counted, say
from bftrainer.cli.trainers import allocation, status_text
from bftrainer.client.remarks import remark_of
from bftrainer.protocol.paths import TrainerDirectory

if TYPE_CHECKING:
    from bftrainer.client.statuses import SubmissionView

INTERRUPTED = 130
_NUMBERS = re.compile(r"[\d,.]+")  # a remark that only counts on is not printed again


def follow(folder: Path, name: str, spool_name: str) -> None:
    """Print each change of the status and new output, until the trainer has ended.

    Raises click's ``Exit``: with status 1 if the trainer is not done, with 130 after Ctrl-C, which leaves it running.
    """
    from bftrainer.client.statuses import SubmissionStatus, look

    directory, offsets, said = TrainerDirectory.of(folder, name), dict[Path, int](), ("", "")
    try:
        while True:
            view = look(folder, {name: spool_name})[name]
            status, remark = _line(view, allocation(folder).nodes.get(name, ()))
            if (found := (status, _NUMBERS.sub("", remark))) != said:
                say(": ".join(filter(None, (name, status, remark))), err=True)
                said = found
            paths = directory.latest_logs()
            for path in paths:
                print_new(path, offsets, None, named=len(paths) > 1)
            if view.is_over:
                raise click.exceptions.Exit(0 if view.status is SubmissionStatus.DONE else 1)
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        say(f"{name} trains on; `bftrainer logs -f {name}` follows it, `bftrainer cancel {name}` ends it", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None


def _line(view: SubmissionView, nodes: tuple[str, ...]) -> tuple[str, str]:
    """The status, and a remark."""
    if view.record is None:
        return view.status.value, view.reason or ""
    on = f" on {counted(len(nodes), 'node')}" if nodes and not view.status.is_final else ""
    return status_text(view.record, nodes) + on, remark_of(view.record)
