"""The last lines of progress, of this incarnation and of those before."""

from __future__ import annotations

from bftrainer.protocol.paths import TrainerDirectory
from bftrainer.protocol.progress_line import ProgressLine, parse_progress
from bftrainer.system.json_tail import JsonTail

_BYTES = 1 << 16


def reported_progress(directory: TrainerDirectory) -> list[ProgressLine]:
    """Those in the last 64 KiB."""
    tail = JsonTail(directory.progress)
    tail.skip(_BYTES)
    return [parse_progress(line) for line in tail.read()]
