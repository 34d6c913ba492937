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
class Formed:
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
    group: tuple[str, ...] = ()
    admitted: set[str] = field(default_factory=set)
    """Replicas that were started and have neither ended nor been released."""
    leaving: set[str] = field(default_factory=set)
    asked: dict[str, StepRequest] = field(default_factory=dict)
    latest: int | None = None
    """Steps that were committed before the group's present one."""
    _first_s: float | None = None
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
        """Note that a replica has ended."""
        self.admitted.discard(replica)
        self._node_of.pop(replica, None)
        self.leaving.discard(replica)
        self.asked.pop(replica, None)

    def ask(self, request: StepRequest) -> bool:
        """Note a replica's request; return False if the replica is none of this trainer's, has
        already asked, or is ahead of the group.
        """
        jumps = self.latest is not None and request.step > self.latest + 1
        if (
            request.replica not in self.admitted
            or request.replica in self.asked
            or request.step < 0
            or jumps
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

    def form(self, now_s: float) -> Formed | None:
        """Form the next step's quorum and return it; None while it cannot begin with a legal size.
        It answers the requests of its replicas and of those that are released.
        """
        if not self.asked or self.missing():
            return None
        alive = [replica for replica in self.group if replica in self.admitted]
        if not alive and not self._enough(now_s):
            return None
        released = self._released()
        replicas = self._fitting(self.asked.keys() - released)
        if not replicas:
            return None
        failed = any(self.asked[replica].failures for replica in replicas)
        steps = tuple(self.asked[replica].step for replica in replicas)
        changed = replicas != self.group
        self.number += changed or failed
        self.group = replicas
        self.latest = max(steps)
        for replica in (*replicas, *released):
            del self.asked[replica]
        self._first_s = None
        for replica in released:
            self.lose(replica)
        return Formed(self.number, replicas, changed, tuple(sorted(released)), steps)

    def _enough(self, now_s: float) -> bool:
        """Return whether the first step can begin: all replicas have asked, or ``straggler_s`` has
        passed.
        """
        self._first_s = now_s if self._first_s is None else self._first_s
        everyone = self.admitted - self.leaving <= self.asked.keys()
        return everyone or now_s - self._first_s >= self.straggler_s

    def _fitting(self, replicas: Set[str]) -> tuple[str, ...]:
        """Return those of ``replicas`` that form a group of a legal number of nodes, the present
        group's own first; empty if no legal size has room for these.

        A node joins once all of its replicas have asked.
        """
        if self.any_size:
            return tuple(sorted(replicas))
        own = {self._node_of[replica] for replica in self.group if replica in replicas}
        late = {self._node_of[replica] for replica in self.admitted - self.leaving - replicas}
        joining = {self._node_of[replica]: replica for replica in sorted(replicas, reverse=True)}
        complete = [node for node in joining if node not in own | late]
        complete.sort(key=joining.__getitem__)  # by the oldest replica of each
        size = self.sizes.largest_within(len(own) + len(complete))
        if size < len(own):
            return ()
        nodes = own.union(complete[: size - len(own)])
        return tuple(sorted(name for name in replicas if self._node_of[name] in nodes))

    def _released(self) -> set[str]:
        """Return the replicas that leave now: all that were dismissed, unless the others still need
        a copy of their latest weights.
        """
        leaving = self.asked.keys() & self.leaving
        staying = self.asked.keys() - leaving
        latest = max(request.step for request in self.asked.values())
        if any(self.asked[replica].step == latest for replica in staying):
            return leaving
        return set()
