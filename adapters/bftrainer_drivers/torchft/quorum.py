"""The replicas that take part in the next step. Pure.

torchft asks a lighthouse before each step for the quorum: the replicas that train together, each a
worker of its own. Its own lighthouse finds out by heartbeats who is alive. This one is told by the
driver, which starts the workers and sees them end, so a step waits for no time-out: it begins when
every living member has asked for it, and a replica that has asked from outside the group joins it
there.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, field

from bftrainer_drivers.common.legal_sizes import LegalSizes


@dataclass(frozen=True, slots=True)
class StepRequest:
    """A replica's request for its next step. ``step``: steps that it has committed; ``failures``:
    steps in succession that it could not commit.
    """

    replica: str
    step: int
    failures: int


@dataclass(frozen=True, slots=True)
class StepQuorum:
    """The quorum of one step, in the order of the ranks. ``number`` is new whenever connections
    have to be made again.

    ``changed``: other replicas than in the step before. ``released``: replicas that were to leave,
    and have left between two steps. ``steps``: how many each replica has committed.
    """

    number: int
    replicas: tuple[str, ...]
    changed: bool
    released: tuple[str, ...]
    steps: tuple[int, ...]


@dataclass(slots=True)
class Quorum:
    """Decides which replicas take part in the next step. Their order by name is the order in which
    they were started: the oldest has rank 0.
    """

    sizes: LegalSizes
    """The legal sizes of the group, in nodes."""
    any_size: bool = False
    """Whether a group may form that is to save and leave, whatever its size."""
    straggler_s: float = 1.0
    """How long the first step waits for further replicas that were started."""
    number: int = 0
    """The number of the last quorum."""
    group: tuple[str, ...] = ()
    """The replicas of the last quorum, in the order of their ranks."""
    admitted: set[str] = field(default_factory=set)
    """Replicas that were started and have neither ended nor been released."""
    leaving: set[str] = field(default_factory=set)
    """Admitted replicas that are to leave between two steps."""
    asked: dict[str, StepRequest] = field(default_factory=dict)
    """Requests that have no answer yet, by replica."""
    latest: int | None = None
    """Steps that were committed before the group's present one."""
    _first_request_s: float | None = None
    _node_of: dict[str, str] = field(default_factory=dict)

    def admit(self, replicas: Iterable[str], node: str | None = None) -> None:
        """Let these replicas, of one node, take part from their first request on; without ``node``,
        each is a node of its own.
        """
        names = set(replicas)
        self.admitted |= names
        self._node_of |= {replica: node or replica for replica in names}

    def dismiss(self, replicas: Iterable[str]) -> None:
        """Let these replicas leave between two steps."""
        self.leaving |= self.admitted & set(replicas)

    def lose(self, replica: str) -> None:
        """Record that a replica has ended."""
        self.admitted.discard(replica)
        self._node_of.pop(replica, None)
        self.leaving.discard(replica)
        self.asked.pop(replica, None)

    def ask(self, request: StepRequest) -> bool:
        """Record a replica's request; return False if the replica is none of this trainer's, has
        already asked, or is ahead of the group.
        """
        is_ahead = self.latest is not None and request.step > self.latest + 1
        if (
            request.replica not in self.admitted
            or request.replica in self.asked
            or request.step < 0
            or is_ahead
        ):
            return False
        self.asked[request.replica] = request
        return True

    def withdraw(self, replica: str) -> None:
        """Forget a replica's request: it no longer waits for the answer."""
        self.asked.pop(replica, None)

    def missing(self) -> set[str]:
        """Return the members that the next step still waits for."""
        return {
            replica
            for replica in self.group
            if replica in self.admitted and replica not in self.asked
        }

    def form(self, now_s: float) -> StepQuorum | None:
        """Form the next step's quorum and return it; None while the step still waits for members,
        or cannot begin with a legal size. The quorum answers the requests of its replicas and of
        those that are released: these requests are forgotten.
        """
        if not self.asked or self.missing():
            return None
        alive = [replica for replica in self.group if replica in self.admitted]
        if not alive and not self._can_begin(now_s):
            return None
        released = self._leaving_now()
        replicas = self._legal_group(self.asked.keys() - released)
        if not replicas:
            return None
        has_failures = any(self.asked[replica].failures for replica in replicas)
        steps = tuple(self.asked[replica].step for replica in replicas)
        is_changed = replicas != self.group
        if is_changed or has_failures:  # connections have to be made again
            self.number += 1
        self.group = replicas
        self.latest = max(steps)
        for replica in (*replicas, *released):
            del self.asked[replica]
        self._first_request_s = None
        for replica in released:
            self.lose(replica)
        return StepQuorum(
            number=self.number,
            replicas=replicas,
            changed=is_changed,
            released=tuple(sorted(released)),
            steps=steps,
        )

    def _can_begin(self, now_s: float) -> bool:
        """Return whether the first step can begin: all replicas have asked, or ``straggler_s`` has
        passed.
        """
        if self._first_request_s is None:
            self._first_request_s = now_s
        have_all_asked = self.admitted - self.leaving <= self.asked.keys()
        return have_all_asked or now_s - self._first_request_s >= self.straggler_s

    def _legal_group(self, replicas: Set[str]) -> tuple[str, ...]:
        """Return those of ``replicas`` that form a group of a legal number of nodes: all of the
        present group's nodes, then the nodes with the oldest replicas. Empty if no legal size has
        room for the present group's nodes.

        A node joins once all of its replicas have asked.
        """
        if self.any_size:
            return tuple(sorted(replicas))
        group_nodes = {self._node_of[replica] for replica in self.group if replica in replicas}
        incomplete = {self._node_of[replica] for replica in self.admitted - self.leaving - replicas}
        # In reverse order, the oldest replica of each node comes last, and stays.
        oldest_of = {self._node_of[replica]: replica for replica in sorted(replicas, reverse=True)}
        joining_nodes = [node for node in oldest_of if node not in group_nodes | incomplete]
        joining_nodes.sort(key=oldest_of.__getitem__)
        size = self.sizes.largest_within(len(group_nodes) + len(joining_nodes))
        if size < len(group_nodes):
            return ()
        nodes = group_nodes.union(joining_nodes[: size - len(group_nodes)])
        return tuple(sorted(name for name in replicas if self._node_of[name] in nodes))

    def _leaving_now(self) -> set[str]:
        """Return the replicas that leave now: all that were dismissed, unless the others still need
        a copy of their latest weights.
        """
        leaving = self.asked.keys() & self.leaving
        staying = self.asked.keys() - leaving
        latest = max(request.step for request in self.asked.values())
        if any(self.asked[replica].step == latest for replica in staying):
            return leaving
        return set()
