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
"""Number of rows in a part."""
_NEVER, _UNKNOWN = 2**32 - 2, 2**32 - 1  # stand for infinity and NaN, and are sorted like them


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """A column of times, in seconds since 1970 (NaN: unknown, infinity: never). Its items and
    slices are arrays of floats.

    ``packed`` has an unsigned integer of four bytes per time if all are whole seconds, else a float
    of eight.
    """

    packed: NDArray[Any]

    @classmethod
    def from_seconds(cls, times: NDArray[np.float64]) -> Times:
        return cls(_packed_times(times))

    @classmethod
    def from_parts(cls, parts: Iterable[NDArray[np.float64]]) -> Times:
        """Concatenate arrays of times, taking memory for one at a time."""
        column = Column("d")
        for part in parts:
            column.append_packed(part)
        return cls(column.values())

    def __len__(self) -> int:
        return len(self.packed)

    def __getitem__(self, selection: Any) -> NDArray[np.float64]:
        packed = self.packed[selection]
        times: NDArray[np.float64] = packed.astype(np.float64)
        if packed.dtype != np.float64:
            times[packed == _UNKNOWN] = np.nan
            times[packed == _NEVER] = np.inf
        return times

    def selected(self, selection: Any) -> Times:
        """Return the times that an index array, a mask or a slice selects."""
        return Times(self.packed[selection])

    def replaced(self, positions: NDArray[np.int64], times: NDArray[np.float64]) -> Times:
        """Return a copy in which ``times[k]`` replaces the time at ``positions[k]``.

        If the new times do not fit into the column's integers of four bytes, all become floats.
        """
        new = _packed_times(times)
        if new.dtype == self.packed.dtype:
            packed = self.packed.copy()
            packed[positions] = new
            return Times(packed)
        unpacked = self[:]
        unpacked[positions] = times
        return Times(unpacked)

    def extended(self, times: NDArray[np.float64]) -> Times:
        """Return a copy with ``times`` appended."""
        new = _packed_times(times)
        if new.dtype == self.packed.dtype:
            return Times(np.concatenate((self.packed, new)))
        return Times(np.concatenate((self[:], times)))

    def count_until(self, at_s: float) -> int:
        """Return how many times are ``at_s`` or earlier; call this only on times in order."""
        is_whole = self.packed.dtype != np.float64
        # A key of the column's own type: for any other, numpy would convert the whole column.
        key = np.uint32(max(at_s, 0)) if is_whole else at_s
        return int(np.searchsorted(self.packed, key, side="right"))


def parts_of(count: int) -> Iterator[slice]:
    """Yield slices that cover ``count`` rows, a million at a time: work on all rows then takes
    memory for one part.
    """
    for begin in range(0, count, AT_ONCE):
        yield slice(begin, min(begin + AT_ONCE, count))


def counts_of(members: NDArray[Any], limit: int) -> NDArray[np.int64]:
    """Return how often each number from 0 to ``limit`` - 1 occurs in ``members``."""
    counts = np.zeros(limit, dtype=np.int64)
    for part in parts_of(len(members)):
        counts += np.bincount(members[part], minlength=limit)
    return counts


def started_or(start_s: Times, else_s: Times, part: slice) -> NDArray[np.float64]:
    """Return the start of each job of a part or, for a job that never started, its time in
    ``else_s``.
    """
    starts_s = start_s[part]
    return np.where(np.isnan(starts_s), else_s[part], starts_s)


def _packed_times(times: NDArray[np.float64]) -> NDArray[Any]:
    """Return the times as unsigned integers of four bytes, if all are whole seconds in that range.

    Else they are returned unchanged. Infinity and NaN have integers that stand for them.
    """
    finite = times[~np.isnan(times) & (times != np.inf)]
    if not ((finite >= 0) & (finite < _NEVER) & (finite == np.floor(finite))).all():
        return times
    without_never = np.where(times == np.inf, _NEVER, times)
    return np.where(np.isnan(times), _UNKNOWN, without_never).astype(np.uint32)


class Column:
    """A column that grows. Values are appended to ``unpacked``, which :meth:`pack` moves to an
    array with fewer bytes per value.

    ``kind`` is the type code of ``unpacked``: ``d`` for times, ``i`` for whole numbers.
    """

    def __init__(self, kind: str) -> None:
        self.unpacked: array[Any] = array(kind)
        self._packed: array[Any] = array("I" if kind == "d" else "h")

    def pack(self) -> None:
        """Move the unpacked values to the end of the packed ones."""
        new = np.array(self.unpacked)
        del self.unpacked[:]
        self.append_packed(new)

    def append_packed(self, new: NDArray[Any]) -> None:
        """Append values to those that are packed, in as few bytes as all of them need.

        A wider value widens the column.
        """
        is_time = new.dtype == np.float64
        narrow = _packed_times(new) if is_time else _narrowed_numbers(new)
        if narrow.dtype.itemsize > self._packed.itemsize:
            packed = np.array(self._packed)
            widened = Times(packed)[:] if is_time else packed.astype(new.dtype)
            self._packed = array(new.dtype.char, widened.tobytes())
        # Once the column has been widened, values that would fit in fewer bytes are stored wide.
        has_type = narrow.dtype.char == self._packed.typecode
        self._packed.frombytes((narrow if has_type else new).tobytes())

    def values(self) -> NDArray[Any]:
        """Return all values, packed, in an array that shares memory with the column."""
        self.pack()
        return np.frombuffer(self._packed, dtype=self._packed.typecode)


def _narrowed_numbers(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers in two bytes each if the largest fits, else unchanged."""
    return numbers.astype(np.int16) if numbers.max(initial=0) < 2**15 else numbers
