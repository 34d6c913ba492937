"""A pilot's journal as a replay: its nodes and trainers, with the curves and costs that it measured, under a cost model.

Shows how far a cost model is from what happened: both outcomes are compared with the same reference.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from bftrainer.domain.events import PoolChanged, TrainerSubmitted, WorkLost
from bftrainer.domain.model import Trainer
from bftrainer.domain.state import Nodes, State
from bftrainer.errors import UserError
from bftrainer.live.rerun import observed
from bftrainer.persistence.journal import JournalEntry, Settings
from bftrainer.persistence.store import Store
from bftrainer_replay.logs.model import LogWindow, PoolEvent
from bftrainer_replay.simulation.play import Scenario
from bftrainer_replay.simulation.progress import CostModel, ReplayedTrainer
from bftrainer_replay.simulation.world import Arrival


@dataclass(frozen=True, slots=True)
class NodesChanged:
    """A trainer's nodes from ``at_s`` on. ``forced``: the scheduler took the others."""

    at_s: float
    trainer_id: str
    nodes: Nodes
    forced: bool


@dataclass(frozen=True, slots=True)
class LiveRun:
    """What a journal says of a run: what a replay needs, and the samples that were reported by the last decision.

    ``lost`` are samples that were done before, and lost because a trainer lost all its nodes without a checkpoint. No cost
    model counts these: they depend on the age of checkpoints. ``as_decided`` are the samples under the cost model if every
    decision is the one that was made live, when curves and costs were not yet known.
    """

    scenario: Scenario
    settings: Settings
    samples: float
    lost: float
    as_decided: float


def live_run(store: Store, cost_model: CostModel, may_import: Collection[str] = ()) -> LiveRun:
    """The run in a journal. Raises :class:`~bftrainer.errors.UserError` for one that is too short."""
    told: dict[str, Trainer] = {}
    submitted: dict[str, float] = {}
    done: dict[str, float] = {}
    changes: list[PoolEvent] = []
    lost: list[float] = []
    moves: list[NodesChanged] = []
    held: dict[str, Nodes] = {}
    start_s, last, settings = 0.0, None, None
    for entry, state in observed(store, may_import=may_import):
        event = last = entry.event
        if not done and not submitted and not changes:
            start_s = event.at_s
        done |= dict(event.samples_done)
        moves += _moves(entry, state, held)
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
    as_decided = _as_decided({a.trainer.id: a.trainer for a in arrivals}, moves, last.at_s, cost_model)
    scenario = Scenario(window, arrivals, settings.max_parallel, cost_model)
    return LiveRun(scenario, settings, sum(done.values()), sum(lost), as_decided)


def _moves(entry: JournalEntry, state: State, held: dict[str, Nodes]) -> list[NodesChanged]:
    """What an event and its decision changed; ``held`` is brought up to date. A trainer that has ended has no nodes."""
    at_s, active = entry.event.at_s, {a.trainer.id: a.nodes for a in state.active}
    planned = dict(zip(active, entry.plan.nodes, strict=True))
    moves = [NodesChanged(at_s, name, frozenset(), forced=False) for name in held if name not in active]
    for name, nodes in active.items():
        if held.get(name, nodes) != nodes:
            moves.append(NodesChanged(at_s, name, nodes, forced=True))
        if planned[name] != nodes:
            moves.append(NodesChanged(at_s, name, planned[name], forced=False))
    held.clear()
    held.update(planned)
    return moves


def _as_decided(
    trainers: Mapping[str, Trainer], moves: Iterable[NodesChanged], end_s: float, cost_model: CostModel
) -> float:
    runs: dict[str, ReplayedTrainer] = {}
    for move in moves:
        trainer = trainers[move.trainer_id]
        run = runs.setdefault(trainer.id, ReplayedTrainer(trainer, cost_model, move.at_s))
        if move.forced:
            run.lose_nodes(run.held - move.nodes, move.at_s)
        else:
            run.rescale(move.nodes, move.at_s)
    return sum(min(run.samples_at(end_s), run.total) for run in runs.values())
