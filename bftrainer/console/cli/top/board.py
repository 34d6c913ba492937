"""The content of ``bftrainer top``, without a terminal: snapshots of a state directory in, rows and
figures out. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from bftrainer.console.cli.output import clock_time, length
from bftrainer.console.cli.top.reader import Snapshot
from bftrainer.console.cli.trainers import LEAVING, PENDING_REMARK, STARTING, WAITING, status_text
from bftrainer.pilot.persistence.registry import TrainerRecord, TrainerStatus

SPEED_OVER_S = 60.0
SILENT_AFTER_S = 15.0
"""A pilot writes its heartbeat every 5 s."""
HISTORY_S = 600.0
EVENTS = 200


class Sort(Enum):
    """Sort keys of the rows."""

    STATUS = "status, running first"
    SUBMITTED = "submitted"
    NODES = "nodes"
    SPEED = "speed"
    PROGRESS = "progress"
    LEFT = "time left"
    NAME = "name"

    def successor(self) -> Sort:
        """Return the next key; the first one follows the last one."""
        keys = list(Sort)
        return keys[(keys.index(self) + 1) % len(keys)]


@dataclass(frozen=True, slots=True)
class TrainerRow:
    """The row of one trainer on the screen.

    ``nodes``: the number of its nodes now.
    ``per_s``: measured samples per second; None if not measured.
    ``done``: the finished fraction of its work, 0 to 1; None if the total is not known.
    ``samples``: the samples that it has processed.
    ``left_s``: seconds until its end; None if not known.
    """

    name: str
    status: str
    nodes: int
    max_nodes: int
    per_s: float | None
    done: float | None
    samples: float
    left_s: float | None
    remark: str


@dataclass(frozen=True, slots=True)
class ChartPoint:
    """The numbers of nodes held and used from ``at_s`` on."""

    at_s: float
    held: int
    used: int


@dataclass(slots=True)
class Board:
    """What the screen shows, collected from snapshots.

    ``snapshot``: the latest one.
    ``events``: (time, kind, text) of the latest decisions and notes, oldest first.
    ``history``: the points of the chart, oldest first, over ``HISTORY_S``.
    ``_samples``: (time, samples) of each trainer at heartbeats of the last ``SPEED_OVER_S``.
    ``_used``: the number of nodes that the latest decision gave to trainers.
    """

    snapshot: Snapshot = field(default_factory=lambda: Snapshot(0.0))
    events: deque[tuple[float, str, str]] = field(default_factory=lambda: deque(maxlen=EVENTS))
    history: deque[ChartPoint] = field(default_factory=deque)
    _samples: dict[str, deque[tuple[float, float]]] = field(default_factory=dict)
    _used: int = 0

    def add(self, snapshot: Snapshot) -> None:
        """Apply a new snapshot: its events, the chart, and the samples of trainers."""
        self.snapshot = snapshot
        events = [(decision.at_s, "decision", decision.text) for decision in snapshot.decisions]
        events += [(note.at_s, note.kind, note.line) for note in snapshot.notes]
        self.events.extend(sorted(events, key=lambda event: event[0]))
        self._add_to_chart(snapshot)
        self._add_samples(snapshot)

    def _add_to_chart(self, snapshot: Snapshot) -> None:
        """Add points to the chart: one for each new decision, and one for the time of the
        snapshot.
        """
        for decision in snapshot.decisions:
            self._used = decision.used
            if not self.history or decision.at_s >= self.history[-1].at_s:
                self.history.append(ChartPoint(decision.at_s, decision.pool, decision.used))
        used = min(self._used, snapshot.held)
        if snapshot.decisions and (snapshot.pilot is None or self.silent_s() is not None):
            # What happened after the pilot's last sign of life is unknown: the chart drops there to
            # the present numbers.
            last_sign_s = snapshot.decisions[-1].at_s
            if snapshot.pilot is not None:
                last_sign_s = max(snapshot.pilot.heartbeat_s, last_sign_s)
            self.history.append(ChartPoint(last_sign_s, snapshot.held, used))
        self.history.append(ChartPoint(snapshot.at_s, snapshot.held, used))
        # The last point before the period is kept: it has the numbers at the period's begin.
        while len(self.history) > 1 and self.history[1].at_s < snapshot.at_s - HISTORY_S:
            self.history.popleft()

    def _add_samples(self, snapshot: Snapshot) -> None:
        """Record the samples of each trainer at the pilot's heartbeat, from which its speed is
        computed.
        """
        if snapshot.pilot is None:
            return
        heartbeat_s = snapshot.pilot.heartbeat_s
        for record in snapshot.trainers:
            points = self._samples.setdefault(record.name, deque())
            if points and heartbeat_s <= points[-1][0]:
                continue  # the pilot has written nothing since the last snapshot
            if points and record.samples_done < points[-1][1]:  # back to a checkpoint
                points.clear()
            points.append((heartbeat_s, record.samples_done))
            while heartbeat_s - points[0][0] > SPEED_OVER_S:
                points.popleft()

    def rows(
        self, sort: Sort = Sort.STATUS, pattern: str = "", *, ended: bool = False
    ) -> list[TrainerRow]:
        """Return the rows of the trainers whose name, status or remark contains ``pattern``, in
        upper or lower case; with ``ended``, also of trainers that have ended.

        Submissions that no pilot has read yet have rows as well.
        """
        places = {name: place for place, name in enumerate(self.snapshot.queue, 1)}
        requests = {name: kind for kind, name in self.snapshot.requests if kind != "submit"}
        rows = [
            self._trainer_row(record, places, requests)
            for record in self.snapshot.trainers
            if ended or not record.status.is_final
        ]
        names = {record.name for record in self.snapshot.trainers}
        rows += [
            _pending_row(name)
            for kind, name in self.snapshot.requests
            if kind == "submit" and name not in names
        ]
        letters = pattern.lower()
        rows = [row for row in rows if letters in f"{row.name} {row.status} {row.remark}".lower()]
        return _sorted_rows(rows, sort)

    def _trainer_row(
        self, record: TrainerRecord, places: dict[str, int], requests: dict[str, str]
    ) -> TrainerRow:
        """Build the row of a trainer. ``places`` has the numbers of trainers in the queue,
        ``requests`` the kinds of their pending requests.

        The time left is computed with the estimated speed as long as none is measured.
        """
        name, total = record.name, record.samples_total
        nodes = 0 if record.status.is_final else self.snapshot.nodes.get(name, 0)
        measured_per_s = self._samples_per_s(record)
        per_s = measured_per_s
        if not per_s and record.status is TrainerStatus.RUNNING:
            per_s = self.snapshot.estimates.get(name)
        left_s = None
        if total is not None and per_s and nodes:
            left_s = max((total - record.samples_done) / per_s, 0.0)
        remark = f"{requests[name]} requested" if name in requests else record.reason
        if not remark and name in places:
            remark = f"number {places[name]} in the queue"
        return TrainerRow(
            name=name,
            status=status_text(record, nodes),
            nodes=nodes,
            max_nodes=record.spec.max_nodes,
            per_s=measured_per_s,
            done=None if total is None else min(record.samples_done / total, 1.0),
            samples=record.samples_done,
            left_s=left_s,
            remark=remark,
        )

    def _samples_per_s(self, record: TrainerRecord) -> float | None:
        """Return the samples per second over the last minute.

        None if unknown: the trainer does not run, its samples are known at fewer than two
        heartbeats, or the pilot is silent.
        """
        points = self._samples.get(record.name) or deque()
        is_running = record.status is TrainerStatus.RUNNING
        if not is_running or len(points) < 2 or self.silent_s() is not None:
            return None
        (first_s, first_samples), (last_s, last_samples) = points[0], points[-1]
        return (last_samples - first_samples) / (last_s - first_s)

    def silent_s(self) -> float | None:
        """Return the seconds since the last heartbeat of a pilot that is silent, or dead.

        None if the heartbeat is recent, or if there is no pilot.
        """
        pilot = self.snapshot.pilot
        if pilot is None:
            return None
        passed_s = max(self.snapshot.at_s - pilot.heartbeat_s, 0.0)
        is_dead = self.snapshot.is_alive is False
        return passed_s if is_dead or passed_s > SILENT_AFTER_S else None

    def headline(self) -> str:
        """Return the state of the pilot in one line."""
        pilot = self.snapshot.pilot
        if pilot is None:
            ends_s = [
                at_s for at_s, kind, text in self.events if kind == "pilot" and text == "has ended"
            ]
            end = f"; the last ended {clock_time(ends_s[-1])}" if ends_s else ""
            return f"no pilot is running{end}. Start one with `bftrainer pilot`"
        name = f"pilot {pilot.process.pid} on {pilot.host}"
        if pilot.job_id:
            name += f", job {pilot.job_id}"
        counts = self._status_counts()
        silent_s = self.silent_s()
        if silent_s is None:
            return f"{name}: {counts}"
        if self.snapshot.is_alive is False:
            return f"PILOT IS DEAD, last seen {length(silent_s)} ago. {name}: {counts}"
        return f"NO HEARTBEAT for {length(silent_s)} from {name}: {counts}"

    def _status_counts(self) -> str:
        """Return the numbers of trainers by status, as text."""
        counts = dict.fromkeys(TrainerStatus, 0)
        for record in self.snapshot.trainers:
            is_queued = record.status is TrainerStatus.QUEUED
            counts[TrainerStatus.WAITING if is_queued else record.status] += 1
        texts = [f"{count} {status.value}" for status, count in counts.items() if count]
        return ", ".join(texts) or "no trainings"

    def nodes_now(self) -> tuple[int, int, int]:
        """Return the numbers of nodes held, used and idle."""
        held = self.snapshot.held
        used = min(self._used, held)
        return held, used, held - used

    def bins(self, width: int) -> list[ChartPoint | None]:
        """Divide the last ``HISTORY_S`` into ``width`` equal intervals up to now; return the point
        that holds at the end of each: the last one until then.

        An interval that ends before the first point has None.
        """
        begin_s = self.snapshot.at_s - HISTORY_S
        points = list(self.history)
        interval_points: list[ChartPoint | None] = []
        latest: ChartPoint | None = None
        index = 0
        for number in range(1, width + 1):
            end_s = begin_s + HISTORY_S * number / width
            while index < len(points) and points[index].at_s <= end_s + 1e-6:
                latest = points[index]
                index += 1
            interval_points.append(latest)
        return interval_points


def _pending_row(name: str) -> TrainerRow:
    """Return the row of a submission that no pilot has read yet."""
    return TrainerRow(
        name=name,
        status=WAITING,
        nodes=0,
        max_nodes=0,
        per_s=None,
        done=None,
        samples=0.0,
        left_s=None,
        remark=PENDING_REMARK,
    )


_ORDER = (
    TrainerStatus.RUNNING.value,
    LEAVING,
    STARTING,
    WAITING,
    TrainerStatus.PAUSED.value,
)
_PLACES = {status: place for place, status in enumerate(_ORDER)}


def _sorted_rows(rows: list[TrainerRow], sort: Sort) -> list[TrainerRow]:
    """Sort the rows, large numbers first, but for the time left; rows in the order of submission
    are returned as they are.
    """
    keys: dict[Sort, Callable[[TrainerRow], Any]] = {
        Sort.STATUS: lambda row: _PLACES.get(row.status, len(_PLACES)),
        Sort.NAME: lambda row: row.name,
        Sort.NODES: lambda row: -row.nodes,
        Sort.SPEED: lambda row: -(row.per_s or 0.0),
        Sort.PROGRESS: lambda row: -(row.done or 0.0),
        Sort.LEFT: lambda row: float("inf") if row.left_s is None else row.left_s,
    }
    return rows if sort is Sort.SUBMITTED else sorted(rows, key=keys[sort])
