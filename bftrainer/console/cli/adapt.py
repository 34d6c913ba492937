"""``bftrainer adapt``: the lines that a training script needs for idle nodes."""

from __future__ import annotations

import stat
from pathlib import Path

import click

from bftrainer.console.cli.choices import FILE
from bftrainer.console.cli.output import say
from bftrainer.counted import counted
from bftrainer.errors import UserError


@click.command()
@click.argument("script", type=FILE, metavar="SCRIPT.py")
@click.option(
    "--apply",
    "applies",
    is_flag=True,
    help="Change the script; the original is kept as SCRIPT.py.orig.",
)
def adapt(script: Path, applies: bool) -> None:
    """Print the changes, as a unified diff, that a training script needs for idle nodes.

    The command finds the training loop, the model, the optimizer and the data loader, and says in
    one line which of them it cannot find. Notes say what is left to you. Test the result with
    `bftrainer rehearse`.

    \b
    Example:
      bftrainer adapt train.py
      bftrainer adapt train.py --apply
    """
    from bftrainer.console.client.adapt import adapted
    from bftrainer.system.files import write_atomically

    original = script.with_name(f"{script.name}.orig")
    if applies and original.exists():
        raise UserError(f"{original} exists; expected no earlier original: move it away")
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
    target = script.resolve()  # a link stays a link
    mode = stat.S_IMODE(target.stat().st_mode)
    write_atomically(original, adaptation.before.encode(), mode)
    write_atomically(target, adaptation.after.encode(), mode)
    say(
        f"changed {counted(adaptation.changed_lines, 'line')} of {script}; the original is "
        f"{original.name}"
    )
