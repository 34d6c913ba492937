"""Columns of a log's jobs in as few bytes as their values take: a log may have 44 million jobs with
five times each.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

TIMES = ("submit_s", "eligible_s", "start_s", "end_s", "limit_s")
AT_ONCE = 1_000_000
"""Number of jobs of which something is worked out together."""
_NEVER, _UNKNOWN = 2**32 - 2, 2**32 - 1  # infinity and NaN, which are sorted like these


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """Seconds since 1970; its parts are arrays of floats. ``kept`` has four bytes each if all are
    whole, else eight.
    """

    kept: NDArray[Any]

    @classmethod
    def of(cls, times: NDArray[np.float64]) -> Times:
        return cls(_packed(times))

    @classmethod
    def gathered(cls, parts: Iterable[NDArray[np.float64]]) -> Times:
        """Concatenate arrays of times, taking memory for one at a time."""
        column = Column("d")
        for part in parts:
            column.keep(part)
        return cls(column.values())

    def __len__(self) -> int:
        return len(self.kept)

    def __getitem__(self, which: Any) -> NDArray[np.float64]:
        kept = self.kept[which]
        times: NDArray[np.float64] = kept.astype(np.float64)
        if kept.dtype != np.float64:
            times[kept == _UNKNOWN] = np.nan
            times[kept == _NEVER] = np.inf
        return times

    def only(self, which: Any) -> Times:
        return Times(self.kept[which])

    def changed(self, which: NDArray[np.int64], times: NDArray[np.float64]) -> Times:
        """Return a copy in which the times at the places ``which`` are replaced."""
        new = _packed(times)
        same = new.dtype == self.kept.dtype
        kept = self.kept.copy() if same else self[:]
        kept[which] = new if same else times
        return Times(kept)

    def plus(self, times: NDArray[np.float64]) -> Times:
        """Return a copy with more times at the end."""
        new = _packed(times)
        if new.dtype == self.kept.dtype:
            return Times(np.concatenate((self.kept, new)))
        return Times(np.concatenate((self[:], times)))

    def until(self, at_s: float) -> int:
        """How many are at ``at_s`` or earlier, if they are in order."""
        is_whole = self.kept.dtype != np.float64
        return int(
            np.searchsorted(self.kept, np.uint32(max(at_s, 0)) if is_whole else at_s, side="right")
        )


def parts_of(jobs: int) -> Iterator[slice]:
    """All jobs, a million at a time: what is worked out for each of them takes memory for a
    part.
    """
    for begin in range(0, jobs, AT_ONCE):
        yield slice(begin, min(begin + AT_ONCE, jobs))


def counts_of(members: NDArray[Any], names: int) -> NDArray[np.int64]:
    """How often each number below ``names`` is there."""
    counts = np.zeros(names, dtype=np.int64)
    for part in parts_of(len(members)):
        counts += np.bincount(members[part], minlength=names)
    return counts


def started_or(start_s: Times, else_s: Times, part: slice) -> NDArray[np.float64]:
    """Starts, and other times of those that never started."""
    started = start_s[part]
    return np.where(np.isnan(started), else_s[part], started)


def _packed(times: NDArray[np.float64]) -> NDArray[Any]:
    events = times[~np.isnan(times) & (times != np.inf)]
    if not ((events >= 0) & (events < _NEVER) & (events == np.floor(events))).all():
        return times
    return np.where(np.isnan(times), _UNKNOWN, np.where(times == np.inf, _NEVER, times)).astype(
        np.uint32
    )


class Column:
    """A column that grows: ``last`` are the values as they are added, of type ``d`` (times) or
    ``i``, until :meth:`pack`.
    """

    def __init__(self, kind: str) -> None:
        self.last: array[Any] = array(kind)
        self._kept: array[Any] = array("I" if kind == "d" else "h")

    def pack(self) -> None:
        """Keep the last values with the others."""
        new = np.array(self.last)
        del self.last[:]
        self.keep(new)

    def keep(self, new: NDArray[Any]) -> None:
        """Append values to those that are packed, in as few bytes as they all need; a wider value
        widens the column.
        """
        is_time = new.dtype == np.float64
        small = (
            _packed(new) if is_time else new.astype(np.int16) if new.max(initial=0) < 2**15 else new
        )
        if small.dtype.itemsize > self._kept.itemsize:
            kept = np.array(self._kept)
            self._kept = array(
                new.dtype.char, (Times(kept)[:] if is_time else kept.astype(new.dtype)).tobytes()
            )
        self._kept.frombytes((small if small.dtype.char == self._kept.typecode else new).tobytes())

    def values(self) -> NDArray[Any]:
        """All values, which share memory with the column."""
        self.pack()
        return np.frombuffer(self._kept, dtype=self._kept.typecode)
