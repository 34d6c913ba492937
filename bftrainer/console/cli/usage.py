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
    help="Group totals by user or by training.",
)
@state_option
@json_option
def usage(by: str, state: Path, as_json: bool) -> None:
    """Sum what trainings cost: node-hours held, used for training, and lost.

    Lost node-hours are repeated (work since the last checkpoint, done again) or stalled (starting,
    rescaling, stopping). What trains now: bftrainer list. What was reached: bftrainer results.

    \b
    Example:
      bftrainer usage --by user
    """
    totals: dict[str, list[float]] = defaultdict(lambda: [0.0] * len(_USES))
    with opened_registry(state) as registry:
        for record in registry.trainers():
            row = totals[record.owner if by == "user" else record.name]
            uses = (
                record.held_node_s,
                record.trained_node_s - record.repeated_node_s,
                record.repeated_node_s,
                record.stalled_node_s,
            )
            for index, node_s in enumerate(uses):
                row[index] += node_s
    if as_json:
        show_json([{by: name, **_in_node_hours(row)} for name, row in totals.items()])
        return
    columns = (
        name_column("training" if by == "trainer" else by),
        *(number_column(f"{use} (node-hours)") for use in _USES),
    )
    show_table(columns, [(name, *map(hours, row)) for name, row in totals.items()])


def _in_node_hours(totals_node_s: list[float]) -> dict[str, float]:
    """Convert the node-seconds of one row, one total for each of ``_USES``, to JSON."""
    return {
        f"{use}_node_h": node_s / 3600 for use, node_s in zip(_USES, totals_node_s, strict=True)
    }
