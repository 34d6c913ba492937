"""``bftrainer config``: the configuration of a pilot, with the keys that it sets or with every
key.
"""

from __future__ import annotations

from pathlib import Path

import click

from bftrainer.console.cli.output import say
from bftrainer.console.cli.state import state_option
from bftrainer.console.client.state_dir import CONFIG_NAME


@click.command()
@click.option(
    "--all",
    "all_keys",
    is_flag=True,
    help="Print every key with its description; a comment shows a default.",
)
@state_option
def config(all_keys: bool, state: Path) -> None:
    """Print the keys that a pilot's configuration sets, or with --all every key there is.

    The output of --all is a configuration file of the same effect. Nothing is written.

    \b
    Example:
      bftrainer config
      bftrainer config --all
    """
    from bftrainer.cluster.site_plugin import find_site
    from bftrainer.config.config_text import full_config, table_lines
    from bftrainer.config.pilot import PilotConfig, read_config
    from bftrainer.config.validation import load_toml

    path = state / CONFIG_NAME
    exists = path.exists()
    settings = read_config(path) if exists else PilotConfig()  # read_config refuses a wrong key
    tables = load_toml(path) if exists else {}
    if all_keys:
        holder = settings.nodes.holder
        model = find_site(holder).table
        say(full_config({} if model is None else {holder: model}, tables), nl=False)
    elif not exists:
        say(f"# {path} does not exist: every key has its default")
    else:
        say("\n".join(table_lines(tables)).strip())
