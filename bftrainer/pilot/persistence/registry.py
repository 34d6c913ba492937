"""The registry of trainers and the audit of fragments, read from the store. Times are those of the
host's clock.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from operator import itemgetter
from typing import Any

from pydantic import ValidationError

from bftrainer.config.trainer_file import TrainerSpec
from bftrainer.decide.domain.node_stages import NodeStage
from bftrainer.errors import StoreError, UserError
from bftrainer.pilot.persistence.store import Store
from bftrainer.times import HostS
from bftrainer.wires.bounds import MAX_SAMPLES
from bftrainer.wires.metrics import Metric


class TrainerStatus(Enum):
    """The status of a trainer: queued -> admitted (waiting, running or paused) -> done, failed or
    canceled.
    """

    QUEUED = "queued"
    WAITING = "waiting"
    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def is_final(self) -> bool:
        """Whether the trainer has ended for good."""
        return self in (TrainerStatus.DONE, TrainerStatus.FAILED, TrainerStatus.CANCELED)


@dataclass(frozen=True, slots=True)
class TrainerRecord:
    """A row of the registry. ``*_node_s`` are node-seconds; ``repeated_samples`` were processed
    again after a restart.

    ``unfit``: sizes, from the least to the most nodes, at which its memory did not suffice.
    ``reported_total``: samples of the whole training, as its script has reported them last.
    """

    number: int
    spec: TrainerSpec
    owner: str
    status: TrainerStatus
    reason: str
    submitted_s: HostS
    admitted_s: HostS | None
    started_s: HostS | None
    finished_s: HostS | None
    samples_done: float
    failures: int
    samples_at_failure: float | None
    not_before_s: HostS
    ended_incarnation: int
    held_node_s: float
    trained_node_s: float
    stalled_node_s: float
    repeated_samples: float
    unfit: tuple[tuple[int, int], ...] = ()
    reported_total: float | None = None

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def samples_total(self) -> float | None:
        """Samples of the whole training: as submitted, else as its script reports them; None if
        neither is known.
        """
        return self.reported_total if self.spec.samples_total is None else self.spec.samples_total

    @property
    def repeated_node_s(self) -> float:
        """The part of ``trained_node_s`` that went into samples processed again, at the trainer's
        mean speed.
        """
        return (
            self.trained_node_s
            * self.repeated_samples
            / max(self.samples_done + self.repeated_samples, 1e-9)
        )


@dataclass(frozen=True, slots=True)
class Submission:
    """A trainer to be registered, and the name of its spool file."""

    spec: TrainerSpec
    owner: str
    spool_name: str


@dataclass(frozen=True, slots=True)
class FragmentRecord:
    """A row of the audit: one holder on one node, from request to release. Times that have not come
    yet are None.
    """

    name: str
    """The fragment, ``node#id``."""
    node: str
    asked_s: HostS
    """When the pilot decided to hold the node (``NodeStage.DECIDED``)."""
    taken_s: HostS | None
    """When the fragment came to the pool (``NodeStage.OFFERED``)."""
    asked_back_s: HostS | None
    """When it was preempted, or the pilot decided to release it (``NodeStage.NOTICE``)."""
    released_s: HostS | None
    """When the pilot saw that the holder job was over (``NodeStage.RELEASED``)."""
    reason: str
    """Why it was preempted or released; empty before."""


@dataclass(frozen=True, slots=True)
class StageReached:
    """A fragment (held node) has reached a stage, from idle to training or back, for which the
    table of fragments has no column.

    ``trainer`` is the one that it concerns; empty if there is none.
    """

    fragment: str
    stage: NodeStage
    at_s: HostS
    trainer: str = ""


@dataclass(frozen=True, slots=True)
class Rung:
    """The ``value`` that a trainer of a ``group`` had reported when it came to the number of
    ``samples`` at which an early-stopping ``rule`` compares trainers.
    """

    group: str
    rule: str
    samples: float
    trainer: str
    value: float


@dataclass(frozen=True, slots=True)
class Note:
    """A line of the event log: an event other than a decision."""

    at_s: HostS
    kind: str
    subject: str
    text: str

    @property
    def line(self) -> str:
        """The text, with what it is about."""
        return f"{self.subject}: {self.text}" if self.subject else self.text


@dataclass(frozen=True, slots=True)
class Usage:
    """Node-seconds of a trainer since the last usage record, its samples in total, metrics that
    have changed, and new ``repeated_samples``.
    """

    name: str
    samples_done: float
    held_node_s: float = 0.0
    trained_node_s: float = 0.0
    stalled_node_s: float = 0.0
    metrics: tuple[Metric, ...] = ()
    repeated_samples: float = 0.0


_UNFIT = (
    "(SELECT json_group_array(json_array(least_nodes, most_nodes)) FROM unfit WHERE trainer = name)"
)


