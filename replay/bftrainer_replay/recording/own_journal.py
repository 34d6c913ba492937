"""A pilot's journal as a replay: its nodes and trainers, with the curves and costs that it measured, under a cost model.

Shows how far a cost model is from what happened: both outcomes are compared with the same reference.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from bftrainer.domain.events import PoolChanged, TrainerSubmitted, WorkLost
from bftrainer.domain.model import Trainer
from bftrainer.domain.state import Nodes
from bftrainer.errors import UserError
from bftrainer.live.rerun import observed
from bftrainer.persistence.journal import Settings
from bftrainer.persistence.store import Store
from bftrainer_replay.logs.model import LogWindow, PoolEvent
from bftrainer_replay.simulation.play import Scenario
from bftrainer_replay.simulation.progress import CostModel
from bftrainer_replay.simulation.world import Arrival


@dataclass(frozen=True, slots=True)
class LiveRun:
    """What a journal says of a run: what a replay needs, and the samples that were reported by the last decision.

    ``lost`` are samples that were done before, and lost because a trainer lost all its nodes without a checkpoint. No cost
    model counts these: they depend on the age of checkpoints.
    """

    scenario: Scenario
    settings: Settings
    samples: float
    lost: float


def live_run(store: Store, cost_model: CostModel, may_import: Collection[str] = ()) -> LiveRun:
    """The run in a journal. Raises :class:`~bftrainer.errors.UserError` for one that is too short."""
    told: dict[str, Trainer] = {}
    submitted: dict[str, float] = {}
    done: dict[str, float] = {}
    changes: list[PoolEvent] = []
    lost: list[float] = []
    start_s, last, settings = 0.0, None, None
    for entry, state in observed(store, may_import=may_import):
        event = last = entry.event
        if not done and not submitted and not changes:
            start_s = event.at_s
        done |= dict(event.samples_done)
        lost += [seen.samples for seen in event.measured if isinstance(seen, WorkLost)]
        told |= {a.trainer.id: replace(a.trainer, sizes=(a.submitted or a.trainer).sizes) for a in state.active}
        for change in event.changes:
            if isinstance(change, TrainerSubmitted):
                submitted.setdefault(change.trainer.id, event.at_s)
                told.setdefault(change.trainer.id, change.trainer)
            elif isinstance(change, PoolChanged):
                changes.append(PoolEvent(event.at_s, PoolChanged(change.joined, change.left), event.all_joined))
        settings = entry.settings
    if last is None or settings is None or last.at_s <= start_s:
        raise UserError("the journal has fewer than two decisions; a replay of its run needs some time between them")
    nodes: Nodes = frozenset().union(*(change.change.joined for change in changes))
    window = LogWindow(start_s, last.at_s, frozenset(), tuple(changes), len(nodes), "the journal")
    arrivals = tuple(Arrival(at_s, replace(told[name], learning=None)) for name, at_s in submitted.items())
    return LiveRun(
        Scenario(window, arrivals, settings.max_parallel, cost_model), settings, sum(done.values()), sum(lost)
    )
