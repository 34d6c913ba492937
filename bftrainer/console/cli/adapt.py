"""``bftrainer adapt``: the lines that a training script needs for idle nodes."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer.console.cli.choices import FILE, NumberRange
from bftrainer.console.cli.output import say
from bftrainer.counted import counted
from bftrainer.errors import UserError

if TYPE_CHECKING:
    from bftrainer.console.client.adapt.script import ChangedFile


@click.command()
@click.argument("script", type=FILE, metavar="SCRIPT.py")
@click.argument("arguments", nargs=-1, metavar="[-- ARGUMENTS...]")
@click.option(
    "--apply",
    "applies",
    is_flag=True,
    help="Change the script; the original is kept as SCRIPT.py.orig.",
)
@click.option(
    "--no-start",
    is_flag=True,
    help="Do not start the changed script for one step before it is written.",
)
@click.option(
    "--start-s",
    type=NumberRange(1),
    default=120.0,
    metavar="S",
    help="Timeout for the start.",
)
def adapt(
    script: Path, arguments: tuple[str, ...], applies: bool, no_start: bool, start_s: float
) -> None:
    """Print the changes, as a unified diff, that a training script needs for idle nodes.

    The command finds the training loop, the model, the optimizer, the data loader, and what else
    the loop changes, also in modules beside the script. It says in one line what it cannot find.
    Notes say what is kept in the checkpoint, and what is left to you.

    With --apply, the changed script is first started for one step, stopped, and started again, in a
    copy of its folder; nothing is written if that fails. Test the result with `bftrainer rehearse`.

    \b
    Example:
      bftrainer adapt train.py
      bftrainer adapt train.py --apply -- --data /scratch/ada/imagenet
    """
    from bftrainer.console.client.adapt import adapted

    originals = [script.with_name(f"{script.name}.orig")]
    if applies:
        _refuse_existing(originals)
    adaptation = adapted(script)
    for note in adaptation.notes:
        say(f"note: {script}: {note}", err=True)
    if not applies:
        diff = adaptation.diff(str(script))
        # Line ends of Windows belong to the patch; a carriage return elsewhere would overwrite the
        # line on a terminal.
        has_windows_ends = "\r" not in diff.replace("\r\n", "\n")
        say(diff, nl=False, keep="\n\t\r" if has_windows_ends else "\n\t")
        return
    originals += [file.path.with_name(f"{file.path.name}.orig") for file in adaptation.modules]
    _refuse_existing(originals)
    if no_start:
        started = "not started: --no-start"
    elif not adaptation.is_startable:
        started = "not started: Elastic Horovod starts its workers itself"
    else:
        from bftrainer.console.client.adapt.trial import try_out

        trial = try_out(adaptation, arguments, timeout_s=start_s)
        started = f"started twice, it made steps {trial.first_step} and {trial.second_step}"
    for original, file in zip(originals, adaptation.files, strict=True):
        _write_adapted(original, file)
    lines = counted(adaptation.changed_lines, "line")
    further = "".join(f", {file.path.name}" for file in adaptation.modules)
    say(f"changed {lines} of {script}{further}; the original is {originals[0].name}; {started}")


def _refuse_existing(originals: list[Path]) -> None:
    """Raise UserError if an earlier original would be written over."""
    for original in originals:
        if original.exists():
            raise UserError(f"{original} exists; expected no earlier original: move it away")


def _write_adapted(original: Path, file: ChangedFile) -> None:
    """Write a changed file, and what it was; a link stays a link."""
    from bftrainer.system.files import write_atomically

    target = file.path.resolve()
    mode = stat.S_IMODE(target.stat().st_mode)
    write_atomically(original, file.before.encode(), mode)
    write_atomically(target, file.after.encode(), mode)
