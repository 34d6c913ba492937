"""How long holders take to start and their nodes to become idle again, by node class: measured, and kept for the next pilot.

A Prolog is a part of the first, an Epilog of the second. Windows that are too short for both are not taken, nodes are released
so early that the Epilog ends in the window, and doctor tells what an Epilog costs main jobs.
"""

from __future__ import annotations

import json
import statistics
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from bftrainer.domain.cluster import NodeRequest
from bftrainer.system.files import write_atomically
from bftrainer_adapters.holding.held import limit_minutes

FILE = "times.json"
_REMEMBERED = 15
_MOST_S = 7200.0
_MOST_CLASSES = 200
_MOST_BYTES = 1_000_000


class NodeTimes:
    """The latest measurements of each class, in seconds. Without any of a class, those of all classes count."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        self._starts: dict[str, deque[float]] = {}
        self._ends: dict[str, deque[float]] = {}
        self._is_saved = True
        with suppress(
            OSError, ValueError, TypeError, AttributeError, LookupError
        ):  # a file that cannot be read is measured again
            self._read()

    def started(self, node_class: str, seconds: float) -> None:
        """From submission to ready."""
        self._add(self._starts, node_class, seconds)

    def ended(self, node_class: str, seconds: float) -> None:
        """From the payload's end, or the release, until the scheduler says that the job is over."""
        self._add(self._ends, node_class, seconds)

    def start_s(self, node_class: str) -> float:
        """The median; 0 before the first."""
        return _typical(self._starts, node_class)

    def end_s(self, node_class: str) -> float:
        """The median; 0 before the first."""
        return _typical(self._ends, node_class)

    def why_too_short(self, request: NodeRequest, longest_s: float) -> str:
        """Why a window is not worth a holder: it starts, a trainer grows onto the node, and the node is idle in time."""
        start_s, end_s = self.start_s(request.node_class), self.end_s(request.node_class)
        rest_s = request.window_s - start_s - end_s
        if limit_minutes(rest_s, longest_s) >= 1 and rest_s > request.useful_s:
            return ""
        told = f"{start_s:.0f} s to start a holder, {request.useful_s:.0f} s to rescale, {end_s:.0f} s until the node is idle"
        return f"the window of {request.window_s:.0f} s is too short ({told})"

    def classes(self) -> Iterator[tuple[str, float, float, int]]:
        """(class, start, end, how many ends)."""
        for name in sorted(self._starts.keys() | self._ends.keys()):
            yield name, self.start_s(name), self.end_s(name), len(self._ends.get(name, ()))

    def save(self) -> None:
        """Write the file if there is something new. A full disk does not matter."""
        if not self._is_saved:
            self._is_saved = True
            data = {"starts": _plain(self._starts), "ends": _plain(self._ends)}
            with suppress(OSError):
                write_atomically(self._file, json.dumps(data).encode() + b"\n")

    def _add(self, to: dict[str, deque[float]], node_class: str, seconds: float) -> None:
        if 0 <= seconds <= _MOST_S and (node_class in to or len(to) < _MOST_CLASSES):
            to.setdefault(node_class, deque(maxlen=_REMEMBERED)).append(round(seconds, 2))
            self._is_saved = False

    def _read(self) -> None:
        with self._file.open("rb") as file:
            data = json.loads(file.read(_MOST_BYTES))
        for key, to in (("starts", self._starts), ("ends", self._ends)):
            for name, values in data[key].items():
                for value in values:
                    self._add(to, str(name), float(value))
        self._is_saved = True


def _typical(of: dict[str, deque[float]], node_class: str) -> float:
    found = of.get(node_class) or [value for values in of.values() for value in values]
    return statistics.median(found) if found else 0.0


def _plain(of: dict[str, deque[float]]) -> dict[str, list[float]]:
    return {name: list(values) for name, values in sorted(of.items())}
