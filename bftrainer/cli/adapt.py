"""``bftrainer adapt``: the lines that a training script needs for idle nodes."""

from __future__ import annotations

from pathlib import Path

import click

from bftrainer.cli.choices import FILE
from bftrainer.cli.output import counted, say
from bftrainer.errors import UserError


@click.command()
@click.argument("script", type=FILE, metavar="SCRIPT.py")
@click.option("--apply", "applies", is_flag=True, help="Change the script; the original is kept as SCRIPT.py.orig.")
def adapt(script: Path, applies: bool) -> None:
    """Print the changes, as a unified diff, that a training script needs for idle nodes.

    The command finds the training loop, the model, the optimizer and the data loader, and says in one line which of them it
    cannot find. Notes say what is left to you. Test the result with `bftrainer rehearse`.

    \b
    Example:
      bftrainer adapt train.py
      bftrainer adapt train.py --apply
    """
    from bftrainer.client.adapt import adapted
    from bftrainer.system.files import write_atomically

    original = script.with_name(f"{script.name}.orig")
    if applies and original.exists():
        raise UserError(f"{original} exists; expected no earlier original: move it away")
    found = adapted(script)
    for note in found.notes:
        say(f"note: {script}: {note}", err=True)
    if not applies:
        say(found.diff(str(script)), nl=False, keep="\n\t")
        return
    write_atomically(original, found.before.encode())
    write_atomically(script, found.after.encode())
    say(f"changed {counted(found.changed_lines, 'line')} of {script}; the original is {original.name}")
