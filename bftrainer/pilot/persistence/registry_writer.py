"""Writes of the registry and of the audit of fragments, one transaction each. Times are those of
the host's clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any

from bftrainer.pilot.persistence.registry import (
    Rung,
    StageReached,
    Submission,
    TrainerRecord,
    TrainerStatus,
    Usage,
)
from bftrainer.pilot.persistence.store import Store
from bftrainer.times import HostS

_ADD_METRIC = (
    "INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (trainer, name) DO UPDATE "
    "SET last = excluded.last, "
    # A pilot that starts again has read the latest lines only: what was reached before stays.
    "least_samples = CASE WHEN excluded.least < least THEN excluded.least_samples ELSE "
    "least_samples END, "
    "least = min(least, excluded.least), "
    "most_samples = CASE WHEN excluded.most > most THEN excluded.most_samples ELSE "
    "most_samples END, "
    "most = max(most, excluded.most)"
)
_ADD_USAGE = (
    "UPDATE trainers SET held_node_s = held_node_s + ?, trained_node_s = trained_node_s + ?, "
    "stalled_node_s = stalled_node_s + ?, repeated_samples = repeated_samples + ?, "
    "samples_done = ? WHERE name = ?"
)

_NO_COLUMN = ("retry_s", "finished", "unfit")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerChange:
    """A change of one trainer, without times: its columns get the time at which it is written. None
    leaves a column as it is.

    ``unfit``: further sizes, from the least to the most nodes, at which its memory did not suffice.
    ``reported_total``: samples of the whole training, as its script reports them.

    ``retry_s``: the seconds after which it may start again. ``finished``: it has ended for good,
    and its driver as well.
    """

    status: TrainerStatus | None = None
    reason: str | None = None
    samples_done: float | None = None
    failures: int | None = None
    samples_at_failure: float | None = None
    ended_incarnation: int | None = None
    retry_s: float | None = None
    finished: bool = False
    unfit: tuple[int, int] | None = None
    reported_total: float | None = None

    def columns(self, record: TrainerRecord, at_s: HostS) -> dict[str, Any]:
        """Return the columns of ``record`` that change at ``at_s``, with their new values.

        The times of the first admission and of the first start are not overwritten.
        """
        plain = {
            column.name: getattr(self, column.name)
            for column in fields(self)
            if column.name not in _NO_COLUMN
        }
        is_first_admission = self.status is TrainerStatus.WAITING and not record.admitted_s
        is_first_start = self.status is TrainerStatus.RUNNING and not record.started_s
        times = {
            "admitted_s": at_s if is_first_admission else None,
            "started_s": at_s if is_first_start else None,
            "finished_s": at_s if self.finished else None,
            "not_before_s": None if self.retry_s is None else at_s + self.retry_s,
        }
        # None stands for "unchanged".
        return {name: value for name, value in (plain | times).items() if value is not None}


class RegistryWriter:
    """Writes over a :class:`Store` of which this process has the lease."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def add_all(self, submissions: Sequence[Submission], at_s: HostS) -> tuple[bool, ...]:
        """Register submissions in one commit. Returns for each whether it is registered now.

        It is if its name was free, or if an earlier call had registered this same submission, as
        when the pilot died before it removed the spool file. It is not if another submission has
        the name.
        """
        added = []
        with self.store.writing("submission") as db:
            for submission in submissions:
                db.execute(
                    "INSERT INTO trainers (name, spec, owner, spool_name, submitted_s, status) "
                    "VALUES (?, ?, ?, ?, ?, ?) "
                    "ON CONFLICT DO NOTHING",
                    (
                        submission.spec.name,
                        submission.spec.model_dump_json(),
                        submission.owner,
                        submission.spool_name,
                        at_s,
                        TrainerStatus.QUEUED.value,
                    ),
                )
                # The name of the spool file tells which submission has the name.
                row = db.execute(
                    "SELECT spool_name FROM trainers WHERE name = ?", (submission.spec.name,)
                ).fetchone()
                added.append(row is not None and bool(row[0] == submission.spool_name))
        return tuple(added)

    def change(self, record: TrainerRecord, change: TrainerChange, at_s: HostS) -> TrainerRecord:
        """Write a change of one trainer at ``at_s``. Returns its ``record`` after that."""
        columns = change.columns(record, at_s)
        sets = ", ".join(f"{column} = ?" for column in columns)
        values = [_column_value(value) for value in columns.values()]
        with self.store.writing("trainer") as db:
            if columns:
                db.execute(f"UPDATE trainers SET {sets} WHERE name = ?", (*values, record.name))  # noqa: S608  # field names
            if change.unfit is not None:
                db.execute(
                    "INSERT OR IGNORE INTO unfit VALUES (?, ?, ?)", (record.name, *change.unfit)
                )
                columns["unfit"] = (*record.unfit, change.unfit)
        return replace(record, **columns)

    def add_command(self, spool_name: str, at_s: HostS) -> None:
        """Record a command, so that it is not carried out twice."""
        self.store.write(
            "command", "INSERT OR IGNORE INTO commands VALUES (?, ?)", spool_name, at_s
        )

    def add_usage(self, usage: tuple[Usage, ...], beat_s: HostS) -> None:
        """Write what trainers have used since the last call, and ``beat_s`` as the time of the
        heartbeat, in one commit.
        """
        with self.store.writing("usage") as db:
            for u in usage:
                increments = u.held_node_s, u.trained_node_s, u.stalled_node_s, u.repeated_samples
                db.execute(_ADD_USAGE, (*increments, u.samples_done, u.name))
                for metric in u.metrics:
                    values = (
                        metric.last,
                        metric.least,
                        metric.least_samples,
                        metric.most,
                        metric.most_samples,
                    )
                    db.execute(_ADD_METRIC, (u.name, metric.name, *values))
            db.execute("UPDATE lease SET heartbeat_s = ?", (beat_s,))

    def rung(self, rung: Rung) -> None:
        """Write a rung; one that is in the database stays."""
        values = rung.group, rung.rule, rung.samples, rung.trainer, rung.value
        self.store.write("rung", "INSERT OR IGNORE INTO rungs VALUES (?, ?, ?, ?, ?)", *values)

    def fragment_asked(self, name: str, node: str, at_s: HostS) -> None:
        statement = "INSERT OR IGNORE INTO fragments (name, node, asked_s) VALUES (?, ?, ?)"
        self.store.write("fragment asked", statement, name, node, at_s)

    def fragment_taken(self, name: str, at_s: HostS) -> None:
        statement = "UPDATE fragments SET taken_s = ? WHERE name = ? AND taken_s IS NULL"
        self.store.write("fragment taken", statement, at_s, name)

    def fragment_asked_back(self, name: str, at_s: HostS, reason: str) -> None:
        """Write that the scheduler preempts the fragment (held node), or that the pilot gives it
        up. Only the first time and reason are kept.
        """
        statement = (
            "UPDATE fragments SET asked_back_s = ?, reason = ? WHERE name = ? AND "
            "asked_back_s IS NULL"
        )
        self.store.write("fragment asked back", statement, at_s, reason, name)

    def fragment_released(self, name: str, at_s: HostS, reason: str) -> None:
        """Write that the holder job of a fragment (held node) has ended. An earlier ``reason``
        stays, unless it was a preemption and this one says that the job was canceled.
        """
        statement = (
            "UPDATE fragments SET released_s = ?1, asked_back_s = coalesce(asked_back_s, ?1), "
            "reason = CASE "
            # Only when the job is over does the scheduler say that a user has canceled it.
            "WHEN reason = '' OR (reason LIKE 'preempted%' AND ?2 LIKE 'canceled%') THEN ?2 "
            "ELSE reason END "
            "WHERE name = ?3 AND released_s IS NULL"
        )
        self.store.write("fragment released", statement, at_s, reason, name)

    def add_stages(self, reached: Iterable[StageReached]) -> None:
        """Write the times at which fragments reached stages for which the table of fragments has no
        column.
        """
        if rows := [
            (instant.fragment, instant.stage.value, instant.at_s, instant.trainer)
            for instant in reached
        ]:
            with self.store.writing("stages") as db:
                db.executemany("INSERT OR REPLACE INTO stages VALUES (?, ?, ?, ?)", rows)

    def note(self, at_s: HostS, kind: str, subject: str, text: str) -> None:
        statement = "INSERT INTO notes (at_s, kind, subject, text) VALUES (?, ?, ?, ?)"
        self.store.write(
            "note", statement, at_s, kind, _storable_text(subject), _storable_text(text)
        )


def _column_value(value: object) -> object:
    return value.value if isinstance(value, Enum) else _storable_text(value)


def _storable_text(value: object) -> object:
    """Text that SQLite takes: file names and JSON may contain halves of surrogate pairs."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
