"""A trainer's course, read from its directory: its latest report, and its whole history, thinned to
a bounded size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bftrainer.system.json_tail import BadLine, JsonTail
from bftrainer.wires.driver_events import (
    Done,
    EventLine,
    Failed,
    Running,
    Started,
    Stopped,
    Stopping,
    read_event,
)
from bftrainer.wires.paths import TrainerDirectory, older_part
from bftrainer.wires.progress_line import Phase, ProgressLine, parse_progress

MOST_POINTS = 4000
"""Points of a history. When there are twice as many, every second one is dropped."""
SPEED_OVER_S = 60.0
_TAIL_BYTES = 1 << 17
_EVENT_BYTES = 64 << 20
_PROGRESS_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Progress:
    """The latest report of a trainer. A field is None if it was never reported.

    ``samples_per_s`` is over the last minute of reports. ``metrics`` has the last value of each
    name in the latest part of the file, and ``checkpoint`` the last one that was named.
    """

    at_s: float
    step: int | None = None
    samples: float | None = None
    loss: float | None = None
    world_size: int | None = None
    samples_per_s: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    checkpoint: str | None = None


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """One progress line."""

    at_s: float
    samples: float
    step: int | None
    loss: float | None
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class NodesPoint:
    """The number of nodes from ``at_s`` on: 0 while the trainer starts, stops or waits."""

    at_s: float
    nodes: int


@dataclass(frozen=True, slots=True)
class History:
    """What a trainer has reported over time, and its numbers of nodes, oldest first.

    ``until_s`` is the time of the last line of either file.
    """

    points: tuple[HistoryPoint, ...]
    nodes: tuple[NodesPoint, ...]
    until_s: float

    @property
    def metric_names(self) -> tuple[str, ...]:
        """All names of metrics, sorted."""
        return tuple(sorted({name for point in self.points for name in point.metrics}))


def latest_progress(directory: TrainerDirectory) -> Progress | None:
    """Read the latest report from the end of ``progress.jsonl``; None if there is none, or it
    cannot be read.

    Values that are wrong are skipped.
    """
    try:
        lines = list(_progress_lines(directory.progress, _TAIL_BYTES))
    except OSError:
        lines = []
    if not lines:
        return None
    metrics: dict[str, float] = {}
    for line in lines:
        metrics |= line.metrics
    return Progress(
        at_s=lines[-1].at_s,
        step=_last_value(lines, "step"),
        samples=_last_value(lines, "samples"),
        loss=_last_value(lines, "loss"),
        world_size=_last_value(lines, "world_size"),
        samples_per_s=_recent_samples_per_s(lines),
        metrics=metrics,
        checkpoint=_last_value(lines, "checkpoint"),
    )


def exit_status(directory: TrainerDirectory) -> int | None:
    """Return the exit status of the failed worker; None if the last event of the driver is no
    failure, or the failure has no status.
    """
    events = [line.event for line in _event_lines(directory.events, _TAIL_BYTES)]
    if not events or not isinstance(events[-1], Failed):
        return None
    return events[-1].status


def read_history(directory: TrainerDirectory) -> History:
    """Read all reports and numbers of nodes, from the trainer's progress and event files.

    Reports are thinned to a few thousand. Raises ``OSError`` if a file cannot be read.
    """
    points, last_report_s = _report_points(directory)
    node_points, last_event_s = _node_points(directory)
    return History(tuple(points), tuple(node_points), max(last_report_s, last_event_s))


def _report_points(directory: TrainerDirectory) -> tuple[list[HistoryPoint], float]:
    """Read the reports, thinned, and the time of the last one; 0 without any.

    When there are twice ``MOST_POINTS``, every second point is dropped, and from then on twice as
    many lines become one point.
    """
    points: list[HistoryPoint] = []
    lines_per_point, line_count, last_s = 1, 0, 0.0
    metrics: dict[str, float] = {}  # since the last point
    for path in (older_part(directory.progress), directory.progress):
        for line in _progress_lines(path, _PROGRESS_BYTES):
            last_s = max(last_s, line.at_s)
            metrics |= line.metrics
            if line.samples is None or line.phase is not Phase.RUNNING:
                continue
            line_count += 1
            # A line with metrics may be one of few.
            if line_count % lines_per_point and not metrics:
                continue
            points.append(HistoryPoint(line.at_s, line.samples, line.step, line.loss, metrics))
            metrics = {}
            if len(points) >= 2 * MOST_POINTS:
                points = _every_second_point(points)
                lines_per_point *= 2
    return points, last_s


def _node_points(directory: TrainerDirectory) -> tuple[list[NodesPoint], float]:
    """Read the numbers of nodes, a point for each change, and the time of the last event; 0 without
    any.
    """
    points: list[NodesPoint] = []
    last_s = 0.0
    for line in _event_lines(directory.events, _EVENT_BYTES):
        last_s = max(last_s, line.at_s)
        match line.event:
            case Running(fragments=fragments):
                count = len(fragments)
            case Started() | Stopping() | Stopped() | Done() | Failed():
                count = 0
            case _:
                continue  # the event does not change the nodes
        if not points or points[-1].nodes != count:
            points.append(NodesPoint(line.at_s, count))
    return points, last_s


def _every_second_point(points: list[HistoryPoint]) -> list[HistoryPoint]:
    """Keep every second point, with the metrics of the dropped point before it."""
    pairs = zip(points[::2], points[1::2], strict=False)
    return [
        replace(point, metrics={**dropped.metrics, **point.metrics}) for dropped, point in pairs
    ]


def _last_value(lines: list[ProgressLine], key: str) -> Any:
    """Return the last value of a field that is not None; None if all are."""
    values = (getattr(line, key) for line in reversed(lines))
    return next((value for value in values if value is not None), None)


def _recent_samples_per_s(lines: list[ProgressLine]) -> float | None:
    """Return the samples per second over the last minute of reports; None if there are fewer than
    two.

    Reports before the last return to a checkpoint do not count: there, samples are more than in a
    later report.
    """
    points = [(line.at_s, line.samples) for line in lines if line.samples is not None]
    if not points:
        return None
    last_s, last_samples = points[-1]
    first_s, first_samples = points[-1]
    for at_s, samples in reversed(points):
        if samples > first_samples or last_s - at_s > SPEED_OVER_S:
            break
        first_s, first_samples = at_s, samples
    passed_s = last_s - first_s
    return (last_samples - first_samples) / passed_s if passed_s > 0 else None


def _progress_lines(path: Path, max_bytes: int) -> Iterator[ProgressLine]:
    return (parse_progress(row) for row in _tail_objects(path, max_bytes))


def _event_lines(path: Path, max_bytes: int) -> Iterator[EventLine]:
    """Yield the events in the last ``max_bytes`` of a file, but for those that cannot be read."""
    for row in _tail_objects(path, max_bytes):
        line = read_event(row)
        if isinstance(line, EventLine):
            yield line


def _tail_objects(path: Path, max_bytes: int) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects in the last ``max_bytes`` of a file, but for lines that are none;
    nothing if the file is missing.
    """
    if not path.exists():
        return
    tail = JsonTail(path)
    if tail.backlog_bytes() > max_bytes:
        tail.skip(max_bytes)
    while True:
        previous_offset = tail.offset
        for line in tail.read_lines():
            if not isinstance(line, BadLine):
                yield line
        if tail.offset == previous_offset:  # the end of the file
            return
