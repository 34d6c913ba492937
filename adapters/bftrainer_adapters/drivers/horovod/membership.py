"""Which fragments a trainer is asked to use, which of them are warming up, which Horovod may use now. Pure: time comes in.

A place goes through: listed in ``hosts`` -> warming (its worker does its imports) -> warm -> announced -> in the group. All
places that join are announced together once the last of them is warm, so that one order costs one stall; a place that is
dropped before it is announced costs none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from bftrainer.protocol.hosts import HostSlots


@dataclass(frozen=True, slots=True)
class Member:
    """One stay of one fragment. Horovod knows it as the host ``label``: a new stay is a new host to it.

    So nothing that Horovod remembers of a host (blacklists, late exits of removed workers) reaches the next stay.
    """

    label: str
    place: HostSlots


@dataclass(frozen=True, slots=True)
class StartWarming:
    """Start the joining member's workers."""

    member: Member


@dataclass(frozen=True, slots=True)
class Drop:
    """End the member's waiting workers: nobody wants them any more."""

    member: Member


@dataclass(frozen=True, slots=True)
class Announce:
    """What Horovod may use from now on."""

    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Leave:
    """Checkpoint, stop, restart later: the order leaves no node of the group, so the weights cannot be passed on."""

    reason: str


Action = StartWarming | Drop | Announce | Leave


@dataclass(slots=True)
class Membership:
    """``order`` and ``tick`` return what is to be done; the other methods take what has happened."""

    straggler_s: float = 5.0
    """How long warm members wait for the last one that still warms."""
    retire_s: float = 1.0
    """How long a member that was announced, but not used yet, is kept after it was dropped: Horovod may just take it."""
    warming: list[Member] = field(default_factory=list)
    warm: dict[Member, float] = field(default_factory=dict)
    announced: tuple[Member, ...] = ()
    retiring: dict[Member, float] = field(default_factory=dict)
    group: tuple[Member, ...] = ()
    withheld: set[str] = field(default_factory=set)
    leaving: bool = False
    _wanted: tuple[HostSlots, ...] = ()
    _stays: int = 0

    def order(self, hosts: Iterable[HostSlots], now_s: float) -> list[Action]:
        """The hosts file says this now."""
        self._wanted = tuple(hosts)
        return self.tick(now_s)

    def tick(self, now_s: float) -> list[Action]:
        """Time has passed, or something has happened."""
        if self.leaving:
            return []
        wanted = [place for place in self._wanted if place.fragment not in self.withheld]
        alive = [member for member in self.group if member.place.fragment not in self.withheld]
        if self.group and not alive:
            return []  # Horovod ends by itself
        if self.group and not any(member.place in wanted for member in alive):
            self.leaving = True
            reason = "no nodes" if not wanted else "none of its nodes is left"
            waiting = [*self.warming, *self.warm]
            self.warming, self.warm = [], {}
            return [*(Drop(member) for member in waiting), Leave(reason)]
        return [*self._drop(wanted, now_s), *self._warm_up(wanted), *self._announce(wanted, now_s)]

    def warmed(self, member: Member, now_s: float) -> None:
        """All its workers wait for their orders."""
        if member in self.warming:
            self.warming.remove(member)
            self.warm[member] = now_s

    def lost(self, member: Member) -> bool:
        """One of its workers ended on its own: its fragment is not used again. Whether that is news."""
        news = member.place.fragment not in self.withheld
        self.withheld.add(member.place.fragment)
        self.warming = [other for other in self.warming if other != member]
        self.warm.pop(member, None)
        self.retiring.pop(member, None)
        self.announced = tuple(other for other in self.announced if other != member)
        return news

    def formed(self, labels: Iterable[str]) -> None:
        """Horovod has formed a group of these."""
        known = {member.label: member for member in (*self.announced, *self.retiring, *self.group)}
        self.group = tuple(known[label] for label in sorted(labels))
        for member in self.group:
            self.retiring.pop(member, None)

    def _drop(self, wanted: list[HostSlots], now_s: float) -> list[Action]:
        gone = [member for member in [*self.warming, *self.warm] if member.place not in wanted]
        self.warming = [member for member in self.warming if member not in gone]
        for member in gone:
            self.warm.pop(member, None)
        for member in self.announced:
            if member.place not in wanted and member not in self.group:
                self.retiring[member] = now_s
        retired = [member for member, since_s in self.retiring.items() if now_s - since_s >= self.retire_s]
        for member in retired:
            del self.retiring[member]
        return [Drop(member) for member in [*gone, *retired]]

    def _warm_up(self, wanted: list[HostSlots]) -> list[Action]:
        known = {member.place for member in (*self.announced, *self.warming, *self.warm, *self.group)}
        joining = []
        for place in wanted:
            if place not in known:
                self._stays += 1
                joining.append(Member(f"{place.host}.{place.fragment}.{self._stays}", place))
        self.warming += joining
        return [StartWarming(member) for member in joining]

    def _announce(self, wanted: list[HostSlots], now_s: float) -> list[Action]:
        stay = [member for member in (*self.announced, *self.group) if member.place in wanted]
        oldest_s = min(self.warm.values(), default=now_s)
        if self.warm and (not self.warming or now_s - oldest_s >= self.straggler_s):
            stay += self.warm
            self.warm = {}
        announced = tuple(dict.fromkeys(stay))
        if set(announced) == set(self.announced):
            return []
        self.announced = announced
        return [Announce(announced)]
