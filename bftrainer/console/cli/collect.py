"""``bftrainer collect``: the checkpoints and the table of a group's trainers in one directory."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import click

from bftrainer.console.cli.choices import DIR
from bftrainer.console.cli.output import note, say
from bftrainer.console.cli.state import state_option
from bftrainer.console.cli.trainer_names import GroupName
from bftrainer.counted import counted
from bftrainer.errors import UserError


@click.command()
@click.argument("group", type=GroupName(), metavar="GROUP")
@click.argument("target", type=DIR)
@state_option
def collect(group: str, target: Path, state: Path) -> None:
    """Copy what the trainings of a group have saved to DIR: the last checkpoint of each, and
    results.csv.

    DIR/NAME has the file or folder that the script named in report.checkpointed(path). What is
    there is replaced.

    \b
    Example:
      bftrainer collect digits ~/digits
    """
    from bftrainer.console.client.functions import trainers
    from bftrainer.console.client.handle import checkpoint_of
    from bftrainer.console.client.results import as_csv, result_rows
    from bftrainer.system.files import write_atomically

    handles = trainers(group=group, state=state)
    if not handles:
        raise UserError(f"no training of group {group!r}; see `bftrainer list --all`")
    copied = 0
    try:
        for handle in handles:
            record = handle.view().record
            if record is None:
                continue  # no pilot has read the submission
            checkpoint = checkpoint_of(record, handle.progress())
            if checkpoint is None:
                continue
            source = checkpoint.resolve()  # so that its name is never ".."
            if not source.exists() or not source.name:
                note(f"{handle.name}: its checkpoint {source} is not there any more")
                continue
            _copy_whole(source, target / handle.name / source.name)
            copied += 1
        target.mkdir(parents=True, exist_ok=True)
        write_atomically(target / "results.csv", as_csv(result_rows(state, group)).encode())
    except OSError as error:
        raise UserError(f"{error.filename or target}: {error.strerror}") from error
    say(
        f"{target}: results.csv, and checkpoints of {copied} of {counted(len(handles), 'training')}"
    )


def _copy_whole(source: Path, target: Path) -> None:
    """Copy a file or a folder in place of ``target``; the copy appears as a whole, by a rename."""
    target.parent.mkdir(parents=True, exist_ok=True)
    # Other users cannot write into a temporary directory.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name[:100]}.") as folder:
        copy = Path(folder) / target.name
        if source.is_dir():
            shutil.copytree(source, copy)
        else:
            shutil.copy2(source, copy)
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        copy.replace(target)
