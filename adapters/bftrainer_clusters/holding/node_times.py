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
_REMEMBERED = 15
_MOST_S = 7200.0
_MOST_CLASSES = 200
_MOST_BYTES = 1_000_000

_MeasuredTimes = Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class NodeTimes:
    """The latest measurements of each class, in seconds. Without any of a class, those of all
    classes count.
    """

    starts: _MeasuredTimes = field(default_factory=dict)
    """Seconds from a holder's submission until its payload was ready."""
    ends: _MeasuredTimes = field(default_factory=dict)
    """Seconds from the payload's end, or the release, until the scheduler said that the job was
    over.
    """

    def started(self, node_class: str, seconds: float) -> NodeTimes:
        return replace(self, starts=_with(self.starts, node_class, seconds))

    def ended(self, node_class: str, seconds: float) -> NodeTimes:
        return replace(self, ends=_with(self.ends, node_class, seconds))

    def start_s(self, node_class: str) -> float:
        """Return the median start of a class's holders in seconds; 0 before the first
        measurement.
        """
        return _typical(self.starts, node_class)

    def end_s(self, node_class: str) -> float:
        """Return the median end of a class's holders in seconds; 0 before the first measurement."""
        return _typical(self.ends, node_class)

    def why_too_short(self, request: NodeRequest, longest_s: float) -> str:
        """Return why a request's window is too short for a holder to start, a trainer to grow onto
        the node, and the node to be idle in time; empty if it is long enough.
        """
        start_s, end_s = self.start_s(request.node_class), self.end_s(request.node_class)
        rest_s = request.window_s - start_s - end_s
        if limit_minutes(rest_s, longest_s) >= 1 and rest_s > request.useful_s:
            return ""
        needs = (
            f"{start_s:.0f} s to start a holder, {request.useful_s:.0f} s to rescale, "
            f"{end_s:.0f} s until the node is idle"
        )
        return f"the window of {request.window_s:.0f} s is too short ({needs})"

    def classes(self) -> Iterator[tuple[str, float, float, int]]:
        """Yield (class, start, end, number of measured ends) of each node class."""
        for name in sorted(self.starts.keys() | self.ends.keys()):
            yield name, self.start_s(name), self.end_s(name), len(self.ends.get(name, ()))


def read_times(holders: Path) -> NodeTimes:
    """Read the measurements of earlier pilots. What cannot be read is left out, and
    measured again.
    """
    times = NodeTimes()
    with suppress(OSError, ValueError, TypeError, AttributeError, LookupError, RecursionError):
        data = json.loads(read_regular(holders / FILE, _MOST_BYTES))
        for key, add in (("starts", NodeTimes.started), ("ends", NodeTimes.ended)):
            for name, values in data[key].items():
                for value in values:
                    times = add(times, str(name), float(value))
    return times


def save_times(holders: Path, times: NodeTimes) -> None:
    """Write the measurements for the next pilot; on a full disk they are lost, which does not
    matter.
    """
    data = {"starts": dict(sorted(times.starts.items())), "ends": dict(sorted(times.ends.items()))}
    with suppress(OSError):
        write_atomically(holders / FILE, json.dumps(data).encode() + b"\n")


def _with(measured: _MeasuredTimes, node_class: str, seconds: float) -> _MeasuredTimes:
    if not (0 <= seconds <= _MOST_S and (node_class in measured or len(measured) < _MOST_CLASSES)):
        return measured
    return {
        **measured,
        node_class: (*measured.get(node_class, ()), round(seconds, 2))[-_REMEMBERED:],
    }


def _typical(measured: _MeasuredTimes, node_class: str) -> float:
    seconds = measured.get(node_class) or [
        value for values in measured.values() for value in values
    ]
    return statistics.median(seconds) if seconds else 0.0
