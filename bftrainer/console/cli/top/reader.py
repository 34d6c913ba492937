"""Reads a state directory for ``bftrainer top``: short queries by row number, for new rows only."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bftrainer.console.cli.decision_text import describe_decision
from bftrainer.console.client.state_dir import pilot_has_ended
from bftrainer.decide.domain.events import PoolChanged
from bftrainer.decide.estimation.update import known_rates
from bftrainer.pilot.persistence.journal import JournalEntry, entries, last_state
from bftrainer.pilot.persistence.registry import Note, Registry, TrainerRecord
from bftrainer.pilot.persistence.spool import Spool, open_state_dir
from bftrainer.pilot.persistence.store import DB_NAME, Holder, Store, open_store
from bftrainer.system.processes import is_alive

DECISIONS = 120
"""At most this many of the latest decisions are read at once; the screen does not show older
ones.
"""
NOTES = 100


@dataclass(frozen=True, slots=True)
class DecisionLine:
    """One decision: the sizes of the pool and of the allocation, and a line of text."""

    at_s: float
    pool: int
    used: int
    text: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a state directory holds at one time.

    ``decisions`` and ``notes`` are new since the last snapshot, oldest first. ``trainers`` have not
    ended, or have ended since the first snapshot. ``nodes``, ``estimates`` (samples/s) and
    ``queue`` belong to the last decision. ``held`` and ``pending`` are numbers of fragments.
    ``requests`` (kind, trainer) have not been read by a pilot. ``pilot`` holds the lease;
    ``is_alive`` is whether its process runs (None: on another host).
    """

    at_s: float
    pilot: Holder | None = None
    is_alive: bool | None = None
    trainers: tuple[TrainerRecord, ...] = ()
    nodes: Mapping[str, int] = field(default_factory=dict)
    estimates: Mapping[str, float] = field(default_factory=dict)
    queue: tuple[str, ...] = ()
    held: int = 0
    pending: int = 0
    decisions: tuple[DecisionLine, ...] = ()
    notes: tuple[Note, ...] = ()
    requests: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class _Allocation:
    """The allocation after a decision: the number of nodes and the estimated samples/s of each
    trainer, and the trainers in the queue, in its order.
    """

    nodes: Mapping[str, int] = field(default_factory=dict)
    estimates: Mapping[str, float] = field(default_factory=dict)
    queue: tuple[str, ...] = ()


class Reader:
    """Reads one state directory repeatedly. Nothing stays locked between two snapshots."""

    def __init__(self, state: Path, now_s: Callable[[], float]) -> None:
        self.state = open_state_dir(state)
        self.now_s = now_s
        self._store: Store | None = None  # from the first snapshot that finds a database
        self._spool = Spool(self.state)
        # Row numbers in the database: the oldest trainer that is read (0 before the first
        # snapshot), and the latest note and decision that were read.
        self._oldest_trainer = 0
        self._latest_note = 0
        self._latest_decision = 0
        self._allocation = _Allocation()

    def read_snapshot(self) -> Snapshot:
        """Read a snapshot. Raises :class:`~bftrainer.errors.StoreError` if the database cannot be
        read now; call it again later.
        """
        now_s = self.now_s()
        requests = tuple(
            (entry.request.kind.value, entry.request.trainer)
            for entry in self._spool.pending()
            if entry.request is not None
        )
        if self._store is None:
            if not (self.state / DB_NAME).exists():
                return Snapshot(now_s, requests=requests)
            self._store = open_store(self.state)
        decisions = self._read_new_decisions()
        pilot = self._store.holder()
        allocation = self._allocation
        has_ended = pilot_has_ended(self._store, now_s)
        held, pending = self._fragment_counts()
        return Snapshot(
            at_s=now_s,
            pilot=pilot,
            is_alive=self._is_alive(pilot),
            trainers=self._read_trainers(Registry(self._store)),
            nodes={} if has_ended else allocation.nodes,
            estimates=allocation.estimates,
            queue=allocation.queue,
            held=held,
            pending=pending,
            decisions=decisions,
            notes=self._read_new_notes(),
            requests=requests,
        )

    def close(self) -> None:
        """Close the database; a later snapshot opens it again."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def _is_alive(self, pilot: Holder | None) -> bool | None:
        """Whether the pilot's process runs; None without a pilot, and on another host."""
        if pilot is None or pilot.host != socket.gethostname():
            return None
        return is_alive(pilot.process)

    def _read_trainers(self, registry: Registry) -> tuple[TrainerRecord, ...]:
        """Read the trainers, from the oldest that had not ended at the first call."""
        records = registry.trainers_from(self._oldest_trainer)
        if self._oldest_trainer:
            return records
        open_numbers = [record.number for record in records if not record.status.is_final]
        newest = records[-1].number if records else 0
        self._oldest_trainer = min(open_numbers, default=newest + 1)
        return tuple(record for record in records if record.number >= self._oldest_trainer)

    def _fragment_counts(self) -> tuple[int, int]:
        """Return the numbers of fragments that are held, and that are requested but not held."""
        assert self._store is not None
        query = (
            "SELECT count(*) AS n, count(taken_s) AS taken FROM fragments WHERE released_s IS NULL"
        )
        (row,) = self._store.read(query)
        return int(row["taken"]), int(row["n"] - row["taken"])

    def _read_new_notes(self) -> tuple[Note, ...]:
        """Read the notes that are new since the last call."""
        assert self._store is not None
        query = (
            "SELECT * FROM (SELECT * FROM notes WHERE number > ? ORDER BY number DESC "
            "LIMIT ?) ORDER BY number"
        )
        rows = self._store.read(query, self._latest_note, NOTES)
        if rows:
            self._latest_note = rows[-1]["number"]
        return tuple(Note(row["at_s"], row["kind"], row["subject"], row["text"]) for row in rows)

    def _read_new_decisions(self) -> tuple[DecisionLine, ...]:
        """Read the decisions that are new in the journal since the last call, and keep the
        allocation after the last one.
        """
        assert self._store is not None
        rows = self._store.read("SELECT journal FROM last_state")
        newest = int(rows[0]["journal"]) if rows else 0
        if newest == self._latest_decision:
            return ()
        state = last_state(self._store)
        assert state is not None
        self._allocation = _Allocation(
            nodes={active.trainer.id: len(active.nodes) for active in state.active},
            estimates=known_rates(state),
            queue=tuple(trainer.id for trainer in state.queue),
        )
        first_number = max(self._latest_decision, newest - DECISIONS)
        journal = list(entries(self._store, after=first_number))
        self._latest_decision = journal[-1].number if journal else newest
        return _decision_lines(journal, len(state.pool))


def _decision_lines(journal: list[JournalEntry], final_pool_size: int) -> tuple[DecisionLine, ...]:
    """Return the lines of decisions with the pool's size at each.

    The journal has only changes of the pool, so its sizes are counted back from that after the last
    decision.
    """
    lines: list[DecisionLine] = []
    pool_size = final_pool_size
    for entry in reversed(journal):
        line = DecisionLine(
            at_s=entry.event.at_s,
            pool=pool_size,
            used=sum(entry.plan.decision.counts),
            text=describe_decision(entry.event, entry.plan, entry.took_s),
        )
        lines.append(line)
        for change in entry.event.changes:
            if isinstance(change, PoolChanged):
                pool_size += len(change.left) - len(change.joined)
    return tuple(reversed(lines))
