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
# Zeros at the end: the file system had extended the file, but not yet written its data.
_BEGINNING_OF_ROW = re.compile(rb"[0-9T:.+Z-]*(,[^\n\0]*)?\0*")
_TICK_S = 0.001  # times are written in milliseconds


@dataclass(frozen=True, slots=True)
class LastRow:
    """The state at the end of a file: the time of its last row, the nodes idle at that time, and
    whether this row begins a gap.
    """

    at_s: float
    idle: Nodes
    begins_gap: bool


class RecordFile:
    """The file of a recording, locked for one recorder. An incomplete last line, which only a
    system crash leaves, is truncated, but not before all other lines have proved to be rows.

    ``by_gpu``: the unit of the recording is a GPU. ``last_row`` is None in a file without rows;
    ``truncated_bytes`` is the length of the incomplete line. Rows must be written in order of time.
    The constructor raises :class:`UserError` for a file that cannot be used, and
    :class:`InputFileError` for one that is no recording.
    """

    def __init__(self, path: Path, by_gpu: bool = False) -> None:
        """Open and lock the file, and read where an earlier recording ended.

        Raises as the class says; nothing stays open then.
        """
        self.path, self.by_gpu = path, by_gpu
        self.truncated_bytes = 0
        self.last_row: LastRow | None = None
        if path.suffix != ".csv":
            raise UserError(
                f"--out {path}: expected a name ending in .csv; compress the file when it is "
                "complete"
            )
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = open_regular_to_append(path, users_mode(0o666))
        except NotRegularError as error:
            raise UserError(f"--out {path}: is not a regular file") from error
        except OSError as error:
            raise UserError(f"--out {path}: cannot be written: {error.strerror}") from error
        self._owner_lock = OwnerLock(path)
        try:
            self._lock_file()
            self._resume_file()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close and unlock the file."""
        os.close(self._descriptor)
        self._owner_lock.release()

    def write(self, sample: DebouncedSample) -> None:
        """Append a state as one row, which has the changes since the row before."""
        idle_before = Nodes() if self.last_row is None else self.last_row.idle
        joined, left = sample.idle - idle_before, idle_before - sample.idle
        as_words = sorted if sample.per_node is None else words
        if not self._size:
            # Only by GPU: the first line lists the GPUs of each node, known with the first sample.
            self._append_bytes(gpu_comment(sample.per_node or {}) + _HEADER.encode())
        self._append_row(
            [
                format_time(sample.at_s),
                " ".join(as_words(joined)),
                " ".join(as_words(left)),
                str(sample.machine_nodes),
                _waiting_text(sample),
            ]
        )
        self.last_row = LastRow(sample.at_s, sample.idle, begins_gap=False)

    def write_gap(self) -> None:
        """Begin a gap after the last row, unless the file is empty or already in a gap."""
        if self.last_row is None or self.last_row.begins_gap:
            return
        at_s = self.last_row.at_s + _TICK_S
        self._append_row([format_time(at_s), "", UNKNOWN, "", ""])
        self.last_row = LastRow(at_s, Nodes(), begins_gap=True)

    def _lock_file(self) -> None:
        with suppress(NotLockableError):  # whether another recorder uses it is unknown
            if not self._owner_lock.acquire():
                raise UserError(
                    f"--out {self.path}: in use by another recorder; specify another file"
                )

    def _resume_file(self) -> None:
        """Read the state at the end of the file, and make it ready for the next row.

        An incomplete last line is truncated, and a new file gets its header. Raises
        :class:`InputFileError` if the file is no recording.
        """
        with os.fdopen(os.dup(self._descriptor), "rb") as file:
            file.seek(0)
            data = file.read()
        lines = data[: data.rfind(b"\n") + 1]  # without an incomplete last line
        incomplete_line = data[len(lines) :]
        header = _HEADER.encode()
        first_line = data.partition(b"\n")[0]
        is_by_gpu = first_line.startswith(b"# unit=gpu")
        table = data[len(first_line) + 1 :] if is_by_gpu else data
        # A file that ends within its header is that of a crash, too.
        is_recording = header.startswith(table[: len(header)])
        if not is_recording or (data and is_by_gpu != self.by_gpu):
            unit = "by GPU" if self.by_gpu else "by node"
            raise InputFileError(
                str(self.path),
                f"is not a recorded log {unit}; specify another file with --out",
            )
        if table.count(b"\n") > 1:
            self.last_row = self._read_last_row(lines)
        if lines.endswith(header) or self.last_row is not None:
            self._check_is_beginning_of_row(incomplete_line)
        # Every line has proved to be a recorder's: only now is anything removed.
        self.truncated_bytes = len(incomplete_line)
        if incomplete_line:
            os.ftruncate(self._descriptor, len(lines))
        self._size = len(lines)
        if not lines and not self.by_gpu:
            self._append_bytes(header)

    def _read_last_row(self, lines: bytes) -> LastRow:
        """Return the state at the end of the file, and check all of its rows.

        ``lines`` are the complete lines of the file.
        """
        log = read_event_log(self.path, whole_lines_only=True)
        idle: frozenset[str] = frozenset()
        for event in log.events:
            idle = (idle - event.change.left) | event.change.joined
        last_line = lines.rstrip(b"\n").rpartition(b"\n")[2]
        # The third column has the nodes that left.
        begins_gap = last_line.split(b",")[2] == UNKNOWN.encode()
        return LastRow(log.events[-1].at_s, idle, begins_gap)

    def _check_is_beginning_of_row(self, torn: bytes) -> None:
        """Refuse an incomplete last line that is not the beginning of a row, and so not from a
        crash.
        """
        if not _BEGINNING_OF_ROW.fullmatch(torn):
            problem = (
                f"ends with {torn[:60]!r}, which is no row of a recorded log; specify "
                "another file with --out"
            )
            raise InputFileError(str(self.path), problem)

    def _append_row(self, row: list[str]) -> None:
        self._append_bytes(csv_bytes(row, ()))

    def _append_bytes(self, data: bytes) -> None:
        """Append with one write and flush it to disk; undo an incomplete write.

        Raises :class:`StoreError`.
        """
        try:
            if os.write(self._descriptor, data) != len(data):
                raise OSError(0, "the disk is full")
            os.fsync(self._descriptor)
        except OSError as error:
            os.ftruncate(self._descriptor, self._size)
            raise StoreError(f"{self.path}: cannot be written: {error.strerror}") from error
        self._size += len(data)


def _waiting_text(sample: DebouncedSample) -> str:
    """Return the size of the smallest waiting job as text of its cell; empty if no job waits."""
    if sample.is_queue_hidden:
        return NOT_VISIBLE
    return "" if sample.smallest is None else str(sample.smallest)
