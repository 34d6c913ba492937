"""The log of BFTrainer's authors: a pickled pandas table with a row per event and a column per node, 1 where it is idle.

The pickle is read as data (:mod:`~bftrainer_replay.logs.pickle_text`): neither pandas nor anything that the file names is
run. Checked with the authors' ndstat-10sdn6-evt (pandas 1.x, protocol 4), as a plain file and in a .tar.gz.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bftrainer.domain.events import PoolChanged
from bftrainer.errors import InputFileError
from bftrainer_replay.archives import TAR_DAMAGE, is_archive, members
from bftrainer_replay.logs.model import EventLog, PoolEvent
from bftrainer_replay.logs.pickle_text import PickledCall, PickledName, PickleError, load
from bftrainer_replay.text_files import damaged, open_bytes, read_head

_LONGEST_NAME = 4096
_PIECE = 64 * 1024
_UNITS = {b"s": 1e-0, b"ms": 1e-3, b"us": 1e-6, b"ns": 1e-9}


def recognizes(path: Path, head: bytes) -> bool:
    """A pickle of protocol 2 to 5, or a tar archive (its first file is read)."""
    del path
    return _is_pickle(head) or is_archive(head)


def _is_pickle(head: bytes) -> bool:
    return len(head) > 2 and head[0] == 0x80 and 2 <= head[1] <= 5


def read(path: Path, most: int | None = None) -> EventLog:
    """The log, of at most ``most`` bytes. Raises :class:`InputFileError` for anything that is not such a table."""
    try:
        with open_bytes(path, most) as file:
            if _is_pickle(read_head(path)):
                return EventLog(_events(load(_Readable(file))), source=str(path))
            for member in members(path, file):
                start = member.read(8)
                if not _is_pickle(start):
                    break
                return EventLog(_events(load(_Readable(member, start))), source=str(path))
            raise InputFileError(
                str(path), "tar archive does not begin with a pickle, expected the log of BFTrainer's authors"
            )
    except PickleError as error:
        raise InputFileError(str(path), f"{error}; expected the idle-node table of BFTrainer's authors") from error
    except InputFileError:
        raise
    except TAR_DAMAGE as error:
        raise damaged(str(path), error) from error


class _Source(Protocol):
    """What a file and a member of an archive share."""

    def read(self, size: int, /) -> bytes: ...


class _Readable:
    """The two methods that :func:`pickletools.genops` needs. ``tell`` is left out: it would cost a seek per opcode.

    A pickle may announce a string of any length: it is read in pieces, so that one that is not there takes no memory.
    """

    def __init__(self, file: _Source, start: bytes = b"") -> None:
        self._file, self._buffer = file, start
        self._at = 0

    def read(self, size: int) -> bytes:
        end = self._at + size
        if end <= len(self._buffer):
            data = self._buffer[self._at : end]
            self._at = end
            return data
        pieces, got = [self._buffer[self._at :]], len(self._buffer) - self._at
        self._buffer, self._at = b"", 0
        while got < size and (piece := self._file.read(_PIECE)):
            pieces.append(piece)
            got += len(piece)
        if got > size:
            over = got - size
            self._buffer = pieces[-1][-over:]
            pieces[-1] = pieces[-1][:-over]
        return b"".join(pieces)

    def readline(self) -> bytes:
        data = self.read(_LONGEST_NAME)
        end = data.find(b"\n") + 1 or len(data)
        self._buffer, self._at = data[end:] + self._buffer[self._at :], 0
        return data[:end]


def _events(table: Any) -> tuple[PoolEvent, ...]:
    names, times, idle = _table(table)
    if len(times) < 2:
        raise PickleError(f"the table has {len(times)} rows, expected at least two")
    if not np.all(np.diff(times) > 0):
        raise PickleError("the table's times do not increase")
    if not np.isin(idle, (0, 1)).all():
        raise PickleError("the table has values other than 0 and 1")
    name_of = np.array(names, dtype=object)
    events = [PoolEvent(float(times[0]), PoolChanged(frozenset(name_of[idle[:, 0] == 1].tolist())))]
    for row in range(1, len(times)):
        before, now = idle[:, row - 1], idle[:, row]
        changed = np.flatnonzero(before != now)
        joined, left = name_of[changed[now[changed] == 1]].tolist(), name_of[changed[now[changed] == 0]].tolist()
        events.append(PoolEvent(round(float(times[row]), 3), PoolChanged(frozenset(joined), frozenset(left))))
    return tuple(events)


def _table(frame: Any) -> tuple[list[str], NDArray[np.float64], NDArray[np.int8]]:
    """Node names, times, and the values as nodes x rows, from a DataFrame with one block of int8."""
    state = _state(frame, "pandas.core.frame.DataFrame")
    manager = state.get("_mgr") or state.get("_data") if isinstance(state, dict) else None
    parts = _state(manager, "pandas.core.internals.managers.BlockManager")
    if not isinstance(parts, tuple) or len(parts) < 3 or not all(isinstance(part, list) for part in parts[:3]):
        raise PickleError("the table has an unknown layout")
    axes, blocks = parts[0], parts[1]
    if len(axes) != 2 or len(blocks) != 1:
        raise PickleError(f"the table has {len(blocks)} blocks of values, expected one")
    names = _array(_data(axes[0]))
    times = _array(_data(axes[1]))
    values = _array(blocks[0])
    if not isinstance(names, list) or not all(
        isinstance(name, str) and name and not name.split()[1:] for name in names
    ):
        raise PickleError("the table's columns are not node names")
    if isinstance(times, list) or times.dtype != np.float64:
        raise PickleError("the table's rows have no times")
    if isinstance(values, list) or values.dtype != np.int8 or values.shape != (len(names), len(times)):
        raise PickleError("the table's values are not one int8 for each node and time")
    if len(set(names)) != len(names):
        raise PickleError("the table has a node twice")
    return names, times, values


def _state(value: Any, what: str) -> Any:
    if not isinstance(value, PickledCall) or value.what != PickledName(what):
        raise PickleError(f"a {what.rpartition('.')[2]} is missing")
    return value.state


def _data(index: Any) -> Any:
    """The content of an index: an array, or an array inside another object."""
    if (
        not isinstance(index, PickledCall)
        or not isinstance(index.arguments, tuple)
        or not isinstance(index.arguments[-1], dict)
    ):
        raise PickleError("an index has an unknown layout")
    data = index.arguments[-1].get("data")
    if isinstance(data, PickledCall) and isinstance(data.state, dict):
        data = data.state.get("_data") or data.state.get("_ndarray")
    return data


def _array(value: Any) -> Any:
    """A numpy array from its pickled state: a list of objects, an int8 matrix, or times in seconds."""
    state = value.state if isinstance(value, PickledCall) else None
    if not isinstance(state, tuple) or len(state) != 5 or not isinstance(state[2], PickledCall):
        raise PickleError("an array has an unknown layout")
    _, shape, kind, by_columns, data = state
    if not isinstance(kind.arguments, tuple) or not kind.arguments:
        raise PickleError("an array has an unknown type")
    code = kind.arguments[0]
    if code == "O8" and isinstance(data, list):
        return data
    if not isinstance(shape, tuple) or not isinstance(data, bytes) or code not in ("i1", "b1", "M8"):
        kind_of = code[:20] if isinstance(code, str) else type(code).__name__
        raise PickleError(f"an array has the unknown type {kind_of!r}")
    try:
        if code == "M8":
            unit = kind.state[-1][1][0]
            if not isinstance(unit, bytes):  # a nested tuple must not be hashed
                raise PickleError("an array has times of an unknown unit")
            order = "<" if kind.state[1] in "<|" else ">"
            return np.frombuffer(data, dtype=f"{order}i8").reshape(shape) * _UNITS[unit]
        return np.frombuffer(data, dtype=np.int8).reshape(shape, order="F" if by_columns else "C")
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise PickleError("an array's bytes do not match its shape") from error
