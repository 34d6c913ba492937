"""What ``bftrainer top`` reads of a state directory: short queries, by row number, only what is new since the last look."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bftrainer.cli.watch import described
from bftrainer.domain.events import PoolChanged
from bftrainer.domain.state import State
from bftrainer.persistence.journal import JournalEntry, entries, last_state
from bftrainer.persistence.registry import Registry, TrainerRecord
from bftrainer.persistence.spool import Spool, open_state_dir
from bftrainer.persistence.store import DB_NAME, Holder, Store, open_store
from bftrainer.system.processes import is_alive

DECISIONS = 120
"""So many of the latest decisions are read at once, at most: of those before, the screen shows nothing."""
NOTES = 100


@dataclass(frozen=True, slots=True)
class Decided:
    """One decision: the pool, the nodes that it gave, and a line about it."""

    at_s: float
    pool: int
    given: int
    text: str


@dataclass(frozen=True, slots=True)
class Noted:
    """Something else that happened."""

    at_s: float
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One look at a state directory. ``decisions`` and ``notes`` are new since the last look, oldest first.

    ``trainers`` are all that have not ended, and those that have since the first look; ``nodes`` and ``believed`` (samples/s)
    are by the last decision, ``queue`` its queue. ``held`` fragments are there, ``pending`` ones asked for. ``orders`` are
    what the pilot has not read yet: (kind, trainer). ``pilot`` is who holds the lease; ``is_alive`` whether that process
    runs (None: it is on another host).
    """

    at_s: float
    pilot: Holder | None = None
    is_alive: bool | None = None
    trainers: tuple[TrainerRecord, ...] = ()
    nodes: Mapping[str, int] = field(default_factory=dict)
    believed: Mapping[str, float] = field(default_factory=dict)
    queue: tuple[str, ...] = ()
    held: int = 0
    pending: int = 0
    decisions: tuple[Decided, ...] = ()
    notes: tuple[Noted, ...] = ()
    orders: tuple[tuple[str, str], ...] = ()


class Reader:
    """Reads one state directory again and again. Nothing is locked between two looks."""

    def __init__(self, state: Path, now_s: Callable[[], float]) -> None:
        self.state = open_state_dir(state)
        self._now_s = now_s
        self._store: Store | None = None
        self._spool = Spool(self.state)
        self._first_open = 0
        self._note = 0
        self._decision = 0
        self._shares: tuple[dict[str, int], dict[str, float], tuple[str, ...]] = ({}, {}, ())

    def look(self) -> Snapshot:
        """The directory as of now. Raises :class:`~bftrainer.errors.StoreError` where it cannot be read just now."""
        now_s = self._now_s()
        orders = tuple(
            (r.request.kind.value, r.request.trainer) for r in self._spool.pending() if r.request is not None
        )
        if self._store is None:
            if not (self.state / DB_NAME).exists():
                return Snapshot(now_s, orders=orders)
            self._store = open_store(self.state)
        registry = Registry(self._store)
        decisions = self._decisions()
        nodes, believed, queue = self._shares
        pilot = self._store.holder()
        held, pending = self._fragments()
        return Snapshot(
            now_s, pilot, self._is_alive(pilot), self._trainers(registry), nodes, believed, queue, held, pending, decisions,
            self._notes(), orders,
        )  # fmt: skip

    def close(self) -> None:
        """Let the database go."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def _is_alive(self, pilot: Holder | None) -> bool | None:
        return is_alive(pilot.process) if pilot is not None and pilot.host == socket.gethostname() else None

    def _trainers(self, registry: Registry) -> tuple[TrainerRecord, ...]:
        found = registry.trainers_from(self._first_open)
        if not self._first_open:  # the first look: those that have ended before are history
            still_open = [record.number for record in found if not record.status.is_final]
            newest = found[-1].number if found else 0
            self._first_open = min(still_open, default=newest + 1)
            found = tuple(record for record in found if record.number >= self._first_open)
        return found

    def _fragments(self) -> tuple[int, int]:
        assert self._store is not None
        query = "SELECT count(*) AS n, count(taken_s) AS taken FROM fragments WHERE released_s IS NULL"
        (row,) = self._store.read(query)
        return int(row["taken"]), int(row["n"] - row["taken"])

    def _notes(self) -> tuple[Noted, ...]:
        assert self._store is not None
        query = "SELECT * FROM (SELECT * FROM notes WHERE number > ? ORDER BY number DESC LIMIT ?) ORDER BY number"
        rows = self._store.read(query, self._note, NOTES)
        self._note = rows[-1]["number"] if rows else self._note
        told = ((r["at_s"], r["kind"], f"{r['subject']}: {r['text']}" if r["subject"] else r["text"]) for r in rows)
        return tuple(Noted(*one) for one in told)

    def _decisions(self) -> tuple[Decided, ...]:
        """New rows of the journal. The pool's size is in none of them: it is counted back from the state after the last."""
        assert self._store is not None
        rows = self._store.read("SELECT journal FROM last_state")
        newest = int(rows[0]["journal"]) if rows else 0
        if newest == self._decision:
            return ()
        state = last_state(self._store)
        assert state is not None
        self._shares = _shares(state)
        found = list(entries(self._store, after=max(self._decision, newest - DECISIONS)))
        self._decision = found[-1].number if found else newest
        return _with_pools(found, len(state.pool))


def _shares(state: State) -> tuple[dict[str, int], dict[str, float], tuple[str, ...]]:
    nodes = {a.trainer.id: len(a.nodes) for a in state.active}
    believed = {a.trainer.id: a.trainer.curve.at(len(a.nodes)) for a in state.active if a.nodes}
    return nodes, believed, tuple(trainer.id for trainer in state.queue)


def _with_pools(found: list[JournalEntry], pool: int) -> tuple[Decided, ...]:
    decided: list[Decided] = []
    for entry in reversed(found):
        given = sum(entry.plan.decision.counts)
        decided.append(Decided(entry.event.at_s, pool, given, described(entry.event, entry.plan, entry.took_s)))
        for change in entry.event.changes:
            if isinstance(change, PoolChanged):
                pool += len(change.left) - len(change.joined)
    return tuple(reversed(decided))
