"""An event log that grows row by row and is complete after every row, even if its writer
crashes.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bftrainer.decide.domain.state import Nodes
from bftrainer.errors import InputFileError, StoreError, UserError
from bftrainer.system.locks import NotLockableError, OwnerLock
from bftrainer.system.regular import NotRegularError, open_regular_to_append
from bftrainer.system.umask import users_mode
from bftrainer_replay.csv_tables import csv_bytes
from bftrainer_replay.logs.annotations import NOT_VISIBLE
from bftrainer_replay.logs.event_log import (
    RECORDED,
    UNKNOWN,
    format_time,
    gpu_comment,
    read_event_log,
    words,
)
from bftrainer_replay.recording.samples import DebouncedSample

_HEADER = f"{','.join(RECORDED)}\n"
_BEGINNING_OF_ROW = re.compile(
    rb"[0-9T:.+Z-]*(,[^\n\0]*)?\0*"
)  # zeros: the file system had none of its data yet
_TICK_S = 0.001  # times are written in milliseconds


@dataclass(frozen=True, slots=True)
class LastRow:
    """The state at the end of a file: the time of its last row, the nodes idle then, and whether
    that row begins a gap.
    """

    at_s: float
    idle: Nodes
    in_gap: bool


class RecordFile:
    """The file of a recording, locked for one recorder. An incomplete last line, which only a
    system crash leaves, is truncated, once all others have proved to be rows.

    ``last`` is the last row, None without any; ``truncated_bytes`` is the length of the incomplete
    line. Rows must be written in order of time.
    """

    def __init__(self, path: Path, by_gpu: bool = False) -> None:
        self.path, self.by_gpu = path, by_gpu
        self.truncated_bytes = 0
        self.last: LastRow | None = None
        if path.suffix != ".csv":
            raise UserError(
                f"--out {path}: expected a name ending in .csv; compress the file when it is "
                "complete"
            )
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._handle = open_regular_to_append(path, users_mode(0o666))
        except NotRegularError as error:
            raise UserError(f"--out {path}: is not a regular file") from error
        except OSError as error:
            raise UserError(f"--out {path}: cannot be written: {error.strerror}") from error
        self._use = OwnerLock(path)
        try:
            self._lock()
            self._resume()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        os.close(self._handle)
        self._use.release()

    def write(self, now: DebouncedSample) -> None:
        """Append a state, as changes since the row before."""
        before = Nodes() if self.last is None else self.last.idle
        joined, left = now.idle - before, before - now.idle
        in_order = sorted if now.per_node is None else words
        if not self._size:
            self._append_bytes(gpu_comment(now.per_node or {}) + _HEADER.encode())
        self._append(
            [
                format_time(now.at_s),
                " ".join(in_order(joined)),
                " ".join(in_order(left)),
                str(now.machine_nodes),
                _waiting_text(now),
            ]
        )
        self.last = LastRow(now.at_s, now.idle, in_gap=False)

    def write_gap(self) -> None:
        """Begin a gap after the last row, unless the file is empty or already in a gap."""
        if self.last is None or self.last.in_gap:
            return
        at_s = self.last.at_s + _TICK_S
        self._append([format_time(at_s), "", UNKNOWN, "", ""])
        self.last = LastRow(at_s, Nodes(), in_gap=True)

    def _lock(self) -> None:
        with suppress(NotLockableError):  # whether another recorder uses it is unknown
            if not self._use.acquire():
                raise UserError(
                    f"--out {self.path}: in use by another recorder; specify another file"
                )

    def _resume(self) -> None:
        """Read the state at the end of the file, truncate an incomplete last line, and write the
        header of a new file. Raises :class:`InputFileError` if the file is no recording.
        """
        with os.fdopen(os.dup(self._handle), "rb") as file:
            file.seek(0)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        header = _HEADER.encode()
        comment, table = data.partition(b"\n")[0], data
        if is_by_gpu := comment.startswith(b"# unit=gpu"):
            table = data[len(comment) + 1 :]
        if not header.startswith(table[: len(header)]) or (data and is_by_gpu != self.by_gpu):
            what = (
                f"is not a recorded log {'by GPU' if self.by_gpu else 'by node'}; specify "
                "another file with --out"
            )
            raise InputFileError(str(self.path), what)
        if table.count(b"\n") > 1:
            log = read_event_log(self.path, whole_lines_only=True)
            idle: frozenset[str] = frozenset()
            for event in log.events:
                idle = (idle - event.change.left) | event.change.joined
            in_gap = whole.rstrip(b"\n").rpartition(b"\n")[2].split(b",")[2] == UNKNOWN.encode()
            self.last = LastRow(log.events[-1].at_s, idle, in_gap)
        # Every line has proved to be a recorder's: only now is anything removed.
        torn = data[len(whole) :]
        if whole.endswith(header) or self.last is not None:
            self._check_is_beginning_of_row(torn)
        self.truncated_bytes = len(torn)
        if torn:
            os.ftruncate(self._handle, len(whole))
        self._size = len(whole)
        if not whole and not self.by_gpu:
            self._append_bytes(header)

    def _check_is_beginning_of_row(self, torn: bytes) -> None:
        """Refuse a last line that no crash can have left of a row, which begins with its time."""
        if not _BEGINNING_OF_ROW.fullmatch(torn):
            what = (
                f"ends with {torn[:60]!r}, which is no row of a recorded log; specify "
                "another file with --out"
            )
            raise InputFileError(str(self.path), what)

    def _append(self, row: list[str]) -> None:
        self._append_bytes(csv_bytes(row, ()))

    def _append_bytes(self, data: bytes) -> None:
        """Append with one write and flush it to disk; an incomplete write is undone."""
        try:
            if os.write(self._handle, data) != len(data):
                raise OSError(0, "the disk is full")
            os.fsync(self._handle)
        except OSError as error:
            os.ftruncate(self._handle, self._size)
            raise StoreError(f"{self.path}: cannot be written: {error.strerror}") from error
        self._size += len(data)


def _waiting_text(sample: DebouncedSample) -> str:
    """The size of the smallest waiting job, as the file has it."""
    if sample.queue_hidden:
        return NOT_VISIBLE
    return "" if sample.smallest is None else str(sample.smallest)
