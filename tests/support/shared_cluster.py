"""A cluster whose idle nodes several users' pilots share: each polls at its own times, and decides
by the pilot's own split.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from bftrainer.sharing.fair_share import ShareMemory, Sharer, split

LEAVES_S = 3.0


@dataclass
class Pilot:
    """``stubborn``: it gives nothing back. ``idles``: it takes nothing. ``only``: nodes that it may
    use, if not all.
    """

    user: str
    wants: int
    name: str = "p"
    poll_s: float = 10.0
    stubborn: bool = False
    idles: bool = False
    says: bool = True
    only: frozenset[str] | None = None
    shows_hosts: bool = False
    is_short: bool = False
    next_s: float = 0.0
    view: tuple[list[Sharer], set[str]] | None = None
    memory: ShareMemory = field(default_factory=ShareMemory)
    given: int = 0
    told: list[str] = field(default_factory=list)


class SharedCluster:
    """``owner`` of each node: a pilot's key, "main", or None while it is idle."""

    def __init__(self, nodes: int, *pilots: Pilot, seed: int = 0) -> None:
        self.random = random.Random(seed)
        self.owner: dict[str, object] = {f"n{i:03d}": None for i in range(nodes)}
        self.leaving: dict[str, float] = {}
        self.pilots = {(p.user, p.name): p for p in pilots}
        self.now_s = 0.0
        for pilot in pilots:
            pilot.next_s = self.random.uniform(0, pilot.poll_s)

    def add(self, pilot: Pilot) -> None:
        pilot.next_s = self.now_s + 1
        self.pilots[pilot.user, pilot.name] = pilot

    def remove(self, user: str, name: str = "p") -> None:
        del self.pilots[user, name]
        self.owner = {n: None if o == (user, name) else o for n, o in self.owner.items()}

    def main_job(self, nodes: int) -> None:
        for name in self.random.sample(sorted(self.owner), nodes):
            self.owner[name] = "main"

    def end_main_jobs(self) -> None:
        self.owner = {n: None if o == "main" else o for n, o in self.owner.items()}

    def holds(self) -> Mapping[str, int]:
        return Counter(str(o[0]) for o in self.owner.values() if isinstance(o, tuple))

    def run(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self.now_s += 1.0
            for node in [n for n, at_s in self.leaving.items() if at_s <= self.now_s]:
                del self.leaving[node]
                if self.owner[node] != "main":
                    self.owner[node] = None
            for key in self.random.sample(sorted(self.pilots), len(self.pilots)):
                self._tick(key, self.pilots[key])

    def _tick(self, key: tuple[str, str], me: Pilot) -> None:
        mine = sorted(n for n, o in self.owner.items() if o == key and n not in self.leaving)
        leaves = sum(o == key for o in self.owner.values()) - len(mine)
        if self.now_s >= me.next_s:
            me.next_s = self.now_s + me.poll_s * self.random.uniform(0.9, 1.1)
            counted = Counter(self.owner.values())
            claims = [
                Sharer(
                    p.user,
                    p.name,
                    p.wants if p.says else None,
                    counted[k],
                    p.is_short,
                    p.only if p.shows_hosts else None,
                )
                for k, p in self.pilots.items()
                if k != key
            ]
            me.view = (
                claims,
                {
                    n
                    for n, o in self.owner.items()
                    if o is None and (me.only is None or n in me.only)
                },
            )
        if me.view is None:
            return
        claims, idle = me.view
        found = split(
            Sharer(me.user, me.name, me.wants, len(mine)),
            leaves,
            claims,
            idle,
            float("inf"),
            me.memory,
            self.now_s,
            me.poll_s,
        )
        me.memory, me.is_short = found.memory, found.is_short
        me.told += found.messages
        if found.release_count and not me.stubborn:
            first = sorted(
                mine,
                key=lambda n: (
                    found.preferred_nodes is not None and n not in found.preferred_nodes,
                    n,
                ),
            )
            me.given += found.release_count
            self.leaving |= dict.fromkeys(first[: found.release_count], self.now_s + LEAVES_S)
        if not me.idles:
            part = me.wants if me.stubborn or not me.says else min(me.wants, found.part)
            for node in sorted(idle)[: max(int(part) - len(mine), 0)]:
                idle.discard(node)
                if self.owner[node] is None:
                    self.owner[node] = key
