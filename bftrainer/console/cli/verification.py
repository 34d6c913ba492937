"""Verifies the decisions of a pilot: each is computed again from the journal, and compared."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from bftrainer.console.cli.output import say, show_json
from bftrainer.console.client.state_dir import opened_registry
from bftrainer.counted import counted
from bftrainer.errors import BFTrainerError


class JournalDiffersError(BFTrainerError):
    """A replayed decision differs; exit status 1."""


def verify_decisions(state: Path, may_import: tuple[str, ...] = (), *, as_json: bool) -> None:
    """Compute the decisions of a state directory again, and print how many differ.

    ``may_import`` names the policies and objectives outside of bftrainer that may be imported.
    Raises :class:`JournalDiffersError` if a decision differs.
    """
    from bftrainer.pilot.audit.totals import read_totals
    from bftrainer.pilot.rerun import decide_again

    with opened_registry(state) as registry:
        verdicts = list(decide_again(registry.store, may_import))
        audit = read_totals(registry.store.path.parent)
    by_solver = dict(Counter(verdict.solver for verdict in verdicts))
    differing = [verdict for verdict in verdicts if verdict.differs]
    if as_json:
        report: dict[str, object] = {
            "decisions": len(verdicts),
            "by_solver": by_solver,
            "differing": [{"decision": v.number, "differs": v.differs} for v in differing],
            "audit": None if audit is None else audit.as_dict(),
        }
        show_json([report])
    else:
        solvers = ", ".join(f"{n} by {name}" for name, n in sorted(by_solver.items()))
        say(f"{counted(len(verdicts), 'decision')} ({solvers}): {len(differing)} differ")
        if audit is not None:
            say(str(audit))
    if differing:
        raise JournalDiffersError(f"decision {differing[0].number} differs: {differing[0].differs}")
