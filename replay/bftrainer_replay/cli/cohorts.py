"""``bftrainer replay cohorts``: the constants of policy `cohort`, from a live pilot's journal."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer.client.state_dir import opened_registry
from bftrainer.errors import UserError

if TYPE_CHECKING:
    from bftrainer.persistence.store import Store
    from bftrainer_replay.logs.model import LogWindow


@click.command()
@click.argument("state", type=click.Path(path_type=Path, file_okay=False), metavar="STATE_DIR")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Output directory."
)
def cohorts(state: Path, as_json: bool, out: Path) -> None:
    """Fit the constants of policy `cohort` to the joins and leaves in the journal of a live pilot.

    Prints the policy with its parameters, and draws the mean time to the next hit on a cohort against its age in
    DIR/cohorts.png. Nodes that the pilot released by itself count as hits. For a log, `bftrainer advise` does the same.

    \b
    Example:
      bftrainer replay cohorts ~/.bftrainer --out cohorts
    """
    from bftrainer.system.files import write_atomically
    from bftrainer_replay.analysis.cohorts import LEAST_HITS, cohort_hits, fitted, policy_name
    from bftrainer_replay.figures.cohorts import cohorts_figure
    from bftrainer_replay.figures.style import png

    with opened_registry(state) as registry:
        found = cohort_hits(_window_of(registry.store))
    model = fitted(found)
    if model is None:
        raise UserError(
            f"{state}: nodes left cohorts {int(found.hits.sum())} times, a fit needs {LEAST_HITS}; let the pilot run for longer"
        )
    try:
        write_atomically(out / "cohorts.png", png(cohorts_figure(found, model)))
    except OSError as error:
        raise UserError(f"--out {out}: cannot be written: {error.strerror}") from error
    if as_json:
        click.echo(
            json.dumps({"policy": policy_name(model), "hits": int(found.hits.sum()), **dataclasses.asdict(model)})
        )
    else:
        click.echo(f'policy = "{policy_name(model)}"  ({int(found.hits.sum())} hits; {out / "cohorts.png"})')


def _window_of(store: Store) -> LogWindow:
    """The pool of a pilot over time, as a log. A pilot starts with an empty pool."""
    from bftrainer.domain.events import PoolChanged
    from bftrainer.persistence.journal import entries
    from bftrainer_replay.logs.model import LogWindow, PoolEvent

    changes = [
        PoolEvent(entry.event.at_s, change)
        for entry in entries(store)
        for change in entry.event.changes
        if isinstance(change, PoolChanged)
    ]
    if not changes:
        raise UserError("the journal has no change of the pool; let the pilot run for longer")
    return LogWindow(changes[0].at_s, changes[-1].at_s, frozenset(), tuple(changes), 0, "journal")
