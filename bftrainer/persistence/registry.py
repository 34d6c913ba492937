"""The registry of trainers and the audit of fragments, in the store. Every change is one transaction."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from bftrainer.config.trainer_file import TrainerSpec
from bftrainer.domain.node_stages import NodeStage
from bftrainer.errors import StoreError, UserError
from bftrainer.persistence.stages import StageReached, add_stages
from bftrainer.persistence.store import Store
from bftrainer.protocol.bounds import MAX_SAMPLES
from bftrainer.protocol.metrics import Metric
from bftrainer.protocol.worker_times import TrainingTimes


class TrainerStatus(Enum):
    """queued -> admitted (waiting or running, or paused) -> done, failed or cancelled."""

    QUEUED = "queued"
    WAITING = "waiting"
    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """Whether the trainer has ended for good."""
        return self in (TrainerStatus.DONE, TrainerStatus.FAILED, TrainerStatus.CANCELLED)


@dataclass(frozen=True, slots=True)
class TrainerRecord:
    """A row of the registry. ``*_node_s`` are node-seconds; ``repeated_samples`` were processed again after a restart."""

    number: int
    spec: TrainerSpec
    owner: str
    status: TrainerStatus
    reason: str
    submitted_s: float
    admitted_s: float | None
    started_s: float | None
    finished_s: float | None
    samples_done: float
    failures: int
    samples_at_failure: float | None
    not_before_s: float
    ended_incarnation: int
    held_node_s: float
    trained_node_s: float
    stalled_node_s: float
    repeated_samples: float

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def repeated_node_s(self) -> float:
        """The part of ``trained_node_s`` that went into samples processed again, at the trainer's mean speed."""
        return self.trained_node_s * self.repeated_samples / max(self.samples_done + self.repeated_samples, 1e-9)


@dataclass(frozen=True, slots=True)
class Submission:
    """A trainer to be registered, and the name of its spool file."""

    spec: TrainerSpec
    owner: str
    spool_name: str


