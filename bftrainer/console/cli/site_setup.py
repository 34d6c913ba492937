"""``bftrainer site-setup``: the changes of the scheduler's configuration with which main jobs
preempt holders at once, for the administrator of this cluster.
"""

from __future__ import annotations

import click

from bftrainer.console.cli.choices import SCHEDULER
from bftrainer.console.cli.output import say


@click.command("site-setup")
@click.option(
    "--partition",
    default="",
    metavar="NAME",
    help="Partition of the holders. Default: a new one, or the one that fits.",
)
@click.option(
    "--qos",
    default="",
    metavar="NAME",
    help="QOS of the holders, with preemption by QOS. Default: a new one.",
)
@click.option(
    "--scheduler",
    type=SCHEDULER,
    show_default="the one whose changes are known",
    help="Whose configuration.",
)
def site_setup(partition: str, qos: str, scheduler: str | None) -> None:
    """Print the exact changes for this cluster after which main jobs preempt holders at once.

    The configuration is read, and nothing is executed: the output is a difference of slurm.conf and
    commands of sacctmgr for the administrator to check and to run, and the keys of a pilot for
    users.

    \b
    Example:
      bftrainer site-setup
      bftrainer site-setup --qos scavenger > steps.txt
    """
    from bftrainer.cluster.site_advice import adjustable_site

    say(adjustable_site(scheduler).setup_steps(partition, qos), nl=False)
