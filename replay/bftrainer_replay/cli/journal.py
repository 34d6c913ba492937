"""``bftrainer replay journal``: a live pilot's decisions, replayed from its journal."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer.client.state_dir import opened_registry
from bftrainer.errors import BFTrainerError
from bftrainer_replay.cli.choices import COST_MODEL

if TYPE_CHECKING:
    from collections.abc import Collection

    from bftrainer.persistence.store import Store


class JournalDiffersError(BFTrainerError):
    """A replayed decision differs; exit status 1."""


@click.command()
@click.argument("state", type=click.Path(path_type=Path, file_okay=False), metavar="STATE_DIR")
@click.option(
    "--import",
    "may_import",
    multiple=True,
    metavar="MODULE:FUNCTION",
    help="Policy or objective outside of bftrainer that the journal may name. May be repeated.",
)
@click.option(
    "--cost-model",
    type=COST_MODEL,
    help="Also replay the run: the journal's nodes and trainers, with the curves and costs that were measured.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def journal(state: Path, may_import: tuple[str, ...], cost_model: str | None, as_json: bool) -> None:
    """Replay the journal of a live pilot and check that it gives the same decisions.

    Every decision is recomputed. The exact solver must give the same counts; solutions of MILP solvers are taken from the
    journal, validated, and compared with the exact optimum. The exit status is 1 if any decision differs. A journal is data:
    the command imports no module that it names, except those of --import.

    \b
    Example:
      bftrainer replay journal ~/.bftrainer
      bftrainer replay journal ~/.bftrainer --cost-model overlap
    """
    from bftrainer.live.rerun import decide_again

    with opened_registry(state) as registry:
        verdicts = list(decide_again(registry.store, may_import))
        outcome = None if cost_model is None else _outcome(registry.store, cost_model, may_import)
    by_solver = dict(Counter(v.solver for v in verdicts))
    bad = [v for v in verdicts if v.differs]
    if as_json:
        differing = [{"decision": v.number, "differs": v.differs} for v in bad]
        found = {"decisions": len(verdicts), "by_solver": by_solver, "differing": differing}
        click.echo(json.dumps(found if outcome is None else {**found, "outcome": outcome}))
    else:
        solvers = ", ".join(f"{n} by {name}" for name, n in sorted(by_solver.items()))
        click.echo(f"{len(verdicts)} decisions ({solvers}): {len(bad)} differ")
        if outcome is not None:
            again = f" and {outcome['lost']:.1%} lost since checkpoints" if outcome["lost"] else ""
            click.echo(
                f"{outcome['seconds']:.0f} s: U {outcome['live']:.1%}{again} live; under {cost_model} "
                f"{outcome['as_decided']:.1%} with the live decisions, {outcome['replayed']:.1%} decided again"
            )
    if bad:
        raise JournalDiffersError(f"decision {bad[0].number} differs: {bad[0].differs}")


def _outcome(store: Store, cost_model: str, may_import: Collection[str]) -> dict[str, float]:
    """The efficiency U of the run, as reported and as replayed, and what was lost. All refer to the same constant nodes."""
    from bftrainer.allocation.chain import build_allocator
    from bftrainer.live.rerun import recorded_policy
    from bftrainer.persistence.journal import RecordingAllocator
    from bftrainer_replay.recording.own_journal import live_run
    from bftrainer_replay.simulation.play import play, static_outcome
    from bftrainer_replay.simulation.progress import CostModel

    run = live_run(store, CostModel(cost_model), may_import)
    policy = recorded_policy(run.settings, RecordingAllocator(build_allocator("exact", 10.0)), may_import)
    static = static_outcome(run.scenario)
    replayed = play(run.scenario, policy, keep_entries=False).totals.samples
    window = run.scenario.window
    return {
        "seconds": window.span_s,
        "live": run.samples / static,
        "lost": run.lost / static,
        "as_decided": run.as_decided / static,
        "replayed": replayed / static,
    }