@dataclass(frozen=True, slots=True)
class FragmentRecord:
    """A row of the audit: one holder on one node, from request to release."""

    name: str
    node: str
    asked_s: float
    taken_s: float | None
    asked_back_s: float | None
    released_s: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class Note:
    """An event other than a decision."""

    at_s: float
    kind: str
    subject: str
    text: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Node-seconds of a trainer since the last usage record, its samples in total, metrics that have changed, and new
    ``repeated_samples``."""

    name: str
    samples_done: float
    held_node_s: float = 0.0
    trained_node_s: float = 0.0
    stalled_node_s: float = 0.0
    metrics: tuple[Metric, ...] = ()
    repeated_samples: float = 0.0


_ADD_METRIC = (
    "INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (trainer, name) DO UPDATE SET last = excluded.last, "
    # A pilot that starts again has read the latest lines only: what was reached before stays.
    "least_samples = CASE WHEN excluded.least < least THEN excluded.least_samples ELSE least_samples END, "
    "least = min(least, excluded.least), "
    "most_samples = CASE WHEN excluded.most > most THEN excluded.most_samples ELSE most_samples END, "
    "most = max(most, excluded.most)"
)
_ADD_REPEATED = (
    "INSERT INTO repeated VALUES (?, ?) ON CONFLICT (trainer) "
    "DO UPDATE SET repeated_samples = repeated_samples + excluded.repeated_samples"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerChange:
    """New values for columns of one trainer; None leaves a column as it is."""

    status: TrainerStatus | None = None
    reason: str | None = None
    admitted_s: float | None = None
    started_s: float | None = None
    finished_s: float | None = None
    samples_done: float | None = None
    failures: int | None = None
    samples_at_failure: float | None = None
    not_before_s: float | None = None
    ended_incarnation: int | None = None

    def columns(self) -> dict[str, Any]:
        """The columns that change."""
        found = {column.name: getattr(self, column.name) for column in fields(self)}
        return {name: value for name, value in found.items() if value is not None}


class Registry:
    """Reads and writes over a :class:`Store`."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def trainers(self) -> tuple[TrainerRecord, ...]:
        """All trainers in the order of submission."""
        return self._trainers("")

    def trainers_from(self, number: int) -> tuple[TrainerRecord, ...]:
        """Trainers from this number on, so that a frequent reader need not read thousands that have ended."""
        return self._trainers("WHERE number >= ?", number)

    def named(self, names: Sequence[str]) -> tuple[TrainerRecord, ...]:
        """Those of these trainers that are there, in the order of submission."""
        return self._trainers("WHERE name IN (SELECT value FROM json_each(?))", json.dumps(list(names)))

    def trainer(self, name: str) -> TrainerRecord:
        """A trainer by name. Raises :class:`UserError` for an unknown one."""
        for found in self._trainers("WHERE name = ?", name):
            return found
        raise UserError(f"no trainer named {name!r}; see `bftrainer list --all`")

    def _trainers(self, where: str, *values: object) -> tuple[TrainerRecord, ...]:
        repeated = "0"
        if self.store.read("SELECT 1 FROM sqlite_master WHERE name = 'repeated'"):  # else an earlier version's database
            repeated = "coalesce((SELECT repeated_samples FROM repeated WHERE trainer = name), 0)"
        query = f"SELECT *, {repeated} AS repeated_samples FROM trainers {where} ORDER BY number"  # noqa: S608  # ours
        return tuple(_trainer(row) for row in self.store.read(query, *values))

    def submissions(self) -> dict[str, str]:
        """The spool name of each trainer's submission."""
        return {row["name"]: row["spool_name"] for row in self.store.read("SELECT name, spool_name FROM trainers")}

    def metrics(self, trainer: str | None = None) -> dict[str, tuple[Metric, ...]]:
        """The metrics of each trainer that has any, or of one trainer."""
        if not self.store.read("SELECT 1 FROM sqlite_master WHERE name = 'metrics'"):
            return {}  # written by an earlier version
        where, values = ("WHERE trainer = ?", (trainer,)) if trainer is not None else ("", ())
        found: dict[str, tuple[Metric, ...]] = {}
        for r in self.store.read(f"SELECT * FROM metrics {where} ORDER BY trainer, name", *values):  # noqa: S608  # ours
            one = Metric(r["name"], r["last"], r["least"], r["least_samples"], r["most"], r["most_samples"])
            found[r["trainer"]] = (*found.get(r["trainer"], ()), one)
        return found

    def add(self, spec: TrainerSpec, owner: str, spool_name: str, at_s: float) -> bool:
        """Register a submission. False if the name is taken; the same spool file twice is one submission."""
        return self.add_all((Submission(spec, owner, spool_name),), at_s)[0]

    def add_all(self, submissions: Sequence[Submission], at_s: float) -> tuple[bool, ...]:
        """Register submissions in one commit; of each whether its name was free, or it is the same submission."""
        added = []
        with self.store.writing("submission") as db:
            for one in submissions:
                db.execute(
                    "INSERT INTO trainers (name, spec, owner, spool_name, submitted_s, status) VALUES (?, ?, ?, ?, ?, ?) "
                    "ON CONFLICT DO NOTHING",
                    (
                        one.spec.name, one.spec.model_dump_json(), one.owner, one.spool_name, at_s,
                        TrainerStatus.QUEUED.value,
                    ),
                )  # fmt: skip
                row = db.execute("SELECT spool_name FROM trainers WHERE name = ?", (one.spec.name,)).fetchone()
                added.append(row is not None and bool(row[0] == one.spool_name))
        return tuple(added)

    def change(self, name: str, change: TrainerChange) -> None:
        """Change one trainer."""
        columns = change.columns()
        sets = ", ".join(f"{column} = ?" for column in columns)
        values = [v.value if isinstance(v, Enum) else _text(v) for v in columns.values()]
        with self.store.writing("trainer") as db:
            db.execute(f"UPDATE trainers SET {sets} WHERE name = ?", (*values, name))  # noqa: S608  # field names

    def was_carried_out(self, spool_name: str) -> bool:
        return bool(self.store.read("SELECT 1 FROM commands WHERE spool_name = ?", spool_name))

    def carried_out(self, spool_name: str, at_s: float) -> None:
        """Record a command, so that it is not carried out twice."""
        with self.store.writing("command") as db:
            db.execute("INSERT OR IGNORE INTO commands VALUES (?, ?)", (spool_name, at_s))

    def add_usage(self, usage: tuple[Usage, ...], beat_s: float) -> None:
        """Write usage since the last call, and the heartbeat, in one commit."""
        with self.store.writing("usage") as db:
            for u in usage:
                db.execute(
                    "UPDATE trainers SET held_node_s = held_node_s + ?, trained_node_s = trained_node_s + ?, "
                    "stalled_node_s = stalled_node_s + ?, samples_done = ? WHERE name = ?",
                    (u.held_node_s, u.trained_node_s, u.stalled_node_s, u.samples_done, u.name),
                )
                if u.repeated_samples:
                    db.execute(_ADD_REPEATED, (u.name, u.repeated_samples))
                for m in u.metrics:
                    values = m.last, m.least, m.least_samples, m.most, m.most_samples
                    db.execute(_ADD_METRIC, (u.name, m.name, *values))
            db.execute("UPDATE lease SET heartbeat_s = ?", (beat_s,))

    def fragments(self, *, open_only: bool = False, last: int = 1_000_000) -> tuple[FragmentRecord, ...]:
        """The audit, oldest first."""
        where = "WHERE released_s IS NULL" if open_only else ""
        rows = self.store.read(
            f"SELECT * FROM (SELECT * FROM fragments {where} ORDER BY number DESC LIMIT ?) ORDER BY number",  # noqa: S608
            last,
        )
        return tuple(
            FragmentRecord(
                r["name"], r["node"], r["asked_s"], r["taken_s"], r["asked_back_s"], r["released_s"], r["reason"]
            )
            for r in rows
        )

    def fragment_asked(self, name: str, node: str, at_s: float) -> None:
        with self.store.writing("fragment asked") as db:
            db.execute("INSERT OR IGNORE INTO fragments (name, node, asked_s) VALUES (?, ?, ?)", (name, node, at_s))

    def fragment_taken(self, name: str, at_s: float) -> None:
        with self.store.writing("fragment taken") as db:
            db.execute("UPDATE fragments SET taken_s = ? WHERE name = ? AND taken_s IS NULL", (at_s, name))

    def fragment_asked_back(self, name: str, at_s: float, reason: str) -> None:
        """The scheduler preempts the fragment, or the pilot releases it."""
        with self.store.writing("fragment asked back") as db:
            db.execute(
                "UPDATE fragments SET asked_back_s = ?, reason = ? WHERE name = ? AND asked_back_s IS NULL",
                (at_s, reason, name),
            )

    def fragment_released(self, name: str, at_s: float, reason: str) -> None:
        with self.store.writing("fragment released") as db:
            db.execute(
                "UPDATE fragments SET released_s = ?1, asked_back_s = coalesce(asked_back_s, ?1), reason = CASE "
                # Only when the job is over does the scheduler say that a user has canceled it.
                "WHEN reason = '' OR (reason LIKE 'preempted%' AND ?2 LIKE 'canceled%') THEN ?2 ELSE reason END "
                "WHERE name = ?3 AND released_s IS NULL",
                (at_s, reason, name),
            )

    def fragments_reached(self, reached: Sequence[StageReached]) -> None:
        """Instants of fragments that the audit has no column for, by the host's clock."""
        if reached:
            add_stages(self.store, reached)

    def fragment_seen(self, name: str, instants: Mapping[NodeStage, float]) -> None:
        """Such instants of one fragment, by the caller's clock."""
        self.fragments_reached([StageReached(name, stage, at_s) for stage, at_s in instants.items()])

    def trainer_reported(self, name: str, was: TrainingTimes, now: TrainingTimes) -> None:
        """A driver has reported when its nodes came to train. Only a running pilot keeps count of that."""

    def note(self, at_s: float, kind: str, subject: str, text: str) -> None:
        with self.store.writing("note") as db:
            values = at_s, kind, _text(subject), _text(text)
            db.execute("INSERT INTO notes (at_s, kind, subject, text) VALUES (?, ?, ?, ?)", values)

    def notes(self, last: int = 100, subject: str | None = None) -> tuple[Note, ...]:
        """The latest notes, oldest first."""
        where, values = ("WHERE subject = ?", (subject,)) if subject is not None else ("", ())
        rows = self.store.read(
            f"SELECT * FROM (SELECT * FROM notes {where} ORDER BY number DESC LIMIT ?) ORDER BY number",  # noqa: S608
            *values,
            last,
        )
        return tuple(Note(r["at_s"], r["kind"], r["subject"], r["text"]) for r in rows)


