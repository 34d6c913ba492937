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
    """Collects the annotations row by row, in order of time. ``machine_nodes`` is the largest
    number of nodes in any row.
    """

    machine_nodes: int | None = None
    _gaps: list[tuple[float, float]] = field(default_factory=list)  # (start, end), both in s
    _gap_start_s: float | None = None  # of the gap that is still open
    # (time, size of the smallest waiting job) of each row; None: no job waits.
    _waiting: list[tuple[float, int | None]] = field(default_factory=list)
    _is_queue_hidden: bool = False  # in at least one row

    def add(
        self, where: str, at_s: float, is_unknown: bool, nodes: str = "", waiting: str = ""
    ) -> None:
        """Add what one row of an event log tells besides the nodes: gaps, cluster size, smallest
        waiting job.

        ``nodes`` and ``waiting`` are the texts of these cells, empty in logs without the columns.
        ``is_unknown``: a gap begins or goes on at this row. ``where`` is the file and line, for the
        message of an :class:`InputFileError`.
        """
        if is_unknown:
            self._gap_start_s = at_s if self._gap_start_s is None else self._gap_start_s
        elif self._gap_start_s is not None:
            self._gaps.append((self._gap_start_s, at_s))
            self._gap_start_s = None
        if size := _parse_count(where, "nodes", nodes):
            self.machine_nodes = max(size, self.machine_nodes or 0)
        if waiting == NOT_VISIBLE:
            self._is_queue_hidden = True
        else:
            self._waiting.append((at_s, _parse_count(where, "waiting", waiting)))

    def gaps(self, end_s: float) -> tuple[tuple[float, float], ...]:
        """Return the gaps as (start, end); a gap that is still open extends to ``end_s``, the end
        of the log.
        """
        if self._gap_start_s is None or self._gap_start_s >= end_s:
            return tuple(self._gaps)
        return (*self._gaps, (self._gap_start_s, end_s))

    def queue(self, end_s: float) -> Queue | None:
        """Return the log's queue, which has only the smallest waiting job at any time; None if
        unknown.

        There is one job for each period in which the size of the smallest waiting job was the same.
        ``end_s`` is the end of the log. Unknown: waiting jobs were hidden at some time, or the log
        does not have the size of the cluster.
        """
        if self._is_queue_hidden or self.machine_nodes is None:
            return None
        # (time, size) at which the size changes; a period ends where the next begins.
        changes = [
            (at_s, size)
            for k, (at_s, size) in enumerate(self._waiting)
            if k == 0 or self._waiting[k - 1][1] != size
        ]
        ends_s = [at_s for at_s, _ in changes[1:]] + [end_s]
        periods = [
            (at_s, until_s, size)
            for (at_s, size), until_s in zip(changes, ends_s, strict=True)
            if size is not None
        ]
        begin, end = (
            Times.from_seconds(np.array([period[column] for period in periods], dtype=np.float64))
            for column in range(2)
        )
        sizes = np.array([size for _, _, size in periods], dtype=np.int64)
        # Each of these jobs waits from the beginning to the end of its period.
        return Queue(eligible_s=begin, start_s=end, end_s=end, nodes=sizes, only_smallest=True)


def gap_note(gaps: tuple[tuple[float, float], ...]) -> str:
    """Return the note that goes with every result of a log with gaps; empty without gaps."""
    if not gaps:
        return ""
    hours = sum(end_s - start_s for start_s, end_s in gaps) / 3600
    return (
        f"{counted(len(gaps), 'gap')} in the record, {hours:,.2f} h in all: no data for that time, "
        "and no node counts as idle in it"
    )


def _parse_count(where: str, column: str, text: str) -> int | None:
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
