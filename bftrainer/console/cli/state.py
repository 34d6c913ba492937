"""Options that several commands share: ``--state``, the state directory, and ``--set``, keys of a
trainer file.
"""

from __future__ import annotations

import click

from bftrainer.console.cli.choices import DIR
from bftrainer.console.client.state_dir import DEFAULT, STATE_VARIABLE, default_state

state_option = click.option(
    "--state",
    type=DIR,
    default=default_state,
    show_default=f"${STATE_VARIABLE}, or {DEFAULT}",
    help="State directory of the pilot.",
)
"""``--state DIR``, or $BFTRAINER_STATE."""
set_option = click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override any key of the trainer file; VALUE is TOML.",
)
"""``--set KEY=VALUE``."""