@lru_cache(maxsize=1024)  # frozen, and read again at every submission
def _spec(text: str) -> TrainerSpec:
    return TrainerSpec.model_validate_json(text)


def _trainer(row: object) -> TrainerRecord:
    r: dict[str, Any] = dict(row)  # type: ignore[call-overload]  # a Row is a mapping in all but name
    # Earlier versions stored what scripts reported as it was.
    r["samples_done"] = _samples(r["samples_done"]) or 0.0
    r["samples_at_failure"] = _samples(r["samples_at_failure"])
    try:
        r["status"] = TrainerStatus(r["status"])
    except ValueError as error:
        raise StoreError(f"trainer {r['name'][:60]!r} has the unknown status {r['status'][:40]!r}: damaged") from error
    try:
        r["spec"] = _spec(r["spec"])
    except ValidationError as error:
        first = error.errors()[0]
        problem = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        r["spec"] = TrainerSpec.model_construct(name=r["name"], command=("false",), max_nodes=1)
        if not r["status"].is_final:
            r |= {"status": TrainerStatus.FAILED, "reason": f"this version does not accept its submission: {problem}"}
    return TrainerRecord(**{name: r[name] for name in TrainerRecord.__dataclass_fields__})


def _samples(value: float | None) -> float | None:
    return value if value is not None and 0 <= value <= MAX_SAMPLES else None


def _text(value: object) -> object:
    """Text that SQLite takes: file names and JSON may contain halves of surrogate pairs."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
