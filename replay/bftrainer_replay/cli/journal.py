"""``bftrainer replay journal``: a live pilot's decisions, replayed from its journal."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import click

from bftrainer.console.cli.choices import DIR
from bftrainer.console.cli.ending import ended_by_signals
from bftrainer.console.cli.output import say
from bftrainer.console.client.state_dir import opened_registry
from bftrainer.counted import counted
from bftrainer.errors import BFTrainerError


class JournalDiffersError(BFTrainerError):
    """A replayed decision differs; exit status 1."""


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
    from bftrainer.pilot.audit.totals import read_totals
    from bftrainer.pilot.rerun import decide_again

    with opened_registry(state) as registry:
        verdicts = list(decide_again(registry.store, may_import))
        audit = read_totals(registry.store.path.parent)
    by_solver = dict(Counter(v.solver for v in verdicts))
    differing = [v for v in verdicts if v.differs]
    if as_json:
        report: dict[str, object] = {
            "decisions": len(verdicts),
            "by_solver": by_solver,
            "differing": [{"decision": v.number, "differs": v.differs} for v in differing],
            "audit": None if audit is None else audit.as_dict(),
        }
        click.echo(json.dumps(report))
    else:
        solvers = ", ".join(f"{n} by {name}" for name, n in sorted(by_solver.items()))
        click.echo(f"{counted(len(verdicts), 'decision')} ({solvers}): {len(differing)} differ")
        if audit is not None:
            say(str(audit))
    if differing:
        raise JournalDiffersError(f"decision {differing[0].number} differs: {differing[0].differs}")
