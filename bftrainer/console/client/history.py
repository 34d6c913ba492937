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
    last = lines[-1]
    checkpoint = next(
        (line.checkpoint for line in reversed(lines) if line.checkpoint is not None), None
    )
    return Progress(
        last.at_s,
        _last(lines, "step"),
        _last(lines, "samples"),
        _last(lines, "loss"),
        _last(lines, "world_size"),
        _speed(lines),
        metrics,
        checkpoint,
    )


def exit_status(directory: TrainerDirectory) -> int | None:
    """The exit status of the failed worker, if the last driver ended with a failure."""
    events = [line.event for line in _event_lines(directory.events, _TAIL_BYTES)]
    return events[-1].status if events and isinstance(events[-1], Failed) else None


def read_history(directory: TrainerDirectory) -> History:
    """Read all reports and numbers of nodes, from the trainer's progress and event files.

    Reports are thinned to a few thousand. Raises ``OSError`` if a file cannot be read.
    """
    points: list[HistoryPoint] = []
    keep_every, number, last_s = 1, 0, 0.0
    metrics: dict[str, float] = {}
    for path in (older_part(directory.progress), directory.progress):
        for line in _progress_lines(path, _PROGRESS_BYTES):
            last_s = max(last_s, line.at_s)
            metrics |= line.metrics
            if line.samples is None or line.phase is not Phase.RUNNING:
                continue
            number += 1
            if number % keep_every and not metrics:  # a line with metrics may be one of few
                continue
            points.append(HistoryPoint(line.at_s, line.samples, line.step, line.loss, metrics))
            metrics = {}
            if len(points) >= 2 * MOST_POINTS:
                points, keep_every = _thinned(points), 2 * keep_every
    nodes: list[NodesPoint] = []
    for event in _event_lines(directory.events, _EVENT_BYTES):
        last_s = max(last_s, event.at_s)
        match event.event:
            case Running(fragments=fragments):
                count = len(fragments)
            case Started() | Stopping() | Stopped() | Done() | Failed():
                count = 0
            case _:
                continue
        if not nodes or nodes[-1].nodes != count:
            nodes.append(NodesPoint(event.at_s, count))
    return History(tuple(points), tuple(nodes), last_s)


def _thinned(points: list[HistoryPoint]) -> list[HistoryPoint]:
    """Keep every second point, with the metrics of the one before it."""
    pairs = zip(points[::2], points[1::2], strict=False)
    return [replace(after, metrics={**before.metrics, **after.metrics}) for before, after in pairs]


def _last(lines: list[ProgressLine], key: str) -> Any:
    return next(
        (value for line in reversed(lines) if (value := getattr(line, key)) is not None), None
    )


def _speed(lines: list[ProgressLine]) -> float | None:
    """Return the samples per second over the last minute of reports; None if there are fewer than
    two.

    Reports before the last return to a checkpoint do not count.
    """
    last = next((line for line in reversed(lines) if line.samples is not None), None)
    if last is None or last.samples is None:
        return None
    first = last
    for line in reversed(lines):
        if line.samples is None:
            continue
        if line.samples > (first.samples or 0.0) or last.at_s - line.at_s > SPEED_OVER_S:
            break
        first = line
    passed_s = last.at_s - first.at_s
    return (last.samples - (first.samples or 0.0)) / passed_s if passed_s > 0 else None


def _progress_lines(path: Path, most_bytes: int) -> Iterator[ProgressLine]:
    return (parse_progress(row) for row in _objects(path, most_bytes))


def _event_lines(path: Path, most_bytes: int) -> Iterator[EventLine]:
    for row in _objects(path, most_bytes):
        if isinstance(line := read_event(row), EventLine):
            yield line


def _objects(path: Path, most_bytes: int) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of the last ``most_bytes`` of a file; none if it is missing."""
    if not path.exists():
        return
    tail = JsonTail(path)
    if tail.backlog_bytes() > most_bytes:
        tail.skip(most_bytes)
    while True:
        before = tail.offset
        for line in tail.read_lines():
            if not isinstance(line, BadLine):
                yield line
        if tail.offset == before:
            return
