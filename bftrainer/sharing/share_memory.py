"""What a pilot remembers of the other pilots from one split of the nodes to the next."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from bftrainer.sharing.sharer import Key, Sharer

RELEASE_PATIENCE_S = 300.0
"""A pilot above its part keeps the nodes for so long before it releases them to another user."""

MAX_RECENT_ARRIVALS = 3.0
"""No pilot releases nodes for a user who has arrived more often than this lately."""
ARRIVAL_HALF_LIFE_S = RELEASE_PATIENCE_S
"""The count of a user's recent arrivals halves in this time."""
SETTLE_S = 12.0
"""The split divides the most nodes that were seen within this time.

A node that moves between users belongs to nobody for a moment. By default a fall counts once two
polls have shown it; until then, a user who lost all nodes to a main job waits.
"""
DEFICIT_HALF_LIFE_S = 86400.0
"""Half of what a user is owed is forgotten in this time."""
DEPARTED = "\0"
"""Stands for the pilots of a user that have left. No pilot can have this name."""
_Record = TypeVar("_Record")


@dataclass(frozen=True, slots=True)
class Distrust:
    """The distrust of a pilot that left nodes idle while it held ``holds``: until ``until_s`` the
    split counts it as if it wanted no more than it holds.

    ``duration_s``: the length of this distrust, which doubles each time in a row.
    """

    holds: int
    until_s: float
    duration_s: float

    def is_remembered(self, holds: int, now_s: float) -> bool:
        """Whether the distrust still matters: the pilot holds no more than then, and it ended
        recently.
        """
        return holds <= self.holds and now_s < self.until_s + self.duration_s


@dataclass(frozen=True, slots=True)
class ShareMemory:
    """What a pilot remembers from one split to the next.

    About the nodes and this pilot:
    ``capacity``: the nodes that were divided, the most seen within ``SETTLE_S``.
    ``recent_capacities``: (time, nodes) of the most nodes and of those seen since.
    ``above_since_s``: since when this pilot holds nodes that others lack.
    ``announced``: users, own weight and total weight in the last message about the part.
    ``updated_s``: the time of the last split.

    About other pilots:
    ``first_seen_s``: when each was first seen.
    ``unused_since``: since when it leaves nodes idle, and what it held then.
    ``distrusted``: those that count with what they hold.
    ``overuse_since``: since when it keeps nodes that others lack.
    ``overusers``: those that have kept them for too long.
    ``newcomers``: those that were new or had no nodes, and lack some.

    About users:
    ``deficits``: nodes below the user's mean part at ``updated_s``, negative above it.
    ``deficit_node_s``: the same summed up over time, in node-seconds.
    ``recent_arrivals``: how often the user arrived lately, new or without nodes.
    ``present``: the users whose arrival has been counted.
    """

    capacity: int = 0
    recent_capacities: tuple[tuple[float, int], ...] = ()
    above_since_s: float = math.inf
    announced: tuple[int, ...] = ()
    updated_s: float = math.inf
    first_seen_s: Mapping[Key, float] = field(default_factory=dict)
    unused_since: Mapping[Key, tuple[float, int]] = field(default_factory=dict)
    distrusted: Mapping[Key, Distrust] = field(default_factory=dict)
    overuse_since: Mapping[Key, float] = field(default_factory=dict)
    overusers: frozenset[Key] = frozenset()
    newcomers: frozenset[Key] = frozenset()
    deficits: Mapping[str, float] = field(default_factory=dict)
    deficit_node_s: Mapping[str, float] = field(default_factory=dict)
    recent_arrivals: Mapping[str, float] = field(default_factory=dict)
    present: frozenset[str] = frozenset()

    def is_restless(self, user: str) -> bool:
        """Whether a user comes and goes so often that nobody releases nodes for it."""
        return self.recent_arrivals.get(user, 0.0) > MAX_RECENT_ARRIVALS

    def elapsed_s(self, now_s: float) -> float:
        """The time since the last split."""
        return max(now_s - self.updated_s, 0.0)


def with_departures(memory: ShareMemory, others: Sequence[Sharer], now_s: float) -> ShareMemory:
    """Return the memory in which the records of pilots that have left belong to their users' new
    pilots, and old distrust is dropped. ``others`` are the pilots that are there.
    """
    holds = {pilot.key: pilot.holds for pilot in others}
    distrusted = {
        key: distrust
        for key, distrust in _inherited_records(memory.distrusted, others, memory).items()
        if distrust.is_remembered(holds.get(key, 0), now_s)
    }
    unused_since = _inherited_records(memory.unused_since, others, memory)
    return replace(memory, unused_since=unused_since, distrusted=distrusted)


def _inherited_records(
    records: Mapping[Key, _Record], others: Sequence[Sharer], memory: ShareMemory
) -> dict[Key, _Record]:
    """Return the ``records`` by pilot; that of a pilot that left goes to its user's new pilot,
    because pilots can be renamed.

    Without a new pilot it is kept for one, under the name ``DEPARTED``, which no pilot can have.
    """
    present = {pilot.key for pilot in others}
    newest = {pilot.user: pilot.key for pilot in others if pilot.key not in memory.first_seen_s}
    inherited: dict[Key, _Record] = {}
    for key, record in records.items():
        user = key[0]
        heir = key if key in present else newest.get(user, (user, DEPARTED))
        inherited[heir] = record
    return inherited


def with_capacity(memory: ShareMemory, visible: int, max_nodes: float, now_s: float) -> ShareMemory:
    """Return the memory with the number of nodes to divide: the most that were ``visible`` within
    the last ``SETTLE_S``, at most ``max_nodes``.

    So a node on its way from one holder to another is not missing.
    """
    counts = list(memory.recent_capacities)
    if counts:
        counts[-1] = now_s, counts[-1][1]  # the last number was true until now
    # Only larger numbers than the present one matter later; they fall from the first to the last.
    larger = [
        (seen_s, nodes)
        for seen_s, nodes in counts
        if now_s - seen_s < SETTLE_S and visible < nodes <= max_nodes
    ]
    recent = (*larger, (now_s, visible))
    return replace(memory, capacity=recent[0][1], recent_capacities=recent)


def with_time_passed(memory: ShareMemory, now_s: float) -> ShareMemory:
    """Return the memory at ``now_s``: the deficits since the last split are added up, and old
    deficits and arrivals fade by their half-lives.

    A deficit is how many nodes a user is below its part.
    """
    elapsed_s = memory.elapsed_s(now_s)
    kept_deficit = 0.5 ** (elapsed_s / DEFICIT_HALF_LIFE_S)
    kept_arrivals = 0.5 ** (elapsed_s / ARRIVAL_HALF_LIFE_S)
    deficit_node_s = {
        user: node_s * kept_deficit + memory.deficits.get(user, 0.0) * elapsed_s
        for user, node_s in memory.deficit_node_s.items()
    }
    recent_arrivals = {
        user: count * kept_arrivals for user, count in memory.recent_arrivals.items()
    }
    # The time of a pilot that is away does not count.
    unused_since = {
        key: (_without_absence(key, since_s, elapsed_s), held)
        for key, (since_s, held) in memory.unused_since.items()
    }
    return replace(
        memory,
        updated_s=now_s,
        deficit_node_s=deficit_node_s,
        recent_arrivals=recent_arrivals,
        unused_since=unused_since,
    )


def _without_absence(key: Key, since_s: float, elapsed_s: float) -> float:
    """Return the time since when a pilot leaves nodes idle, moved on by ``elapsed_s`` if the pilot
    is away: its clock stands still.
    """
    return since_s + elapsed_s if key[1] == DEPARTED else since_s
