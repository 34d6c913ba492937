"""Logs in GPUs: ``node:i`` is idle while more than i GPUs of the node are, so the last GPU that
joined leaves first.

A pilot holds the idle GPUs of a node as one part, and a main job that takes any of them takes the
part: :func:`held_parts`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import replace

from bftrainer.decide.domain.events import PoolChanged
from bftrainer.slots import Slot
from bftrainer_replay.logs.model import LogWindow, PoolEvent, levels


def counted(names: Iterable[str]) -> Counter[str]:
    """The GPUs of each node."""
    return Counter(name.rpartition(":")[0] for name in names)


def on_idle_nodes(window: LogWindow) -> LogWindow:
    """Return the slots that a pilot holds if it may hold only nodes of which all GPUs are idle;
    ``window`` is in GPUs.
    """
    assert window.gpus is not None
    per_node, nodes = window.gpus.per_node, window.gpus.by_node

    def every(names: frozenset[str]) -> frozenset[str]:
        return frozenset(levels(per_node, names))

    events = (
        PoolEvent(e.at_s, PoolChanged(every(e.change.joined), every(e.change.left)))
        for e in nodes.events
    )
    return held_parts(replace(window, initial=every(nodes.initial), events=tuple(events)), 0.0)


def held_parts(window: LogWindow, back_s: float) -> LogWindow:
    """Return the slots that a pilot holds of the idle GPUs in ``window``, with one holder job per
    part of a node.

    A main job that takes GPUs of a node ends holders there, the latest first, until it has enough.
    GPUs that are then idle, and those that a main job leaves, are held as a new part ``back_s``
    later.
    """
    free, parts = counted(window.initial), dict[str, list[frozenset[str]]]()
    changes: list[tuple[float, set[str], set[str]]] = []
    due: deque[tuple[float, str]] = deque()
    serial = 0

    def hold(node: str) -> frozenset[str]:
        """Hold the idle GPUs of the node that no part has yet as a new part; return its slots, if
        any.
        """
        nonlocal serial
        count = free[node] - sum(map(len, parts.get(node, ())))
        if count <= 0:
            return frozenset()
        serial += 1
        new = frozenset(Slot(node, str(serial), index).name for index in range(count))
        parts.setdefault(node, []).append(new)
        return new

    def at(at_s: float) -> tuple[set[str], set[str]]:
        if not changes or changes[-1][0] < at_s:
            changes.append((at_s, set(), set()))
        return changes[-1][1:]

    initial = frozenset[str]().union(*(hold(node) for node in sorted(free)))
    for event in (*window.events, None):
        until_s = window.end_s if event is None else event.at_s
        while due and due[0][0] < until_s:
            back_at_s, node = due.popleft()
            at(back_at_s)[0].update(hold(node))
        if event is None:
            break
        joined, left = at(event.at_s)
        came, went = counted(event.change.joined), counted(event.change.left)
        for node in sorted(came.keys() | went.keys()):
            free[node] += came[node] - went[node]
            node_parts = parts.get(node, [])
            held = sum(map(len, node_parts))
            while held > free[node]:
                lost_part = node_parts.pop()
                held -= len(lost_part)
                left |= lost_part - joined
                joined -= lost_part
            if held < free[node]:
                due.append((event.at_s + back_s, node))
    assert window.gpus is not None
    events = tuple(
        PoolEvent(at_s, PoolChanged(frozenset(came), frozenset(went)))
        for at_s, came, went in changes
        if came or went
    )
    return replace(window, initial=initial, events=events, gpus=replace(window.gpus, idle=window))
