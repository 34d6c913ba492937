"""How long holders take to start and their nodes to become idle again, by node class: measured, and
kept for the next pilot.

A Prolog is a part of the first, an Epilog of the second. Windows that are too short for both are
not taken, nodes are released so early that the Epilog ends in the window, and doctor tells what an
Epilog costs main jobs.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from bftrainer.cluster.model import NodeRequest
from bftrainer.system.files import write_atomically
from bftrainer.system.regular import read_regular
from bftrainer_clusters.holding.holder_jobs import limit_minutes

FILE = "times.json"
_MAX_MEASUREMENTS = 15
"""Measurements of each class that are kept."""
_MAX_S = 7200.0
"""Longer times are not kept."""
_MAX_CLASSES = 200
_MAX_BYTES = 1_000_000

_MeasuredTimes = Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class NodeTimes:
    """The latest measurements of each node class, in seconds. For a class without measurements,
    the measurements of all classes count.
    """

    starts: _MeasuredTimes = field(default_factory=dict)
    """Seconds from a holder's submission until its payload was ready."""
    ends: _MeasuredTimes = field(default_factory=dict)
    """Seconds from the payload's end, or the release, until the scheduler said that the job was
    over.
    """

    def started(self, node_class: str, seconds: float) -> NodeTimes:
        return replace(self, starts=_with_measurement(self.starts, node_class, seconds))

    def ended(self, node_class: str, seconds: float) -> NodeTimes:
        return replace(self, ends=_with_measurement(self.ends, node_class, seconds))

    def start_s(self, node_class: str) -> float:
        """Return the median start of a class's holders in seconds; 0 before the first
        measurement.
        """
        return _median_s(self.starts, node_class)

    def end_s(self, node_class: str) -> float:
        """Return the median end of a class's holders in seconds; 0 before the first measurement."""
        return _median_s(self.ends, node_class)

    def why_too_short(self, request: NodeRequest, longest_s: float) -> str:
        """Return why a request's window is too short for a holder to start, a trainer to grow onto
        the node, and the node to be idle in time; empty if it is long enough. ``longest_s``: the
        longest time limit of a holder.
        """
        start_s, end_s = self.start_s(request.node_class), self.end_s(request.node_class)
        training_s = request.window_s - start_s - end_s
        # A holder's time limit is in whole minutes.
        if limit_minutes(training_s, longest_s) >= 1 and training_s > request.useful_s:
            return ""
        needs = (
            f"{start_s:.0f} s to start a holder, {request.useful_s:.0f} s to rescale, "
            f"{end_s:.0f} s until the node is idle"
        )
        return f"the window of {request.window_s:.0f} s is too short ({needs})"

    def classes(self) -> Iterator[tuple[str, float, float, int]]:
        """Yield (class, median start in s, median end in s, number of measured ends) of each node
        class.
        """
        for name in sorted(self.starts.keys() | self.ends.keys()):
            yield name, self.start_s(name), self.end_s(name), len(self.ends.get(name, ()))


def read_times(holders: Path) -> NodeTimes:
    """Read the measurements of earlier pilots from the folder of holders. After the first one that
    cannot be read, the rest of the file is left out, and measured again.
    """
    times = NodeTimes()
    with suppress(OSError, ValueError, TypeError, AttributeError, LookupError, RecursionError):
        data = json.loads(read_regular(holders / FILE, _MAX_BYTES))
        for node_class, values_s in data["starts"].items():
            for value_s in values_s:
                times = times.started(str(node_class), float(value_s))
        for node_class, values_s in data["ends"].items():
            for value_s in values_s:
                times = times.ended(str(node_class), float(value_s))
    return times


def save_times(holders: Path, times: NodeTimes) -> None:
    """Write the measurements for the next pilot; on a full disk they are lost, which does not
    matter.
    """
    data = {"starts": dict(sorted(times.starts.items())), "ends": dict(sorted(times.ends.items()))}
    with suppress(OSError):
        write_atomically(holders / FILE, json.dumps(data).encode() + b"\n")


def _with_measurement(measured: _MeasuredTimes, node_class: str, seconds: float) -> _MeasuredTimes:
    """Return the measurements with one more of a class, which replaces the oldest one of many. A
    time out of bounds is left out, and so is one of a further class where there are too many.
    """
    if not 0 <= seconds <= _MAX_S:
        return measured
    if node_class not in measured and len(measured) >= _MAX_CLASSES:
        return measured
    of_class = (*measured.get(node_class, ()), round(seconds, 2))
    return {**measured, node_class: of_class[-_MAX_MEASUREMENTS:]}


def _median_s(measured: _MeasuredTimes, node_class: str) -> float:
    """Return the median of a class's measurements in seconds, or else of those of all classes; 0
    without any.
    """
    values_s = measured.get(node_class, ())
    if not values_s:
        values_s = tuple(value_s for class_s in measured.values() for value_s in class_s)
    return statistics.median(values_s) if values_s else 0.0
