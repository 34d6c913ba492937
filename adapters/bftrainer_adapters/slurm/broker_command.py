"""``bftrainer broker``: one process that polls Slurm for the pilots of all users."""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from bftrainer.cli.choices import DIR
from bftrainer.errors import CommandError, SchedulerError
from bftrainer.system.printable import printable
from bftrainer_adapters.slurm.broker import Broker, Guard, check_folder
from bftrainer_adapters.slurm.calls import SlurmCalls


@click.command()
@click.argument("folder", type=DIR)
@click.option(
    "--partition", "partitions", multiple=True, help="Partition of the nodes that users share.  [default: all]"
)
@click.option("--gpus", "by_gpu", is_flag=True, help='Publish what pilots with nodes.unit = "gpu" ask.')
@click.option("--every", "every_s", type=click.FloatRange(1, 15), default=4.0, show_default=True, help="Seconds.")
@click.option(
    "--calls", type=click.FloatRange(10), default=50.0, show_default=True, help="Calls to slurmctld a minute."
)
@click.option("--enforce", "account", default="", metavar="ACCOUNT", help="End holders of this account above a part.")
def broker(folder: Path, partitions: tuple[str, ...], by_gpu: bool, every_s: float, calls: float, account: str) -> None:
    """Publish Slurm's answers in FOLDER for the pilots of all users, so that they need not ask.

    Runs as an ordinary user, best one of its own, who alone can write FOLDER. Pilots find it by slurm.broker. It tells who
    keeps nodes that others lack. With --enforce, its user is a coordinator of the holders' account.

    \b
    Example:
      bftrainer broker /shared/bftrainer --partition scavenge
    """
    os.umask(0o022)
    check_folder(folder)
    own = SlurmCalls()
    guard = Guard(own, frozenset(partitions), account, _tell)
    it, problem = Broker(folder, own, guard, every_s, calls, by_gpu), ""
    while True:
        was, problem, wait_s = problem, "", every_s
        try:
            it.check_hidden()
            wait_s = it.publish()
        except (CommandError, SchedulerError, OSError) as error:
            problem = str(error)
        if problem != was:
            _tell(problem or "Slurm responds again")
        time.sleep(wait_s)


def _tell(text: str) -> None:
    click.echo(f"{time.strftime('%F %T')} {printable(text)}")
