"""``bftrainer policy list``."""

from __future__ import annotations

import click

from bftrainer.console.cli.tables import show_facts
from bftrainer.errors import UserError


@click.command("list")
def list_policies() -> None:
    """List the installed policies and what each needs to know about a trainer.

    \b
    Example:
      bftrainer policy list
    """
    from bftrainer.decide.allocation.chain import build_allocator
    from bftrainer.decide.allocation.objectives import DEFAULT_OBJECTIVE
    from bftrainer.decide.policies.requirements import needs_of
    from bftrainer.decide.policies.settings import PolicySettings
    from bftrainer.plugins import POLICY_GROUP, build_policy, find_objective, installed_names

    settings = PolicySettings(build_allocator("exact", 10.0), find_objective(DEFAULT_OBJECTIVE))
    facts: list[tuple[str, str]] = []
    for name in installed_names(POLICY_GROUP):
        try:
            needs = needs_of(build_policy(name, settings))
        except UserError as error:
            facts.append((name, f"cannot run on a pool: {str(error).partition(': ')[2]}"))
            continue
        requirements = " and ".join(sorted(need.value for need in needs))
        facts.append((name, f"needs {requirements or 'nothing beyond what every trainer has'}"))
    show_facts(facts)
