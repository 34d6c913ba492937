"""``bftrainer replay journal``: a live pilot's decisions, replayed from its journal."""

from __future__ import annotations

from pathlib import Path

import click

from bftrainer.console.cli.choices import DIR
from bftrainer.console.cli.ending import ended_by_signals
from bftrainer.console.cli.verification import verify_decisions


@click.command()
@click.argument("state", type=DIR, metavar="STATE_DIR")
@click.option(
    "--import",
    "may_import",
    multiple=True,
    metavar="MODULE:FUNCTION",
    help="Policy or objective outside of bftrainer that the journal may name. May be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@ended_by_signals()
def journal(state: Path, may_import: tuple[str, ...], as_json: bool) -> None:
    """Replay the journal of a live pilot and check that it gives the same decisions.

    Every decision is recomputed. The exact solver must give the same counts; solutions of MILP
    solvers are taken from the journal, validated, and compared with the exact optimum. The last
    line counts the decisions that the pilot's audit has solved again as a MILP. The exit
    status is 1 if any decision differs. A journal is data: the command imports no module that it
    names, except those of --import.

    \b
    Example:
      bftrainer replay journal ~/.bftrainer
    """
    verify_decisions(state, may_import, as_json=as_json)
