"""``bftrainer init``: a state directory with a commented configuration."""

from __future__ import annotations

from pathlib import Path

import click

from bftrainer.console.cli.choices import HOLDER
from bftrainer.console.cli.output import say
from bftrainer.console.cli.state import state_option
from bftrainer.errors import UserError
from bftrainer.plugin_traits import default_site


@click.command()
@click.option(
    "--holder",
    type=HOLDER,
    default=default_site,
    show_default="a recorded log",
    help="Source of nodes: a scheduler, the nodes of a job, or those of a recorded log.",
)
@click.option("--force", is_flag=True, help="Replace an existing configuration.")
@state_option
def init(holder: str, force: bool, state: Path) -> None:
    """Create a state directory with a configuration that explains every key.

    \b
    Example:
      bftrainer init --holder slurm --state ~/.bftrainer
    """
    from bftrainer.cluster.site_plugin import find_site
    from bftrainer.config.pilot import commented_default
    from bftrainer.console.client.state_dir import CONFIG_NAME
    from bftrainer.pilot.persistence.spool import open_state_dir
    from bftrainer.system.files import write_atomically

    site = find_site(holder)
    path = open_state_dir(state, create=True) / CONFIG_NAME
    if path.exists() and not force:
        raise UserError(f"{path} already exists; replace it with --force")
    tables = {} if site.table is None else {holder: site.table}
    chosen = {"nodes_holder": holder, **site.init_values}
    write_atomically(path, commented_default(tables, **chosen).encode(), 0o600)
    say(f"written: {path}")
