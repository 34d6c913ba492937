"""A cluster in memory that obeys the ports Scheduler and NodeHolder, and a clock that goes only when told."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from bftrainer.domain.cluster import (
    Acquired,
    Availability,
    Fragment,
    FragmentPhase,
    NodeRequest,
    NodeView,
    Observation,
    PendingJob,
    Refusal,
    Reservation,
)
from bftrainer.domain.fragment_names import fragment_name, id_in_job, job_of, node_of
from bftrainer.errors import SchedulerError


@dataclass
class FakeClock:
    """Time goes by when somebody sleeps."""

    at_s: float = 1_000_000.0

    def now_s(self) -> float:
        return self.at_s

    def elapsed_s(self) -> float:
        return self.at_s

    def sleep(self, seconds: float) -> None:
        self.at_s += max(seconds, 0.0)


@dataclass
class Job:
    """Of the main queue. ``starts_s`` is its start or, while it waits, its plan; infinite where there is none."""

    id: str
    size: int
    length_s: float
    nodes: frozenset[str] = frozenset()
    starts_s: float = math.inf

    def runs(self, at_s: float) -> bool:
        return bool(self.nodes) and self.starts_s <= at_s < self.starts_s + self.length_s


@dataclass
class FakeCluster:
    """Nodes, main jobs in order of submission, and holders, which last over the holder objects that made them."""

    clock: FakeClock
    nodes: tuple[str, ...] = tuple(f"node{n:02d}" for n in range(1, 9))
    drained: set[str] = field(default_factory=set)
    jobs: list[Job] = field(default_factory=list)
    reservations: list[Reservation] = field(default_factory=list)
    holders: dict[str, tuple[str, Fragment]] = field(default_factory=dict)
    leases: dict[str, float] = field(default_factory=dict)
    workers: dict[str, int] = field(default_factory=dict)
    silent: bool = False
    lease_s: float = 60.0
    _ids: int = 0

    def new_id(self) -> str:
        self._ids += 1
        return str(self._ids)

    def submit(self, size: int, length_s: float) -> str:
        job = Job(self.new_id(), size, length_s)
        self.jobs.append(job)
        self.step()
        return job.id

    def busy_until(self, node: str) -> float:
        at_s = self.clock.at_s
        return max([at_s, *(j.starts_s + j.length_s for j in self.jobs if j.runs(at_s) and node in j.nodes)])

    def step(self) -> None:
        """Start or plan what waits, in order; holders on the nodes of what starts are asked back."""
        at_s = self.clock.at_s
        taken: set[str] = set()
        for job in self.jobs:
            if job.starts_s <= at_s:
                continue
            usable = [n for n in self.nodes if n not in self.drained | taken]
            chosen = sorted(usable, key=lambda n: (self.busy_until(n), n in self._held_nodes(), n))[: job.size]
            if len(chosen) < job.size:
                continue
            job.nodes, job.starts_s = frozenset(chosen), max(self.busy_until(n) for n in chosen)
            if job.starts_s <= at_s:
                taken_jobs = {job_of(f.name) for _, f in self.holders.values() if f.node in job.nodes}
                self.end([name for name in self.holders if job_of(name) in taken_jobs], "preempted")
            taken |= job.nodes
        for name, seen_s in list(self.leases.items()):
            if at_s - seen_s > self.lease_s:
                self.end([name], "lease lapsed")

    def end(self, names: list[str], why: str) -> None:
        for name in names:
            if name in self.holders and self.holders[name][1].phase is not FragmentPhase.GONE:
                self.holders[name] = (self.holders[name][0], Fragment(name, FragmentPhase.GONE, why=why))
                self.workers.pop(name, None)
                self.leases.pop(name, None)

    def observe(self) -> Observation:
        if self.silent:
            raise SchedulerError("made up: no answer")
        self.step()
        at_s, held = self.clock.at_s, self._held_nodes()
        nodes = []
        for name in self.nodes:
            busy = self.busy_until(name) > at_s or name in held
            planned = any(name in job.nodes and job.starts_s > at_s for job in self.jobs)
            state = (
                Availability.BUSY
                if busy
                else Availability.UNUSABLE
                if name in self.drained
                else Availability.PLANNED
                if planned
                else Availability.FREE
            )
            nodes.append(NodeView(name, state, ("main", "scavenge"), cpus=2, is_withdrawn=name in self.drained))
        pending = tuple(
            PendingJob(j.id, "somebody", ("main",), j.size, None if math.isinf(j.starts_s) else j.starts_s, j.nodes)
            for j in self.jobs
            if j.starts_s > at_s
        )
        return Observation(at_s, tuple(nodes), pending, tuple(self.reservations))

    def _held_nodes(self) -> set[str]:
        return {f.node for _, f in self.holders.values() if f.phase is not FragmentPhase.GONE}


@dataclass
class FakeHolder:
    """NodeHolder of one pilot on a FakeCluster. A claim is PENDING until the next poll."""

    cluster: FakeCluster
    pilot: str = "test"
    nodes_per_holder: int = 1

    def acquire(self, claims: tuple[NodeRequest, ...]) -> Acquired:
        fragments, refusals = [], []
        for claim in claims:
            if claim.window_s < 60:
                refusals.append(Refusal(claim.node, "its window is too short"))
            elif claim.node in self.cluster._held_nodes():
                refusals.append(Refusal(claim.node, "already held"))
            else:
                if len(fragments) % self.nodes_per_holder == 0:
                    job = self.cluster.new_id()
                id_ = job if self.nodes_per_holder == 1 else id_in_job(job, claim.node)
                fragment = Fragment(fragment_name(claim.node, id_), FragmentPhase.PENDING)
                self.cluster.holders[fragment.name] = (self.pilot, fragment)
                self.cluster.leases[fragment.name] = self.cluster.clock.at_s
                fragments.append(fragment)
        return Acquired(tuple(fragments), tuple(refusals))

    def poll(self) -> tuple[Fragment, ...]:
        self.cluster.step()
        shown = tuple(f for _, f in sorted(self._mine().items()))
        for fragment in shown:
            if fragment.phase is FragmentPhase.GONE and not self.cluster.silent:
                del self.cluster.holders[fragment.name]
            elif fragment.phase is FragmentPhase.PENDING:
                ready = Fragment(fragment.name, FragmentPhase.READY, self.cluster.clock.at_s + 3600)
                self.cluster.holders[fragment.name] = (self.pilot, ready)
        return shown

    def observed(self, without_a_job: frozenset[str]) -> None: ...

    def release(self, names: frozenset[str]) -> None:
        mine = sorted(self._mine())
        self.cluster.end([name for name in mine if name in names], "released")
        for name in names & set(mine):  # no job gives back its first node alone
            beside = [other for other in mine if job_of(other) == job_of(name)]
            if name == beside[0]:
                self.cluster.end(beside, f"released with {node_of(name)} of the same job")

    def clear(self, names: frozenset[str]) -> None:
        for name in names & set(self._mine()):
            self.cluster.workers.pop(name, None)

    def renew(self) -> None:
        for name in self._mine():
            if name in self.cluster.leases:
                self.cluster.leases[name] = self.cluster.clock.at_s

    def _mine(self) -> dict[str, Fragment]:
        return {name: f for name, (pilot, f) in self.cluster.holders.items() if pilot == self.pilot}
