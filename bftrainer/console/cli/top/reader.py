"""Reads a state directory for ``bftrainer top``: short queries by row number, for new rows only."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bftrainer.console.cli.decision_text import describe_decision
from bftrainer.console.client.state_dir import pilot_has_ended
from bftrainer.decide.domain.events import PoolChanged
from bftrainer.decide.domain.state import State
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


class Reader:
    """Reads one state directory repeatedly. Nothing stays locked between two snapshots."""

    def __init__(self, state: Path, now_s: Callable[[], float]) -> None:
        self.state = open_state_dir(state)
        self.now_s = now_s
        self._store: Store | None = None
        self._spool = Spool(self.state)
        self._first_open = 0
        self._note = 0
        self._decision = 0
        self._shares: tuple[dict[str, int], dict[str, float], tuple[str, ...]] = ({}, {}, ())

    def look(self) -> Snapshot:
        """Take a snapshot. Raises :class:`~bftrainer.errors.StoreError` if the database cannot be
        read now; call it again later.
        """
        now_s = self.now_s()
        requests = tuple(
            (r.request.kind.value, r.request.trainer)
            for r in self._spool.pending()
            if r.request is not None
        )
        if self._store is None:
            if not (self.state / DB_NAME).exists():
                return Snapshot(now_s, requests=requests)
            self._store = open_store(self.state)
        registry = Registry(self._store)
        decisions = self._decisions()
        nodes, estimates, queue = self._shares
        pilot = self._store.holder()
        if pilot_has_ended(self._store, now_s):
            nodes = {}
        held, pending = self._fragments()
        return Snapshot(
            now_s,
            pilot,
            self._is_alive(pilot),
            self._trainers(registry),
            nodes,
            estimates,
            queue,
            held,
            pending,
            decisions,
            self._notes(),
            requests,
        )

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def _is_alive(self, pilot: Holder | None) -> bool | None:
        return (
            is_alive(pilot.process)
            if pilot is not None and pilot.host == socket.gethostname()
            else None
        )

    def _trainers(self, registry: Registry) -> tuple[TrainerRecord, ...]:
        """Read the trainers, from the oldest that had not ended at the first call."""
        records = registry.trainers_from(self._first_open)
        if not self._first_open:  # the first snapshot leaves out trainers that have ended
            still_open = [record.number for record in records if not record.status.is_final]
            newest = records[-1].number if records else 0
            self._first_open = min(still_open, default=newest + 1)
            records = tuple(record for record in records if record.number >= self._first_open)
        return records

    def _fragments(self) -> tuple[int, int]:
        assert self._store is not None
        query = (
            "SELECT count(*) AS n, count(taken_s) AS taken FROM fragments WHERE released_s IS NULL"
        )
        (row,) = self._store.read(query)
        return int(row["taken"]), int(row["n"] - row["taken"])

    def _notes(self) -> tuple[Note, ...]:
        """Read the notes that are new since the last call."""
        assert self._store is not None
        query = (
            "SELECT * FROM (SELECT * FROM notes WHERE number > ? ORDER BY number DESC "
            "LIMIT ?) ORDER BY number"
        )
        rows = self._store.read(query, self._note, NOTES)
        self._note = rows[-1]["number"] if rows else self._note
        return tuple(Note(r["at_s"], r["kind"], r["subject"], r["text"]) for r in rows)

    def _decisions(self) -> tuple[DecisionLine, ...]:
        """Read the decisions that are new in the journal since the last call.

        The journal does not have the pool's size: it is counted back from the state after the last
        decision.
        """
        assert self._store is not None
        rows = self._store.read("SELECT journal FROM last_state")
        newest = int(rows[0]["journal"]) if rows else 0
        if newest == self._decision:
            return ()
        state = last_state(self._store)
        assert state is not None
        self._shares = _shares(state)
        journal = list(entries(self._store, after=max(self._decision, newest - DECISIONS)))
        self._decision = journal[-1].number if journal else newest
        return _with_pools(journal, len(state.pool))


def _shares(state: State) -> tuple[dict[str, int], dict[str, float], tuple[str, ...]]:
    nodes = {a.trainer.id: len(a.nodes) for a in state.active}
    return nodes, known_rates(state), tuple(trainer.id for trainer in state.queue)


def _with_pools(journal: list[JournalEntry], pool: int) -> tuple[DecisionLine, ...]:
    """Return the lines of decisions with the pool's size at each; ``pool`` is the size after the
    last.
    """
    decided: list[DecisionLine] = []
    for entry in reversed(journal):
        used = sum(entry.plan.decision.counts)
        decided.append(
            DecisionLine(
                entry.event.at_s,
                pool,
                used,
                describe_decision(entry.event, entry.plan, entry.took_s),
            )
        )
        for change in entry.event.changes:
            if isinstance(change, PoolChanged):
                pool += len(change.left) - len(change.joined)
    return tuple(reversed(decided))
