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
    """Return the number of GPUs of each node among these names (``node:i``)."""
    return Counter(name.rpartition(":")[0] for name in names)


def on_idle_nodes(window: LogWindow) -> LogWindow:
    """Return the slots that a pilot holds if it may hold only nodes of which all GPUs are idle.

    ``window`` is in GPUs. A slot is a GPU that the pilot holds.
    """
    assert window.gpus is not None
    per_node, nodes = window.gpus.per_node, window.gpus.by_node

    def all_gpus(node_names: frozenset[str]) -> frozenset[str]:
        return frozenset(levels(per_node, node_names))

    events = tuple(
        PoolEvent(
            event.at_s, PoolChanged(all_gpus(event.change.joined), all_gpus(event.change.left))
        )
        for event in nodes.events
    )
    return held_parts(replace(window, initial=all_gpus(nodes.initial), events=events), back_s=0.0)


def held_parts(window: LogWindow, back_s: float) -> LogWindow:
    """Return the slots that a pilot holds of the idle GPUs in ``window``: a part of a node per
    holder.

    A holder is the pilot's job that keeps idle GPUs of one node. A main job that takes GPUs of the
    node ends holders there, the latest first, until it has enough. GPUs that are then idle, and
    GPUs that a main job leaves, are held as a new part ``back_s`` seconds later.
    """
    n_idle = counted(window.initial)
    parts: dict[str, list[frozenset[str]]] = {}  # by node: the slots of each part, oldest first
    changes: list[tuple[float, set[str], set[str]]] = []  # (time, joined, left) in order of time
    due: deque[tuple[float, str]] = deque()  # (time, node) at which idle GPUs are held
    serial = 0

    def hold(node: str) -> frozenset[str]:
        """Hold the idle GPUs of the node that no part has yet as a new part; return its slots, if
        any.
        """
        nonlocal serial
        count = n_idle[node] - sum(map(len, parts.get(node, ())))
        if count <= 0:
            return frozenset()
        serial += 1
        part = frozenset(Slot(node, str(serial), index).name for index in range(count))
        parts.setdefault(node, []).append(part)
        return part

    def change_at(at_s: float) -> tuple[set[str], set[str]]:
        """Return the slots that join and leave at a time, not before the last change; the caller
        adds to these sets.
        """
        if not changes or changes[-1][0] < at_s:
            changes.append((at_s, set(), set()))
        return changes[-1][1:]

    def hold_due(until_s: float) -> None:
        """Hold the GPUs that are due before ``until_s``."""
        while due and due[0][0] < until_s:
            due_s, node = due.popleft()
            joined, _ = change_at(due_s)
            joined.update(hold(node))

    initial = frozenset[str]().union(*(hold(node) for node in sorted(n_idle)))
    for event in window.events:
        hold_due(event.at_s)
        joined, left = change_at(event.at_s)
        arrivals, departures = counted(event.change.joined), counted(event.change.left)
        for node in sorted(arrivals.keys() | departures.keys()):
            n_idle[node] += arrivals[node] - departures[node]
            node_parts = parts.get(node, [])
            n_held = sum(map(len, node_parts))
            while n_held > n_idle[node]:
                lost_part = node_parts.pop()
                n_held -= len(lost_part)
                # Slots that joined at this same instant never were in the pool.
                left |= lost_part - joined
                joined -= lost_part
            if n_held < n_idle[node]:
                due.append((event.at_s + back_s, node))
    hold_due(window.end_s)
    assert window.gpus is not None
    events = tuple(
        PoolEvent(at_s, PoolChanged(frozenset(joined), frozenset(left)))
        for at_s, joined, left in changes
        if joined or left
    )
    return replace(window, initial=initial, events=events, gpus=replace(window.gpus, idle=window))
