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

from bftrainer.wires.hosts_file import HostSlots
from bftrainer_drivers.common.legal_sizes import ANY_SIZE, LegalSizes, used_hosts


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
    """The group is to checkpoint and stop, and restarts later: ``hosts`` keeps no node of it, so no
    worker can pass the weights on; or (``is_short``) too few nodes are left for any legal size.
    """

    reason: str
    is_short: bool = False


Action = StartWarming | Drop | Announce | Leave


@dataclass(slots=True)
class Membership:
    """Follows which hosts are listed, warm, announced and in the group. ``order``, ``tick`` and
    ``begin_group`` return the actions to take; the other methods note news.
    """

    restarts: bool = False
    """Each change of hosts needs a group of new workers."""
    sizes: LegalSizes = ANY_SIZE
    is_independent: bool = False
    """Members are independent: losing one does not end the run while another is listed."""
    straggler_s: float = 5.0
    """How long warm members wait for the last one that is still warming."""
    retire_s: float = 1.0
    """How long a dropped member that was announced, but is not in use, is kept: Horovod may be
    about to use it.
    """
    warming: list[Member] = field(default_factory=list)
    warm: dict[Member, float] = field(default_factory=dict)
    """Members that are warm and not announced, each with the time from which it was warm."""
    announced: tuple[Member, ...] = ()
    retiring: dict[Member, float] = field(default_factory=dict)
    """Announced members that are no longer listed nor in the group, each with the time from which
    ``retire_s`` counts.
    """
    group: tuple[Member, ...] = ()
    previous_group: tuple[Member, ...] = ()
    withheld: set[str] = field(default_factory=set)
    """Fragments that are not used again, because a worker there was lost or failed."""
    excused: set[Member] = field(default_factory=set)
    """Excused members that are still in the group."""
    leaving: bool = False
    """The group is to stop for good: no action follows."""
    _listed: tuple[HostSlots, ...] = ()
    _stay_count: int = 0
    """Members so far; the next one's label has the next number."""

    def order(self, hosts: Iterable[HostSlots], now_s: float) -> list[Action]:
        """Apply the content of the hosts file; return the actions that follow."""
        self._listed = tuple(hosts)
        return self.tick(now_s)

    def tick(self, now_s: float) -> list[Action]:
        """Return the actions that are due now, by the time that has passed and by what was
        noted.
        """
        if self.leaving or self._ends_by_itself():
            return []
        usable, listed_count = self.usable_hosts(), len(self.listed_hosts())
        # An elastic group of which no host is left, where one host would be enough, is not short of
        # a legal size: the reason is "no nodes" (_reason_to_leave).
        is_elastic_group = bool(self.group) and not self.restarts
        has_no_hosts_left = is_elastic_group and listed_count == 0 and self.sizes.smallest <= 1
        if not usable and not has_no_hosts_left:
            return self._leave_group(self.sizes.shortage(listed_count), is_short=True)
        # The hosts for which workers are prepared: none where each change needs a group of new
        # workers and nothing changes.
        wanted = usable
        if self.restarts and _host_fragments(usable) == _host_fragments(m.host for m in self.group):
            wanted = []
        if reason := self._reason_to_leave(wanted):
            return self._leave_group(reason)
        return [
            *self._drop_unwanted(wanted, now_s),
            *self._warm_up(wanted),
            *self._announce_ready(wanted, now_s),
        ]

    def _reason_to_leave(self, wanted: list[HostSlots]) -> str:
        """Return why the group of an elastic launcher cannot go on with these hosts; empty if it
        can.
        """
        if self.restarts or not self.group:
            return ""
        if not wanted:
            return "no nodes"
        can_stay = self.is_independent or any(
            member.host in wanted for member in self._usable_members()
        )
        return "" if can_stay else "none of its nodes is left"

    def listed_hosts(self) -> list[HostSlots]:
        """Return the hosts that the hosts file lists, without withheld fragments."""
        return [host for host in self._listed if host.fragment not in self.withheld]

    def usable_hosts(self) -> list[HostSlots]:
        """Return the hosts that the next group is to use: as many of those present as a legal size
        allows.
        """
        preferred = (
            [member.host for member in self.announced],
            [member.host for member in self.group],
            [member.host for member in (*self.warm, *self.warming)],
        )
        return used_hosts(self.listed_hosts(), self.sizes, preferred)

    def _usable_members(self) -> list[Member]:
        """Return the members of the group whose fragments are not withheld."""
        return [member for member in self.group if member.host.fragment not in self.withheld]

    def _ends_by_itself(self) -> bool:
        """Whether all workers of an elastic group were lost: its launcher notices, and ends."""
        is_elastic = not (self.restarts or self.is_independent)
        return is_elastic and bool(self.group) and not self._usable_members()

    def copy(self) -> Membership:
        """Copy all that changes, so that neither copy sees changes of the other."""
        return replace(
            self,
            warming=[*self.warming],
            warm={**self.warm},
            retiring={**self.retiring},
            withheld={*self.withheld},
            excused={*self.excused},
        )

    def begin_group(self) -> list[Action]:
        """Set ``group`` to members on all usable hosts, warm or not, for a group of new workers;
        return the drops of all other members, whose workers were prepared in vain.
        """
        prepared = {
            member.host: member
            for member in (*self.retiring, *self.announced, *self.warm, *self.warming)
        }
        group: list[Member] = []
        for host in self.usable_hosts():
            member = prepared.pop(host, None)
            group.append(self._new_member(host) if member is None else member)
        self.group = tuple(group)
        self.warming, self.warm, self.retiring, self.announced = [], {}, {}, ()
        return [Drop(member) for member in prepared.values()]

    def note_warm(self, member: Member, now_s: float) -> None:
        """Record that all workers of a member wait for their ranks."""
        if member in self.warming:
            self.warming.remove(member)
            self.warm[member] = now_s

    def withhold(self, member: Member) -> bool:
        """Withhold the fragment of a member whose worker ended on its own; return whether it was
        used until now.
        """
        was_usable = member.host.fragment not in self.withheld
        self.withheld.add(member.host.fragment)
        self.warming = [other for other in self.warming if other != member]
        self.warm.pop(member, None)
        self.retiring.pop(member, None)
        self._stop_announcing(member)
        return was_usable

    def excuse(self, member: Member) -> None:
        """Record that a worker of a member was ended through no fault of its node: this stay is
        over, and the next one may begin.
        """
        self.excused.add(member)
        self._stop_announcing(member)

    def _stop_announcing(self, member: Member) -> None:
        """Stop announcing a member, and as many others as the next smaller legal size requires.

        Where no size is legal without it, all others stay announced: launchers form no group of
        them (:meth:`LegalSizes.allow`), unless they are to save and leave.
        """
        others = tuple(other for other in self.announced if other != member)
        kept = used_hosts(others, self.sizes, [self.group])
        self.announced = tuple(kept) if kept else others

    def note_group(self, labels: Iterable[str]) -> None:
        """Record that the members with these labels are the group now."""
        by_label = {
            member.label: member for member in (*self.announced, *self.retiring, *self.group)
        }
        self.previous_group = self.group
        self.group = tuple(by_label[label] for label in sorted(labels) if label in by_label)
        self.excused &= set(self.group)
        for member in self.group:
            self.retiring.pop(member, None)

    def _leave_group(self, reason: str, *, is_short: bool = False) -> list[Action]:
        """Drop all members that are not in the group, and ask the group to leave for good."""
        self.leaving = True
        waiting = [
            *self.warming,
            *self.warm,
            *(member for member in self.announced if member not in self.group),
        ]
        self.warming, self.warm = [], {}
        return [*(Drop(member) for member in waiting), Leave(reason, is_short)]

    def _new_member(self, host: HostSlots) -> Member:
        """Return a member for a new stay of this host."""
        self._stay_count += 1
        return Member(f"{host.node}.{host.fragment}.{self._stay_count}", host)

    def _drop_unwanted(self, wanted: list[HostSlots], now_s: float) -> list[Action]:
        """Drop members that are no longer wanted; announced ones only after ``retire_s``."""
        dropped = [member for member in [*self.warming, *self.warm] if member.host not in wanted]
        self.warming = [member for member in self.warming if member not in dropped]
        for member in dropped:
            self.warm.pop(member, None)
        for member in self.announced:
            if member.host not in wanted and member not in self.group:
                self.retiring[member] = now_s
        retired = [
            member for member, since_s in self.retiring.items() if now_s - since_s >= self.retire_s
        ]
        for member in retired:
            del self.retiring[member]
        return [Drop(member) for member in [*dropped, *retired]]

    def _warm_up(self, wanted: list[HostSlots]) -> list[Action]:
        """Start the workers of wanted hosts that have none yet."""
        group = () if self.restarts else self.group
        if not self.sizes.allow(len(self.announced)):  # no group forms without the next stay
            group = tuple(member for member in group if member not in self.excused)
        present = {member.host for member in (*self.announced, *self.warming, *self.warm, *group)}
        joining = [self._new_member(host) for host in wanted if host not in present]
        self.warming += joining
        return [StartWarming(member) for member in joining]

    def _announce_ready(self, wanted: list[HostSlots], now_s: float) -> list[Action]:
        """Announce the wanted members that are ready, once the last one is warm or ``straggler_s``
        has passed; nothing if they are announced already.
        """
        group = () if self.restarts else self.group
        stay = [m for m in (*self.announced, *group) if m.host in wanted and m not in self.excused]
        oldest_s = min(self.warm.values(), default=now_s)
        joining: list[Member] = []
        if self.warm and (not self.warming or now_s - oldest_s >= self.straggler_s):
            joining = list(self.warm)
        candidates = tuple(dict.fromkeys([*stay, *joining]))
        announced = candidates
        if not self.restarts:  # the next group of these begins on all hosts, warm or not
            announced = tuple(used_hosts(candidates, self.sizes, [self.announced, self.group]))
        if set(announced) == set(self.announced) or (candidates and not announced):
            return []
        self.warm = {m: warm_s for m, warm_s in self.warm.items() if m not in announced}
        self.announced = announced
        return [Announce(announced)]


def _host_fragments(hosts: Iterable[HostSlots]) -> set[str]:
    return {host.fragment for host in hosts}
