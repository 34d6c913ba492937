"""Shortcuts for tests of importers: text in, who was idle when out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bftrainer_replay.logs.open import OpenedLog, open_log
from bftrainer_replay.logs.source import ImportOptions

PLAIN = ImportOptions(debounce_s=0.0, warm_up_h=0.0, cool_down_h=0.0, outages=("none",))


def read(folder: Path, text: str | bytes, **options: object) -> OpenedLog:
    """Import a log that is written here, with nothing guessed away."""
    path = folder / "log"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return open_log(path, replace(PLAIN, **options))  # type: ignore[arg-type]


def changes(opened: OpenedLog) -> list[tuple[float, list[str], list[str]]]:
    """(seconds since the first event, joined, left) of every event."""
    first = opened.log.events[0].at_s
    return [
        (e.at_s - first, sorted(e.change.joined), sorted(e.change.left)) for e in opened.log.events
    ]


def totals(opened: OpenedLog) -> tuple[int, int, int, int]:
    """Records read, used, passed over, skipped."""
    words = opened.totals[0].rpartition(": ")[2].replace(",", "").split()
    numbers = [int(word) for word in words if word.isdecimal()]
    return numbers[0], numbers[1], numbers[2], numbers[-1]
