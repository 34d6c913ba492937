"""What a pilot makes of the lines of a trainer directory, as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

from bftrainer.wires.reports import DriverView, after_events, after_progress


def folded(lines: Iterable[tuple[str, dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """The view after each line. A line is (file, its object)."""
    view = DriverView()
    for file, line in lines:
        fold = after_events if file == "events.jsonl" else after_progress
        view = fold(view, [line])
        yield json.loads(json.dumps(dataclasses.asdict(view), default=_plain))


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    assert isinstance(value, (set, frozenset)), value
    return sorted(value)
