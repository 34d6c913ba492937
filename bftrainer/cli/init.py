"""``bftrainer init``: a state directory and a commented configuration in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer.cli.state import state_option
from bftrainer.errors import UserError

if TYPE_CHECKING:
    from pydantic import BaseModel


@click.command()
@click.option("--holder", default="trace", show_default=True, metavar="NAME", help="slurm, lsf, allocation or trace.")
@click.option("--force", is_flag=True, help="Replace a configuration that is there.")
@state_option
def init(holder: str, force: bool, state: Path) -> None:
    """Make a state directory with a configuration in which every key is explained.

    \b
    Example:
      bftrainer init --holder slurm --state ~/.bftrainer
    """
    from bftrainer.cli.pilot import CONFIG_NAME
    from bftrainer.config.pilot import commented_default
    from bftrainer.errors import UnknownNameError
    from bftrainer.persistence.spool import open_state_dir
    from bftrainer.system.files import write_atomically
    from bftrainer_adapters.sites import HOLDERS

    if holder not in HOLDERS:
        raise UnknownNameError("holder", holder, HOLDERS)
    path = open_state_dir(state, create=True) / CONFIG_NAME
    if path.exists() and not force:
        raise UserError(f"{path}: is there already; expected none, or --force")
    write_atomically(path, commented_default(_site_tables(holder), **_chosen(holder)).encode())
    click.echo(f"written: {path}")


def _chosen(holder: str) -> dict[str, object]:
    """The keys that are set (table_key). A log at 60 times its speed is looked at more often than a cluster."""
    return {"nodes_holder": holder} | ({"times_poll_s": 1.0} if holder == "trace" else {})


def _site_tables(holder: str) -> dict[str, type[BaseModel]]:
    """The table that this holder reads besides the common ones."""
    if holder == "slurm":
        from bftrainer_adapters.slurm.config import SlurmSettings

        return {"slurm": SlurmSettings}
    if holder == "lsf":
        from bftrainer_adapters.lsf.config import LsfSettings

        return {"lsf": LsfSettings}
    return {}
