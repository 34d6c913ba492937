"""``bftrainer usage``: node-hours by trainer or by user."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import click

from bftrainer.console.cli.output import hours, json_option, show_json
from bftrainer.console.cli.state import state_option
from bftrainer.console.cli.tables import name_column, number_column, show_table
from bftrainer.console.client.state_dir import opened_registry

_USES = ("held", "trained", "repeated", "stalled")


@click.command()
@click.option(
    "--by",
    type=click.Choice(["user", "trainer"]),
    default="trainer",
    help="Group totals by user or by trainer.",
)
@state_option
@json_option
def usage(by: str, state: Path, as_json: bool) -> None:
    """Show total node-hours held for trainers, used for training, and lost.

    Lost node-hours are repeated (work since the last checkpoint, done again) or stalled (starting,
    rescaling, stopping).

    \b
    Example:
      bftrainer usage --by user
    """
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0] * len(_USES))
    with opened_registry(state) as registry:
        for t in registry.trainers():
            row = sums[t.owner if by == "user" else t.name]
            uses = (
                t.held_node_s,
                t.trained_node_s - t.repeated_node_s,
                t.repeated_node_s,
                t.stalled_node_s,
            )
            for i, node_s in enumerate(uses):
                row[i] += node_s
    if as_json:
        show_json([{by: name, **_in_node_hours(row)} for name, row in sums.items()])
        return
    columns = (name_column(by), *(number_column(f"{use} (node-hours)") for use in _USES))
    show_table(columns, [(name, *map(hours, row)) for name, row in sums.items()])


def _in_node_hours(node_seconds: list[float]) -> dict[str, float]:
    """The totals of one row in JSON, by the use of the nodes."""
    return {f"{use}_node_h": s / 3600 for use, s in zip(_USES, node_seconds, strict=True)}