class Registry:
    """Reads over a :class:`Store`."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def trainers(self) -> tuple[TrainerRecord, ...]:
        """All trainers in the order of submission."""
        return self._trainer_records("")

    def trainers_from(self, number: int) -> tuple[TrainerRecord, ...]:
        """Return the trainers from this number on, so that a frequent reader need not read
        thousands that have ended.
        """
        return self._trainer_records("WHERE number >= ?", number)

    def named(self, names: Sequence[str]) -> tuple[TrainerRecord, ...]:
        """Return the trainers with these names that exist, in the order of submission."""
        return self._trainer_records(
            "WHERE name IN (SELECT value FROM json_each(?))", json.dumps(list(names))
        )

    def trainer(self, name: str) -> TrainerRecord:
        """Return a trainer by name. Raises :class:`UserError` for an unknown one."""
        for record in self._trainer_records("WHERE name = ?", name):
            return record
        raise UserError(f"no training named {name!r}; see `bftrainer list --all`")

    def _trainer_records(self, where: str, *values: object) -> tuple[TrainerRecord, ...]:
        query = f"SELECT *, {_UNFIT} AS unfit FROM trainers {where} ORDER BY number"  # noqa: S608  # ours
        return tuple(_trainer_record(row) for row in self.store.read(query, *values))

    def submissions(self) -> dict[str, str]:
        """The spool name of each trainer's submission."""
        return {
            row["name"]: row["spool_name"]
            for row in self.store.read("SELECT name, spool_name FROM trainers")
        }

    def metrics(self, trainer: str | None = None) -> dict[str, tuple[Metric, ...]]:
        """Return the metrics that each trainer has reported, by its name, or only those of one
        ``trainer``: the last, the least and the most value.
        """
        where: str = ""
        values: tuple[str, ...] = ()
        if trainer is not None:
            where, values = "WHERE trainer = ?", (trainer,)
        metrics: dict[str, tuple[Metric, ...]] = {}
        for r in self.store.read(f"SELECT * FROM metrics {where} ORDER BY trainer, name", *values):  # noqa: S608  # ours
            metric = Metric(
                r["name"], r["last"], r["least"], r["least_samples"], r["most"], r["most_samples"]
            )
            metrics[r["trainer"]] = (*metrics.get(r["trainer"], ()), metric)
        return metrics

    def rungs(self) -> tuple[Rung, ...]:
        """The rungs of all rules."""
        return tuple(Rung(*row) for row in self.store.read("SELECT * FROM rungs"))

    def was_carried_out(self, spool_name: str) -> bool:
        return bool(self.store.read("SELECT 1 FROM commands WHERE spool_name = ?", spool_name))

    def fragments(
        self, *, open_only: bool = False, last: int = 1_000_000
    ) -> tuple[FragmentRecord, ...]:
        """Return the ``last`` latest rows about fragments (held nodes), oldest first.
        ``open_only``: only of fragments that are not released.
        """
        source = "fragments WHERE released_s IS NULL" if open_only else "fragments"
        rows = self._latest_rows(source, last)
        columns = itemgetter(*FragmentRecord.__dataclass_fields__)
        return tuple(FragmentRecord(*columns(row)) for row in rows)

    def notes(self, last: int = 100, subject: str | None = None) -> tuple[Note, ...]:
        """Return the ``last`` latest notes, oldest first. With ``subject``, only those about it."""
        if subject is None:
            rows = self._latest_rows("notes", last)
        else:
            rows = self._latest_rows("notes WHERE subject = ?", subject, last)
        return tuple(Note(row["at_s"], row["kind"], row["subject"], row["text"]) for row in rows)

    def last_note(self, kinds: tuple[str, ...], at_s: float = math.inf) -> Note | None:
        """Return the latest note of some ``kinds`` at or before ``at_s``; None if there is none."""
        marks = ", ".join("?" * len(kinds))
        where = f"notes WHERE kind IN ({marks}) AND at_s <= ?"
        rows = self._latest_rows(where, *kinds, min(at_s, _END_S), 1)
        notes = [Note(row["at_s"], row["kind"], row["subject"], row["text"]) for row in rows]
        return notes[0] if notes else None

    def _latest_rows(self, source: str, *values: object) -> list[sqlite3.Row]:
        """Return the last rows of a table, oldest first.

        ``source`` is the table, with a condition if need be; ``values`` are those of the condition,
        then the number of rows.
        """
        query = (
            f"SELECT * FROM (SELECT * FROM {source} ORDER BY number DESC LIMIT ?) ORDER BY number"  # noqa: S608  # ours
        )
        return self.store.read(query, *values)


_END_S = 1e18
"""A time after all notes."""


@lru_cache(maxsize=1024)  # frozen, and read again at every submission
def _parsed_spec(text: str) -> TrainerSpec:
    return TrainerSpec.model_validate_json(text)


def _trainer_record(row: object) -> TrainerRecord:
    """Return the record of a row of the table ``trainers``. Raises :class:`StoreError` for an
    unknown status.

    A trainer whose submission this version does not accept counts as failed, unless it has ended;
    its ``spec`` then is a stand-in with its name.
    """
    r: dict[str, Any] = dict(row)  # type: ignore[call-overload]  # a Row is a mapping in all but name
    r["unfit"] = tuple((smallest, largest) for smallest, largest in json.loads(r["unfit"]))
    # A database that comes from elsewhere may contain any number.
    r["samples_done"] = _bounded_samples(r["samples_done"]) or 0.0
    r["samples_at_failure"] = _bounded_samples(r["samples_at_failure"])
    try:
        r["status"] = TrainerStatus(r["status"])
    except ValueError as error:
        raise StoreError(
            f"trainer {r['name'][:60]!r} has the unknown status {r['status'][:40]!r}: damaged"
        ) from error
    try:
        r["spec"] = _parsed_spec(r["spec"])
    except ValidationError as error:
        first = error.errors()[0]
        problem = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        # Not validated; its command is never run, as the trainer is over.
        r["spec"] = TrainerSpec.model_construct(name=r["name"], command=("false",), max_nodes=1)
        if not r["status"].is_final:
            r |= {
                "status": TrainerStatus.FAILED,
                "reason": f"this version does not accept its submission: {problem}",
            }
    return TrainerRecord(**{name: r[name] for name in TrainerRecord.__dataclass_fields__})


def _bounded_samples(value: float | None) -> float | None:
    """Return a number of samples; None if it is outside of the bounds, or NaN."""
    return value if value is not None and 0 <= value <= MAX_SAMPLES else None
