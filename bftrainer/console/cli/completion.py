"""``bftrainer completion``: the code that makes a shell complete commands, options and names."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import ShellComplete, get_completion_class

from bftrainer.console.cli.output import note, say
from bftrainer.errors import UserError

PROGRAM = "bftrainer"
_SHELLS = ("bash", "zsh", "fish")
_STARTUP_FILE = {
    "bash": "~/.bashrc",
    "zsh": "~/.zshrc",
    "fish": "~/.config/fish/config.fish",
}
_LINE = {
    "bash": 'eval "$(bftrainer completion bash)"',
    "zsh": 'eval "$(bftrainer completion zsh)"',
    "fish": "bftrainer completion fish | source",
}


@click.command()
@click.argument("shell", required=False, type=click.Choice(_SHELLS))
def completion(shell: str | None) -> None:
    """Print the code that makes a shell complete commands, options and names of trainings. The
    default of SHELL is yours ($SHELL).

    \b
    Example:
      bftrainer completion bash >> ~/.bashrc
    """
    chosen = shell or _own_shell()
    say(source_of(chosen), keep="\n\t")
    if shell is None:
        note(f"to have it in each shell, add this line to {_STARTUP_FILE[chosen]}: {_LINE[chosen]}")


def _own_shell() -> str:
    """Return the name of the user's shell. Raises ``UserError`` for one that is not supported."""
    name = Path(os.environ.get("SHELL", "")).name
    if name not in _SHELLS:
        raise UserError(f"completion: the shell {name!r} is unknown; specify {', '.join(_SHELLS)}")
    return name


def source_of(shell: str) -> str:
    """Return the code for a shell, as click writes it."""
    from bftrainer.console.cli.main import bftrainer

    kind = get_completion_class(shell)
    assert kind is not None
    variable = f"_{PROGRAM.upper()}_COMPLETE"
    # Not the method of bash's class, which runs bash to look at its version.
    return ShellComplete.source(kind(bftrainer, {}, PROGRAM, variable)).rstrip()
