"""What a pilot has: its unfinished trainers, with what is left of each and the curves and costs
that are known now, and the pool of its journal.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from bftrainer.console.client.state_dir import (
    has_registry,
    opened_registry,
    pending_submissions,
    read,
)
from bftrainer.decide.domain.events import PoolChanged, TrainerFinished, TrainerSubmitted
from bftrainer.decide.domain.model import Trainer
from bftrainer.decide.domain.state import State
from bftrainer.decide.estimation.update import key_of
from bftrainer.errors import UserError
from bftrainer.pilot.persistence.journal import begun_s, events, last_state
from bftrainer.pilot.persistence.registry import TrainerRecord
from bftrainer.pilot.persistence.store import Store
from bftrainer.pilot.trainers.for_core import due, for_core
from bftrainer_replay.logs.model import LogWindow, PoolEvent, union, within
from bftrainer_replay.simulation.replay_world import Arrival


def unfinished_trainers(
    state: Path, group: str | None, at_s: float
) -> tuple[tuple[Arrival, ...], tuple[str, ...]]:
    """The trainers of :func:`queue_of`, submitted at ``at_s`` in their order; and the names of
    those whose length or speed is unknown, which are left out. Raises
    :class:`~bftrainer.errors.UserError` if none is left.
    """
    queue = [it for it in queue_of(state) if group in (None, it.group)]
    arrivals = tuple(Arrival(at_s, it.trainer) for it in queue if not it.lacks)
    if not arrivals:
        whose = f"of group {group!r} " if group is not None else ""
        raise UserError(
            f"{state}: no trainer {whose}with a known length (samples_total) is unfinished"
        )
    return arrivals, tuple(it.trainer.id for it in queue if it.lacks)


class Queued(NamedTuple):
    """An unfinished trainer with what is left of it. ``lacks``: what its end depends on and is not
    known.
    """

    trainer: Trainer
    group: str | None
    lacks: str


def queue_of(state: Path) -> tuple[Queued, ...]:
    """All that trains or waits, in the order of the decisions, also what no pilot has read yet;
    without pools that fill.

    A trainer whose end is not known takes its nodes for good.
    """
    pending = {it.trainer: it.spec for it in pending_submissions(state) if it.spec is not None}
    found: State | None = None
    records: tuple[TrainerRecord, ...] = ()
    if has_registry(state):
        with opened_registry(state) as registry:
            found, records = last_state(registry.store), registry.trainers()
    known = (
        {}
        if found is None
        else {t.id: t for t in (*(a.trainer for a in found.active), *found.queue)}
    )
    measured = (
        frozenset(key for key, it in found.measurements if it.points) if found else frozenset()
    )
    core, learning = due(records, frozenset()), read(state).learning
    queue = []
    for name in (*(n for n in known if n in core), *(n for n in core if n not in known)):
        record, trainer = core[name], known.get(name) or for_core(core[name], learning)
        queue.append(_queued(trainer, record.spec.group, record.samples_done, measured))
    registered = {record.name for record in records}
    for name, spec in pending.items():
        if name not in registered:
            queue.append(
                _queued(spec.trainer(), spec.group, 0.0, frozenset() if spec.is_blank else None)
            )
    return tuple(it for it in queue if not it.trainer.fill)


def _queued(
    trainer: Trainer, group: str | None, done: float, measured: frozenset[str] | None
) -> Queued:
    """``measured``: keys of curves that have been measured; None: its curve needs none."""
    blank = trainer.learning.blank if trainer.learning is not None else measured is not None
    lacks = ""
    if trainer.samples_total is None:
        lacks = "its length is unknown (samples_total)"
    elif (
        measured is not None
        and blank
        and (trainer.learning is None or key_of(trainer) not in measured)
    ):
        lacks = "its speed is not measured yet"
    left = (
        None if lacks or trainer.samples_total is None else max(trainer.samples_total - done, 1e-9)
    )
    return Queued(
        replace(trainer, samples_total=left, learning=None, node_class=None), group, lacks
    )


def pool_of(store: Store, end_s: float) -> LogWindow | None:
    """The pool of the journal up to now; None if it is empty. Times without a trainer, when a pilot
    lets its nodes go, and those between two pilots are gaps.
    """
    changes: list[PoolEvent] = []
    gaps: list[tuple[float, float]] = []
    pool: set[str] = set()
    trainers: set[str] = set()
    idle_s, last_s, begins = None, None, list(begun_s(store))
    for event in events(store):
        while begins and begins[0] <= event.at_s:
            begin_s = begins.pop(0)
            if last_s is not None and begin_s > last_s:
                gaps.append((last_s, begin_s))
        for change in event.changes:
            if isinstance(change, PoolChanged):
                joined, left = frozenset(change.joined - pool), frozenset(change.left & pool)
                pool |= joined
                pool -= left
                changes.append(PoolEvent(event.at_s, PoolChanged(joined, left), event.all_joined))
            elif isinstance(change, TrainerSubmitted):
                trainers.add(change.trainer.id)
            elif isinstance(change, TrainerFinished):
                trainers.discard(change.trainer_id)
        if trainers and idle_s is not None:
            gaps.append((idle_s, event.at_s))
        idle_s = None if trainers else event.at_s if idle_s is None else idle_s
        last_s = event.at_s
    if not changes or changes[0].at_s >= end_s:
        return None
    if idle_s is not None:
        gaps.append((idle_s, end_s))
    start_s, nodes = changes[0].at_s, {node for it in changes for node in it.change.joined}
    known = tuple(union(within(gaps, start_s, end_s)))
    return LogWindow(
        start_s, end_s, frozenset(), tuple(changes), len(nodes), "the pilot's journal", gaps=known
    )
