"""``bftrainer replay journal``: a live pilot's decisions, decided again from what it wrote down."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import click

from bftrainer.cli.state import opened_registry
from bftrainer.errors import BFTrainerError


class JournalDiffersError(BFTrainerError):
    """The proof failed: status 1."""


@click.command()
@click.argument("state", type=click.Path(path_type=Path, file_okay=False), metavar="STATE_DIR")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def journal(state: Path, as_json: bool) -> None:
    """Prove that the journal of a live pilot, replayed, gives the same decisions.

    Every event is answered again. The exact solver must give the same counts; answers of MILP solvers are taken from the
    journal, checked, and compared with the exact optimum. Ends with status 1 if anything differs.

    \b
    Example:
      bftrainer replay journal ~/.bftrainer
    """
    from bftrainer.live.rerun import decide_again

    with opened_registry(state) as registry:
        verdicts = list(decide_again(registry.store))
    by_solver = dict(Counter(v.solver for v in verdicts))
    bad = [v for v in verdicts if v.differs]
    if as_json:
        differing = [{"decision": v.number, "differs": v.differs} for v in bad]
        click.echo(json.dumps({"decisions": len(verdicts), "by_solver": by_solver, "differing": differing}))
    else:
        solvers = ", ".join(f"{n} by {name}" for name, n in sorted(by_solver.items()))
        click.echo(f"{len(verdicts)} decisions ({solvers}): {len(bad)} differ")
    if bad:
        raise JournalDiffersError(f"decision {bad[0].number} differs: {bad[0].differs}")
