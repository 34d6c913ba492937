"""The annotations of a recorded event log: gaps, the number of nodes, the smallest waiting job."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from bftrainer.counted import counted
from bftrainer.errors import InputFileError
from bftrainer_replay.logs.columns import Times
from bftrainer_replay.logs.model import Queue

NOT_VISIBLE = "?"
"""The text in the column ``waiting`` if the site hides other users' jobs."""
_MOST = 10**9


@dataclass
class LogAnnotations:
    """Collected row by row, in order of time. ``machine_nodes`` is the largest number of nodes in
    any row.
    """

    machine_nodes: int | None = None
    _gaps: list[tuple[float, float]] = field(default_factory=list)
    _gap_since: float | None = None
    _waiting: list[tuple[float, int | None]] = field(default_factory=list)
    _queue_hidden: bool = False

    def add(
        self, where: str, at_s: float, is_unknown: bool, nodes: str = "", waiting: str = ""
    ) -> None:
        """Add a row of the event log; ``nodes`` and ``waiting`` are the texts of these cells, empty
        in logs without the columns.
        """
        if is_unknown:
            self._gap_since = at_s if self._gap_since is None else self._gap_since
        elif self._gap_since is not None:
            self._gaps.append((self._gap_since, at_s))
            self._gap_since = None
        if size := _count(where, "nodes", nodes):
            self.machine_nodes = max(size, self.machine_nodes or 0)
        if waiting == NOT_VISIBLE:
            self._queue_hidden = True
        else:
            self._waiting.append((at_s, _count(where, "waiting", waiting)))

    def gaps(self, end_s: float) -> tuple[tuple[float, float], ...]:
        """Return the gaps as (start, end); a gap that is still open extends to ``end_s``, the end
        of the log.
        """
        last = (
            ((self._gap_since, end_s),)
            if self._gap_since is not None and self._gap_since < end_s
            else ()
        )
        return (*self._gaps, *last)

    def queue(self, end_s: float) -> Queue | None:
        """Return a queue that has only the smallest waiting job, as one job for each period in
        which its size was the same.

        None if waiting jobs were hidden at any time, or the size of the cluster is not known.
        """
        if self._queue_hidden or self.machine_nodes is None:
            return None
        steps = [
            (at_s, size)
            for k, (at_s, size) in enumerate(self._waiting)
            if not k or self._waiting[k - 1][1] != size
        ]
        ends = [at_s for at_s, _ in steps[1:]] + [end_s]
        jobs = [
            (at_s, until_s, size)
            for (at_s, size), until_s in zip(steps, ends, strict=True)
            if size is not None
        ]
        begin, end = (
            Times.of(np.array([job[column] for job in jobs], dtype=np.float64))
            for column in range(2)
        )
        return Queue(
            begin, end, end, np.array([job[2] for job in jobs], dtype=np.int64), only_smallest=True
        )


def gap_note(gaps: tuple[tuple[float, float], ...]) -> str:
    """Return the note that goes with every result of a log with gaps; empty without gaps."""
    if not gaps:
        return ""
    hours = sum(end_s - start_s for start_s, end_s in gaps) / 3600
    what = counted(len(gaps), "gap")
    return (
        f"{what} in the record, {hours:,.2f} h in all: no data for that time, and no node "
        "counts as idle in it"
    )


def _count(where: str, column: str, text: str) -> int | None:
    """Parse a cell of ``column``: a whole number above 0, or None for an empty cell. Raises
    :class:`InputFileError`.
    """
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 12 and 0 < int(text) < _MOST):
        raise InputFileError(
            where, f"{column} is {text!r:.40}, expected a whole number above 0, or an empty cell"
        )
    return int(text)
