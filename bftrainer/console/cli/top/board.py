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
from bftrainer.console.cli.trainers import LEAVING, PENDING, PENDING_REMARK, STARTING, status_text
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

    def next(self) -> Sort:
        """The next key; the first follows the last."""
        every = list(Sort)
        return every[(every.index(self) + 1) % len(every)]


@dataclass(frozen=True, slots=True)
class TrainerRow:
    """The row of one trainer on the screen.

    ``per_s`` is the measured speed (None: not measured), ``done`` the finished share of its work,
    ``left_s`` the time left.
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
    """What the screen shows, collected from snapshots."""

    last: Snapshot = field(default_factory=lambda: Snapshot(0.0))
    events: deque[tuple[float, str, str]] = field(default_factory=lambda: deque(maxlen=EVENTS))
    history: deque[ChartPoint] = field(default_factory=deque)
    _samples: dict[str, deque[tuple[float, float]]] = field(default_factory=dict)
    _used: int = 0

    def add(self, look: Snapshot) -> None:
        """Take over a new snapshot: what has happened, the chart, and the samples of trainers."""
        self.last = look
        happened = [(d.at_s, "decision", d.text) for d in look.decisions]
        happened += [(n.at_s, n.kind, n.line) for n in look.notes]
        self.events.extend(sorted(happened, key=lambda event: event[0]))
        for decided in look.decisions:
            self._used = decided.used
            if not self.history or decided.at_s >= self.history[-1].at_s:
                self.history.append(ChartPoint(decided.at_s, decided.pool, decided.used))
        now = look.held, min(self._used, look.held)
        if look.decisions and (look.pilot is None or self.silent_s() is not None):
            # What happened after the pilot's last sign of life is unknown.
            last_s = look.decisions[-1].at_s
            if look.pilot is not None:
                last_s = max(look.pilot.heartbeat_s, last_s)
            self.history.append(ChartPoint(last_s, *now))
        self.history.append(ChartPoint(look.at_s, *now))
        while len(self.history) > 1 and self.history[1].at_s < look.at_s - HISTORY_S:
            self.history.popleft()
        self._add_samples(look)

    def _add_samples(self, look: Snapshot) -> None:
        """Note the samples of each trainer at the pilot's heartbeat, from which its speed is
        computed.
        """
        if look.pilot is None:
            return
        beat_s = look.pilot.heartbeat_s
        for record in look.trainers:
            marks = self._samples.setdefault(record.name, deque())
            if marks and beat_s <= marks[-1][0]:
                continue
            if marks and record.samples_done < marks[-1][1]:  # back to a checkpoint
                marks.clear()
            marks.append((beat_s, record.samples_done))
            while beat_s - marks[0][0] > SPEED_OVER_S:
                marks.popleft()

    def rows(
        self, sort: Sort = Sort.STATUS, pattern: str = "", *, ended: bool = False
    ) -> list[TrainerRow]:
        """Return the rows of the trainers whose name, status or remark contains ``pattern``.

        Submissions that no pilot has read yet have rows as well.
        """
        place = {name: i for i, name in enumerate(self.last.queue, 1)}
        requested = {name: kind for kind, name in self.last.requests if kind != "submit"}
        rows = [
            self._row(t, place, requested)
            for t in self.last.trainers
            if ended or not t.status.is_final
        ]
        names = {t.name for t in self.last.trainers}
        rows += [
            TrainerRow(name, PENDING, 0, 0, None, None, 0.0, None, PENDING_REMARK)
            for kind, name in self.last.requests
            if kind == "submit" and name not in names
        ]
        wanted = pattern.lower()
        rows = [row for row in rows if wanted in f"{row.name} {row.status} {row.remark}".lower()]
        return _sorted(rows, sort)

    def _row(
        self, t: TrainerRecord, place: dict[str, int], requested: dict[str, str]
    ) -> TrainerRow:
        """Build the row of a trainer. ``place`` has its number in the queue, ``requested`` the kind
        of a pending request.
        """
        nodes = 0 if t.status.is_final else self.last.nodes.get(t.name, 0)
        total, per_s = t.samples_total, self._speed(t)
        done = None if total is None else min(t.samples_done / total, 1.0)
        speed = per_s or (
            self.last.estimates.get(t.name) if t.status is TrainerStatus.RUNNING else None
        )
        left_s = (total - t.samples_done) / speed if total is not None and speed and nodes else None
        remark = f"{requested[t.name]} requested" if t.name in requested else t.reason
        if not remark and t.name in place:
            remark = f"number {place[t.name]} in the queue"
        shown = None if left_s is None else max(left_s, 0.0)
        status = status_text(t, nodes)
        return TrainerRow(
            t.name, status, nodes, t.spec.max_nodes, per_s, done, t.samples_done, shown, remark
        )

    def _speed(self, t: TrainerRecord) -> float | None:
        """Samples per second over the last minute; None if unknown."""
        marks = self._samples.get(t.name) or deque()
        if t.status is not TrainerStatus.RUNNING or len(marks) < 2 or self.silent_s() is not None:
            return None
        return (marks[-1][1] - marks[0][1]) / (marks[-1][0] - marks[0][0])

    def silent_s(self) -> float | None:
        """Return the seconds since the last heartbeat of the pilot that holds the lease.

        None if it is recent, or if there is no pilot.
        """
        pilot = self.last.pilot
        if pilot is None:
            return None
        passed_s = max(self.last.at_s - pilot.heartbeat_s, 0.0)
        return passed_s if self.last.is_alive is False or passed_s > SILENT_AFTER_S else None

    def headline(self) -> str:
        """Return the state of the pilot in one line."""
        look, pilot = self.last, self.last.pilot
        if pilot is None:
            ended = [
                at_s for at_s, kind, text in self.events if kind == "pilot" and text == "has ended"
            ]
            when = f"; the last ended {clock_time(ended[-1])}" if ended else ""
            return f"no pilot is running{when}. Start one with `bftrainer pilot`"
        who = f"pilot {pilot.process.pid} on {pilot.host}" + (
            f", job {pilot.job_id}" if pilot.job_id else ""
        )
        counts = self._counts()
        if (silent_s := self.silent_s()) is None:
            return f"{who}: {counts}"
        if look.is_alive is False:
            return f"PILOT IS DEAD, last seen {length(silent_s)} ago. {who}: {counts}"
        return f"NO HEARTBEAT for {length(silent_s)} from {who}: {counts}"

    def _counts(self) -> str:
        by = dict.fromkeys(TrainerStatus, 0)
        for t in self.last.trainers:
            by[t.status] += 1
        shown = [f"{n} {status.value}" for status, n in by.items() if n]
        return ", ".join(shown) or "no trainers"

    def nodes_now(self) -> tuple[int, int, int]:
        """The numbers of nodes held, used and idle."""
        held = self.last.held
        used = min(self._used, held)
        return held, used, held - used

    def bins(self, width: int) -> list[ChartPoint | None]:
        """Divide the history into ``width`` equal intervals up to now; return the last numbers of
        each.

        They are None before the first snapshot.
        """
        now_s, i = self.last.at_s, 0
        last_points: list[ChartPoint | None] = []
        last: ChartPoint | None = None
        points = list(self.history)
        for column in range(1, width + 1):
            until_s = now_s - HISTORY_S + HISTORY_S * column / width
            while i < len(points) and points[i].at_s <= until_s + 1e-6:
                last = points[i]
                i += 1
            last_points.append(last)
        return last_points


_ORDER = (
    TrainerStatus.RUNNING.value,
    LEAVING,
    STARTING,
    TrainerStatus.WAITING.value,
    TrainerStatus.QUEUED.value,
    TrainerStatus.PAUSED.value,
    PENDING,
)
_PLACES = {status: place for place, status in enumerate(_ORDER)}


def _sorted(rows: list[TrainerRow], sort: Sort) -> list[TrainerRow]:
    keys: dict[Sort, Callable[[TrainerRow], Any]] = {
        Sort.STATUS: lambda r: _PLACES.get(r.status, len(_PLACES)),
        Sort.NAME: lambda r: r.name,
        Sort.NODES: lambda r: -r.nodes,
        Sort.SPEED: lambda r: -(r.per_s or 0.0),
        Sort.PROGRESS: lambda r: -(r.done or 0.0),
        Sort.LEFT: lambda r: float("inf") if r.left_s is None else r.left_s,
    }
    return rows if sort is Sort.SUBMITTED else sorted(rows, key=keys[sort])
