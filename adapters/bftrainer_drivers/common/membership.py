"""Which hosts a trainer is to use, which of them are warming up, and which its group may use now.
Pure: time is an argument.

The states of a host: listed in ``hosts`` -> warming (its workers do their imports) -> warm ->
announced -> in the group. All joining hosts are announced together once the last of them is warm,
so a change of ``hosts`` costs one stall; a host that is dropped before it is announced costs none.

Under elastic launchers, hosts join and leave the group. Otherwise (``restarts``) each change needs
a group of new workers, on the hosts that stay as well; they are announced when it can begin.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from bftrainer.counted import counted
from bftrainer.wires.hosts_file import HostSlots


@dataclass(frozen=True, slots=True)
class Member:
    """One stay of one fragment in the trainer. Its launcher knows it as ``label``, a new one for
    each stay.

    So what Horovod remembers of a host (blacklists, late exits of removed workers) does not affect
    the next stay.
    """

    label: str
    host: HostSlots


@dataclass(frozen=True, slots=True)
class StartWarming:
    """Start the workers of a joining member."""

    member: Member


@dataclass(frozen=True, slots=True)
class Drop:
    """End the member's waiting workers: they are no longer needed."""

    member: Member


@dataclass(frozen=True, slots=True)
class Announce:
    """The members that the group may use from now on."""

    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Leave:
    """Checkpoint, stop, restart later: ``hosts`` keeps no node of the group, so no worker can pass
    the weights on.
    """

    reason: str


Action = StartWarming | Drop | Announce | Leave


