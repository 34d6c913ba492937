"""``bftrainer events``: the latest decisions and notes of the pilot."""

from __future__ import annotations

from pathlib import Path

import click

from bftrainer.console.cli.output import clock_time, json_option, show_json
from bftrainer.console.cli.state import state_option
from bftrainer.console.cli.tables import name_column, show_table, text_column
from bftrainer.console.cli.verification import verify_decisions
from bftrainer.console.client.state_dir import opened_registry


@click.command()
@click.option(
    "-n", "--last", default=20, type=click.IntRange(min=1), metavar="N", help="Number of events."
)
@click.option(
    "--verify",
    is_flag=True,
    help="Compute each decision again instead, and print how many differ: status 1 if any does.",
)
@state_option
@json_option
def events(last: int, verify: bool, state: Path, as_json: bool) -> None:
    """List the latest decisions with the events that led to them, and other messages from the
    pilot.

    \b
    Example:
      bftrainer events -n 50
      bftrainer events --verify
    """
    if verify:
        verify_decisions(state, as_json=as_json)
        return
    from bftrainer.console.cli.decision_text import describe_decision
    from bftrainer.pilot.persistence.journal import entries

    with opened_registry(state) as registry:
        newest = registry.store.read("SELECT coalesce(max(number), 0) AS n FROM journal")[0]["n"]
        decisions = list(entries(registry.store, after=max(newest - last, 0)))
        notes = registry.notes(last)
    rows: list[tuple[float, str, str]] = [
        (
            decision.event.at_s,
            "decision",
            describe_decision(decision.event, decision.plan, decision.took_s),
        )
        for decision in decisions
    ]
    rows += [(note.at_s, note.kind, note.line) for note in notes]
    rows = sorted(rows, key=lambda row: row[0])[-last:]
    if as_json:
        show_json([{"time": at_s, "kind": kind, "text": sentence} for at_s, kind, sentence in rows])
        return
    columns = (name_column("time"), name_column("event"), text_column("what happened"))
    show_table(columns, [(clock_time(at_s), kind, sentence) for at_s, kind, sentence in rows])
