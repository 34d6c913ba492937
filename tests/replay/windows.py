"""Logs of idle nodes: small ones, and the log of the paper's authors."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from support.data import data_file

from bftrainer.decide.domain.events import PoolChanged
from bftrainer_replay.logs.event_log import parse_time, read_event_log
from bftrainer_replay.logs.model import EventLog, LogWindow, PoolEvent, restricted_log


def window(
    end_s: float,
    initial: Iterable[str],
    *flips: tuple[float, Iterable[str]],
    nodes: int = 8,
    **more: Any,
) -> LogWindow:
    """From time 0 on. At each instant, of the nodes that it names, those that were not idle join
    and the others leave.
    """
    pool, events = frozenset(initial), []
    for at_s, names in flips:
        changed = frozenset(names)
        events.append(PoolEvent(at_s, PoolChanged(changed - pool, changed & pool)))
        pool ^= changed
    return LogWindow(0.0, end_s, frozenset(initial), tuple(events), nodes, "by hand", **more)


@lru_cache(maxsize=1)
def summit_log() -> EventLog:
    return read_event_log(data_file("summit-2021-02/summit-2021-02-events.csv.gz"))


def summit_names() -> list[str]:
    """The paper's 1,024 nodes."""
    return data_file("summit-2021-02/summit-nodes-in-column-order.txt").read_text().split()[:1024]


def summit_window(hours: float, **more: Any) -> LogWindow:
    """From the beginning of the paper's week on."""
    start_s = parse_time("2021-02-10T20:21:15")
    return restricted_log(summit_log(), start_s=start_s, end_s=start_s + hours * 3600, **more)
