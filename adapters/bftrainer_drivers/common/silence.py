"""How long a script may report nothing before it counts as hung. Time is an argument."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bftrainer.system.json_tail import JsonTail
from bftrainer.system.regular import read_regular
from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.progress_line import ProgressLine, parse_progress

LEARNED = 2.0
"""A silence of this multiple of the longest one that ended with a report is no hang, such as a long
evaluation.
"""
_BYTES = 1 << 16
_SCRIPT_BYTES = 1 << 20
_WORDS = 8
_NAME = b"bftrainer"


def reported_progress(directory: TrainerDirectory) -> list[ProgressLine]:
    """Return the progress lines in the last 64 KiB of ``progress.jsonl``, of all incarnations."""
    tail = JsonTail(directory.progress)
    tail.skip(_BYTES)
    return [parse_progress(line) for line in tail.read()]


def mentions_reports(command: Sequence[str], cwd: Path) -> bool:
    """Whether a file that the command names, such as its script, mentions bftrainer: then it
    probably reports its steps.
    """
    for word in command[:_WORDS]:
        with suppress(OSError, ValueError):
            if _NAME in read_regular(cwd / word, _SCRIPT_BYTES):
                return True
    return False


def longest_silence_s(lines: Iterable[ProgressLine]) -> float:
    """Return the longest time between two lines of the same incarnation: a silence that has ended
    well before this driver started.
    """
    longest_s = 0.0
    previous: ProgressLine | None = None
    for line in lines:
        if previous is not None and line.incarnation == previous.incarnation:
            longest_s = max(longest_s, line.at_s - previous.at_s)
        previous = line
    return longest_s


@dataclass(slots=True)
class ReportSilence:
    """Measures how long a script has reported nothing. It begins with the first report: a script
    that reports nothing never counts as hung.
    """

    hang_s: float
    longest_s: float = 0.0
    """The longest silence that ended with a report."""
    last_report_s: float | None = None
    """When the silence began: at the last report, or with a later group; None before the first
    report.
    """

    @property
    def limit_s(self) -> float:
        """The silence that counts as a hang: ``hang_s``, or :data:`LEARNED` times the longest
        silence that ended with a report, if that is more.
        """
        return max(self.hang_s, LEARNED * self.longest_s)

    def note_report(self, now_s: float) -> None:
        """Record a report."""
        if self.last_report_s is not None:
            self.longest_s = max(self.longest_s, now_s - self.last_report_s)
        self.last_report_s = now_s

    def note_group(self, now_s: float) -> None:
        """Record a new group of workers, whose first step may take a while."""
        if self.last_report_s is not None:
            self.last_report_s = now_s

    def seconds(self, now_s: float) -> float:
        """Return the seconds since the last report; 0 before the first one."""
        return 0.0 if self.last_report_s is None else now_s - self.last_report_s

    def is_hung(self, now_s: float) -> bool:
        """Whether the silence has lasted too long."""
        return self.last_report_s is not None and now_s - self.last_report_s >= self.limit_s

    @property
    def reason(self) -> str:
        """Why the trainer has failed."""
        return f"hung: no report for {self.limit_s:.0f} s (hang_s)"
