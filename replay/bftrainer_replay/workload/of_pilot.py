"""What a pilot has: its unfinished trainers, with what is left of each and the curves and costs
that are known now, and the pool of its journal.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from bftrainer.console.client.state_dir import (
    has_registry,
    opened_registry,
    pending_submissions,
    read,
)
from bftrainer.decide.domain.events import Event, PoolChanged, TrainerFinished, TrainerSubmitted
from bftrainer.decide.domain.model import Trainer
from bftrainer.decide.domain.state import State
from bftrainer.decide.estimation.update import key_of
from bftrainer.errors import UserError
from bftrainer.pilot.persistence.journal import events, last_state, settings_times_s
from bftrainer.pilot.persistence.registry import TrainerRecord
from bftrainer.pilot.persistence.store import Store
from bftrainer.pilot.trainers.for_core import for_core, trainers_for_core
from bftrainer_replay.logs.model import LogWindow, PoolEvent, spans_within, union
from bftrainer_replay.simulation.replay_world import Arrival


def unfinished_trainers(
    state: Path, group: str | None, at_s: float
) -> tuple[tuple[Arrival, ...], tuple[str, ...]]:
    """Return the unfinished trainers of a pilot as submitted at ``at_s``, and the names of others.

    The others are left out, since their length or speed is unknown. ``group`` restricts both to one
    group (None: all). Raises :class:`~bftrainer.errors.UserError` if no trainer remains.
    """
    queue = [queued for queued in queue_of(state) if group in (None, queued.group)]
    arrivals = tuple(Arrival(at_s, queued.trainer) for queued in queue if not queued.lacks)
    if not arrivals:
        whose = f"of group {group!r} " if group is not None else ""
        raise UserError(
            f"{state}: no trainer {whose}with a known length (samples_total) is unfinished"
        )
    return arrivals, tuple(queued.trainer.id for queued in queue if queued.lacks)


class Queued(NamedTuple):
    """An unfinished trainer of a pilot, with the samples that remain as its length. ``lacks`` says
    why its end cannot be predicted (empty: it can).
    """

    trainer: Trainer
    group: str | None
    lacks: str


def queue_of(state: Path) -> tuple[Queued, ...]:
    """Return all trainers of a pilot that train or wait, in the order of its decisions.

    ``state`` is its state directory. Submissions that it has not read yet come at the end. Pools
    that fill idle nodes are left out. A trainer whose end cannot be predicted has no length: it
    keeps its nodes for good.
    """
    submissions = pending_submissions(state)
    last_decision: State | None = None
    records: tuple[TrainerRecord, ...] = ()
    if has_registry(state):
        with opened_registry(state) as registry:
            last_decision, records = last_state(registry.store), registry.trainers()
    decided = _decided_trainers(last_decision)
    measured = _measured_keys(last_decision)
    unfinished = trainers_for_core(records, frozenset())
    learning = read(state).learning
    names = [name for name in decided if name in unfinished]
    names += [name for name in unfinished if name not in decided]
    queue = []
    for name in names:
        record = unfinished[name]
        trainer = decided.get(name) or for_core(record, learning)
        queue.append(_queued_trainer(trainer, record.spec.group, record.samples_done, measured))
    registered = {record.name for record in records}
    specs = {request.trainer: request.spec for request in submissions if request.spec is not None}
    for name, spec in specs.items():
        if name not in registered:
            # A blank spec has no curve, and nothing has been measured for it.
            measured_keys = frozenset[str]() if spec.is_blank else None
            queue.append(_queued_trainer(spec.trainer(), spec.group, 0.0, measured_keys))
    return tuple(queued for queued in queue if not queued.trainer.fill)


def _decided_trainers(state: State | None) -> dict[str, Trainer]:
    """Return the trainers of the last decision by name, admitted trainers first."""
    if state is None:
        return {}
    active = [active.trainer for active in state.active]
    return {trainer.id: trainer for trainer in (*active, *state.queue)}


def _measured_keys(state: State | None) -> frozenset[str]:
    """Return the keys of the curves that have been measured."""
    if state is None:
        return frozenset()
    return frozenset(key for key, measurement in state.measurements if measurement.points)


def _queued_trainer(
    trainer: Trainer, group: str | None, samples_done: float, measured: frozenset[str] | None
) -> Queued:
    """Return a trainer that has processed ``samples_done`` samples, with what remains as its
    length.

    ``measured`` are the keys of curves that have been measured; None: the trainer came with a
    curve.
    """
    remaining = None
    lacks = ""
    if trainer.samples_total is None:
        lacks = "its length is unknown (samples_total)"
    elif _lacks_speed(trainer, measured):
        lacks = "its speed is not measured yet"
    else:
        # A length has to be above 0.
        remaining = max(trainer.samples_total - samples_done, 1e-9)
    unfinished = replace(trainer, samples_total=remaining, learning=None, node_class=None)
    return Queued(unfinished, group, lacks)


def _lacks_speed(trainer: Trainer, measured: frozenset[str] | None) -> bool:
    """Return whether the trainer's curve has to be measured before its end can be predicted.
    ``measured`` is as in :func:`_queued_trainer`.
    """
    if measured is None:
        return False
    if trainer.learning is None:
        return True
    return trainer.learning.blank and key_of(trainer) not in measured


def pool_of(store: Store, end_s: float) -> LogWindow | None:
    """Return the pool of a pilot's journal up to ``end_s`` as a window; None if it is empty.

    Times without a trainer, in which a pilot releases its nodes, are gaps, and so are the times
    between two pilots.
    """
    pool = _JournalPool()
    begins_s = deque(settings_times_s(store))
    for event in events(store):
        while begins_s and begins_s[0] <= event.at_s:
            pool.begin_pilot(begins_s.popleft())
        pool.add(event)
    return pool.window(end_s)


@dataclass(slots=True)
class _JournalPool:
    """Collects, event by event, the changes of a journal's pool, and the gaps in which the journal
    says nothing of idle nodes.

    ``nodes`` and ``trainers`` are those at the last event, whose time is ``last_s``.
    ``empty_since_s``: since when there has been no trainer; None if there is one, or before the
    first event.
    """

    changes: list[PoolEvent] = field(default_factory=list)
    gaps: list[tuple[float, float]] = field(default_factory=list)
    nodes: set[str] = field(default_factory=set)
    trainers: set[str] = field(default_factory=set)
    empty_since_s: float | None = None
    last_s: float | None = None

    def begin_pilot(self, at_s: float) -> None:
        """Begin with the events of the next pilot; the time since the last event of the previous
        pilot is a gap.
        """
        if self.last_s is not None and at_s > self.last_s:
            self.gaps.append((self.last_s, at_s))

    def add(self, event: Event) -> None:
        """Add the changes of an event, and note when there is no trainer (a gap begins) or one
        again.
        """
        for change in event.changes:
            if isinstance(change, PoolChanged):
                self._change_pool(event, change)
            elif isinstance(change, TrainerSubmitted):
                self.trainers.add(change.trainer.id)
            elif isinstance(change, TrainerFinished):
                self.trainers.discard(change.trainer_id)
        if self.trainers and self.empty_since_s is not None:
            self.gaps.append((self.empty_since_s, event.at_s))
            self.empty_since_s = None
        elif not self.trainers and self.empty_since_s is None:
            self.empty_since_s = event.at_s
        self.last_s = event.at_s

    def _change_pool(self, event: Event, change: PoolChanged) -> None:
        """Add the joined nodes that are new to the pool, and remove the left nodes that it has."""
        joined = frozenset(change.joined - self.nodes)
        left = frozenset(change.left & self.nodes)
        self.nodes |= joined
        self.nodes -= left
        effective = PoolChanged(joined, left)
        self.changes.append(PoolEvent(event.at_s, effective, event.all_joined))

    def window(self, end_s: float) -> LogWindow | None:
        """Return the window from the first change to ``end_s``; None if there is no change before
        that.
        """
        if not self.changes or self.changes[0].at_s >= end_s:
            return None
        gaps = list(self.gaps)
        if self.empty_since_s is not None:
            gaps.append((self.empty_since_s, end_s))
        start_s = self.changes[0].at_s
        all_nodes = frozenset[str]().union(*(event.change.joined for event in self.changes))
        return LogWindow(
            start_s=start_s,
            end_s=end_s,
            initial=frozenset(),
            events=tuple(self.changes),
            machine_nodes=len(all_nodes),
            source="the pilot's journal",
            gaps=tuple(union(spans_within(gaps, start_s, end_s))),
        )
