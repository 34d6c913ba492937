"""An event log that grows row by row and is whole after every one, whatever happens to its writer."""

from __future__ import annotations

import csv
import fcntl
import io
import os
from dataclasses import dataclass
from pathlib import Path

from bftrainer.domain.state import Nodes
from bftrainer.errors import InputFileError, StoreError, UserError
from bftrainer_replay.logs.event_log import RECORDED, UNKNOWN, format_time, read_event_log
from bftrainer_replay.logs.marks import NOBODY_CAN_TELL
from bftrainer_replay.recording.looks import Settled

_HEADER = f"{','.join(RECORDED)}\n"
_TICK_S = 0.001  # times are written in milliseconds


@dataclass(frozen=True, slots=True)
class Left:
    """What a file says at its end: the time of its last row, the nodes idle then, whether nothing is known since."""

    at_s: float
    idle: Nodes
    in_gap: bool


class RecordFile:
    """The file, locked for one recorder. A half line, which only a crash of the machine leaves, is cut off.

    ``last`` is the last row, None without any; ``mended`` how many bytes were cut off. Rows must come in order of time.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.mended = 0
        self.last: Left | None = None
        if path.suffix != ".csv":
            raise UserError(
                f"--out {path}: expected a name that ends in .csv; it grows, so compress it when it is done"
            )
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise UserError(f"--out {path}: cannot be written: {error.strerror}") from error
        try:
            self._lock()
            self._take_up()
        except BaseException:
            os.close(self._handle)
            raise

    def close(self) -> None:
        """Give the file up."""
        os.close(self._handle)

    def write(self, now: Settled) -> None:
        """The state at its time, as changes against the row before."""
        before = Nodes() if self.last is None else self.last.idle
        waiting = NOBODY_CAN_TELL if not now.is_told else "" if now.smallest is None else str(now.smallest)
        joined, left = sorted(now.idle - before), sorted(before - now.idle)
        self._append([format_time(now.at_s), " ".join(joined), " ".join(left), str(now.machine_nodes), waiting])
        self.last = Left(now.at_s, now.idle, in_gap=False)

    def write_gap(self) -> None:
        """Since the last row nothing is known, until the next one. Nothing to do where nothing was known anyway."""
        if self.last is None or self.last.in_gap:
            return
        at_s = self.last.at_s + _TICK_S
        self._append([format_time(at_s), "", UNKNOWN, "", ""])
        self.last = Left(at_s, Nodes(), in_gap=True)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(f"--out {self.path}: another recorder writes it; give each its own file") from error
        except OSError:
            pass  # a file system without locks

    def _take_up(self) -> None:
        data = self.path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        header = _HEADER.encode()
        if not header.startswith(data[: len(header)]):
            raise InputFileError(str(self.path), "is something else than a recorded log; give --out another name")
        self.mended = len(data) - len(whole)
        if self.mended:
            os.ftruncate(self._handle, len(whole))
        self._size = len(whole)
        if not whole:
            self._append_bytes(header)
        elif whole != header:
            log = read_event_log(self.path)
            idle: frozenset[str] = frozenset()
            for event in log.events:
                idle = (idle - event.change.left) | event.change.joined
            in_gap = whole.rstrip(b"\n").rpartition(b"\n")[2].split(b",")[2] == UNKNOWN.encode()
            self.last = Left(log.events[-1].at_s, idle, in_gap)

    def _append(self, row: list[str]) -> None:
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(row)
        self._append_bytes(line.getvalue().encode())

    def _append_bytes(self, data: bytes) -> None:
        """One write, on disk afterwards; what could not be written whole is taken back."""
        try:
            if os.write(self._handle, data) != len(data):
                raise OSError(0, "the disk is full")
            os.fsync(self._handle)
        except OSError as error:
            os.ftruncate(self._handle, self._size)
            raise StoreError(f"{self.path}: cannot be written: {error.strerror}") from error
        self._size += len(data)