@dataclass(slots=True)
class Membership:
    """``order`` and ``tick`` return the actions to take; the other methods note what has
    happened.
    """

    restarts: bool = False
    min_nodes: int = 1
    independent: bool = False
    """Members need no other: one that goes ends nothing, as long as another is wanted."""
    straggler_s: float = 5.0
    """How long warm members wait for the last one that is still warming."""
    retire_s: float = 1.0
    """How long a dropped member that was announced, but is not in use, is kept: Horovod may be
    about to use it.
    """
    warming: list[Member] = field(default_factory=list)
    warm: dict[Member, float] = field(default_factory=dict)
    announced: tuple[Member, ...] = ()
    retiring: dict[Member, float] = field(default_factory=dict)
    group: tuple[Member, ...] = ()
    last_group: tuple[Member, ...] = ()
    withheld: set[str] = field(default_factory=set)
    over: set[Member] = field(default_factory=set)
    """Excused members that are still in the group."""
    leaving: bool = False
    _wanted: tuple[HostSlots, ...] = ()
    _stays: int = 0

    def order(self, hosts: Iterable[HostSlots], now_s: float) -> list[Action]:
        """Take the content of the hosts file."""
        self._wanted = tuple(hosts)
        return self.tick(now_s)

    def tick(self, now_s: float) -> list[Action]:
        """Actions that time, or what was noted, has made due."""
        if self.leaving:
            return []
        wanted = self.usable()
        if len(wanted) < self.min_nodes and (self.restarts or self.min_nodes > 1 or not self.group):
            return self._leave(f"{counted(len(wanted), 'node')}, but min_nodes is {self.min_nodes}")
        if self.restarts:
            if {host.fragment for host in wanted} == {
                member.host.fragment for member in self.group
            }:
                wanted = []
        elif self.group and self.independent and not wanted:
            return self._leave("no nodes")
        elif self.group and not self.independent:
            alive = [member for member in self.group if member.host.fragment not in self.withheld]
            if not alive:
                return []  # Horovod ends on its own
            if not any(member.host in wanted for member in alive):
                return self._leave("no nodes" if not wanted else "none of its nodes is left")
        return [*self._drop(wanted, now_s), *self._warm_up(wanted), *self._announce(wanted, now_s)]

    def usable(self) -> list[HostSlots]:
        """The hosts file without withheld fragments."""
        return [host for host in self._wanted if host.fragment not in self.withheld]

    def copy(self) -> Membership:
        """A copy that shares nothing that changes."""
        return replace(
            self,
            warming=[*self.warming],
            warm={**self.warm},
            retiring={**self.retiring},
            withheld={*self.withheld},
            over={*self.over},
        )

    def begin(self) -> list[Action]:
        """A group of new workers on all hosts that can be used: ``group``, of members that are warm
        or not.
        """
        there = {
            member.host: member
            for member in (*self.retiring, *self.announced, *self.warm, *self.warming)
        }
        self.group = tuple(
            there.pop(host) if host in there else self._member(host) for host in self.usable()
        )
        self.warming, self.warm, self.retiring, self.announced = [], {}, {}, ()
        return [Drop(member) for member in there.values()]

    def warmed(self, member: Member, now_s: float) -> None:
        """All workers of a member wait for their ranks."""
        if member in self.warming:
            self.warming.remove(member)
            self.warm[member] = now_s

    def lost(self, member: Member) -> bool:
        """A worker of a member ended on its own: its fragment is not used again. Whether this is
        the first one.
        """
        news = member.host.fragment not in self.withheld
        self.withheld.add(member.host.fragment)
        self.warming = [other for other in self.warming if other != member]
        self.warm.pop(member, None)
        self.retiring.pop(member, None)
        self.announced = tuple(other for other in self.announced if other != member)
        return news

    def excused(self, member: Member) -> None:
        """A worker of a member was ended through no fault of its node: this stay is over, and the
        next one may begin.
        """
        self.over.add(member)
        self.announced = tuple(other for other in self.announced if other != member)

    def formed(self, labels: Iterable[str]) -> None:
        """Horovod has formed a group of the members with these labels."""
        known = {member.label: member for member in (*self.announced, *self.retiring, *self.group)}
        self.last_group = self.group
        self.group = tuple(known[label] for label in sorted(labels) if label in known)
        self.over &= set(self.group)
        for member in self.group:
            self.retiring.pop(member, None)

    def _leave(self, reason: str) -> list[Action]:
        self.leaving = True
        waiting = [
            *self.warming,
            *self.warm,
            *(member for member in self.announced if member not in self.group),
        ]
        self.warming, self.warm = [], {}
        return [*(Drop(member) for member in waiting), Leave(reason)]

    def _member(self, host: HostSlots) -> Member:
        self._stays += 1
        return Member(f"{host.node}.{host.fragment}.{self._stays}", host)

    def _drop(self, wanted: list[HostSlots], now_s: float) -> list[Action]:
        gone = [member for member in [*self.warming, *self.warm] if member.host not in wanted]
        self.warming = [member for member in self.warming if member not in gone]
        for member in gone:
            self.warm.pop(member, None)
        for member in self.announced:
            if member.host not in wanted and member not in self.group:
                self.retiring[member] = now_s
        retired = [
            member for member, since_s in self.retiring.items() if now_s - since_s >= self.retire_s
        ]
        for member in retired:
            del self.retiring[member]
        return [Drop(member) for member in [*gone, *retired]]

    def _warm_up(self, wanted: list[HostSlots]) -> list[Action]:
        group = () if self.restarts else self.group
        known = {member.host for member in (*self.announced, *self.warming, *self.warm, *group)}
        joining = [self._member(host) for host in wanted if host not in known]
        self.warming += joining
        return [StartWarming(member) for member in joining]

    def _announce(self, wanted: list[HostSlots], now_s: float) -> list[Action]:
        group = () if self.restarts else self.group
        stay = [m for m in (*self.announced, *group) if m.host in wanted and m not in self.over]
        oldest_s = min(self.warm.values(), default=now_s)
        if self.warm and (not self.warming or now_s - oldest_s >= self.straggler_s):
            stay += self.warm
            self.warm = {}
        announced = tuple(dict.fromkeys(stay))
        if set(announced) == set(self.announced):
            return []
        self.announced = announced
        return [Announce(announced)]
