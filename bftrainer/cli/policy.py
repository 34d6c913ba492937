"""``bftrainer policy list``."""

from __future__ import annotations

import click

from bftrainer.cli.output import say
from bftrainer.errors import UserError


@click.command("list")
def list_policies() -> None:
    """List the installed policies and what each needs to know about a trainer.

    \b
    Example:
      bftrainer policy list
    """
    from bftrainer.allocation.chain import build_allocator
    from bftrainer.allocation.objectives import DEFAULT_OBJECTIVE
    from bftrainer.plugins import POLICY_GROUP, build_policy, find_objective, installed_names
    from bftrainer.policies.requirements import needs_of
    from bftrainer.policies.settings import PolicySettings

    settings = PolicySettings(build_allocator("exact", 10.0), find_objective(DEFAULT_OBJECTIVE))
    for name in installed_names(POLICY_GROUP):
        try:
            needs = needs_of(build_policy(name, settings))
        except UserError as error:
            say(f"{name:<18} cannot run on a pool: {str(error).partition(': ')[2]}")
            continue
        known = " and ".join(sorted(need.value for need in needs))
        say(f"{name:<18} needs {known or 'nothing beyond what every trainer has'}")
