"""The nodes that are left for the jobs further down the queue: a job that fits on idle and held
nodes gets its nodes from the idle ones first, then from those that are held.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from bftrainer.decide.yielding.facts import (
    HolderStage,
    ListedHolder,
    NodeWait,
    OwnHolder,
    WaitingQueue,
    YieldRules,
    number_of,
)
from bftrainer.decide.yielding.node_sets import NO_NODES, NodeSet, first_nodes, union_of
from bftrainer.decide.yielding.offers import Offer
from bftrainer.decide.yielding.times_by_node import TimesByNode
from bftrainer.times import PilotS

LEAVING_S = 20.0
"""A holder that is ending may still have its node for so long after the notice."""


@dataclass(frozen=True, slots=True)
class OtherHolders:
    """Who holds nodes besides own holders that are ready.

    ``leaving`` nodes will be idle soon. ``others``: holders of other pilots, by node. ``starting``:
    nodes of own holders that are pending and have them already.
    """

    leaving: NodeSet = NO_NODES
    others: Mapping[str, ListedHolder] = field(default_factory=dict)
    starting: NodeSet = NO_NODES


@dataclass(slots=True)
class NodePool:
    """The nodes that are left for the jobs further down the queue.

    ``idle_since``: since when each idle node is idle, by the scheduler's clock, for whomever it is.
    ``leaving`` will be idle soon, some of them as soon as the trainers of ``given_back`` holders
    have left; jobs wait for those in ``awaited_since``. ``own`` are own holders that are ready, by
    name, ``others`` those of other pilots, by node; ``usable`` are the nodes of all of them.
    ``pending`` are the names of own holders that are not ready; ``starting`` nodes are theirs
    already.
    ``ended_jobs``: holder jobs that end with all their nodes, for a job that came before.
    ``renewing``: pending holders that may stay, unless a job takes the node.
    """

    rules: YieldRules
    at_s: PilotS
    idle: NodeSet
    leaving: NodeSet
    own: dict[str, OwnHolder]
    others: dict[str, ListedHolder]
    idle_since: TimesByNode
    awaited_since: TimesByNode
    given_back: Sequence[OwnHolder] = ()
    renewing: Sequence[OwnHolder] = ()
    starting: NodeSet = NO_NODES
    pending: set[str] = field(default_factory=set)
    hastened: set[str] = field(default_factory=set)
    ended_jobs: set[str] = field(default_factory=set)
    usable: NodeSet = NO_NODES
    kinds: tuple[NodeSet, ...] = ()
    _idle_sets: dict[float, NodeSet] = field(default_factory=dict)
    _spare_sets: dict[NodeSet, NodeSet] = field(default_factory=dict)
    _refused_sets: dict[tuple[NodeSet, float, NodeSet, int], NodeSet] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        queue: WaitingQueue,
        own: Sequence[OwnHolder],
        held: OtherHolders,
        idle_since: TimesByNode,
        awaited_since: TimesByNode,
        rules: YieldRules,
    ) -> NodePool:
        """Return the nodes at this look, before any job has taken some. ``idle_since`` and
        ``awaited_since`` are as of the look before.
        """
        ready = {h.nodes: h for h in own if h.stage is HolderStage.READY}
        ready_nodes = union_of(ready)
        others_nodes = frozenset[str](held.others)
        awaited_since = awaited_since.only(held.leaving)
        # A holder that is ending, or was told to, and hangs is not waited for.
        hanging = awaited_since.until(queue.at_s - rules.notice_s - LEAVING_S)
        idle = queue.idle - ready_nodes - others_nodes - held.leaving
        waiting = [h for h in own if h.stage is HolderStage.PENDING]
        # A renewal starts in the same cycle as the main job, and leaves that one its nodes.
        renewing = [h for h in waiting if _is_new_renewal(h, queue.at_s, rules)]
        pending = {h.name for h in waiting} - {h.name for h in renewing}
        pool = cls(
            rules,
            queue.at_s,
            idle,
            held.leaving - ready_nodes - hanging,
            {h.name: h for h in ready.values()},
            dict(held.others),
            idle_since.only(idle).also(idle, queue.server_s),
            awaited_since,
            [h for h in own if h.stage is HolderStage.GIVEN_BACK],
            renewing,
            held.starting,
            pending=pending,
            kinds=queue.kinds,
        )
        pool._count_usable()
        return pool

    def _count_usable(self) -> None:
        """Note all nodes that are left."""
        own = (h.nodes for h in self.own.values())
        self.usable = union_of((self.idle, self.leaving, frozenset[str](self.others), *own))

    def fits(self, job: NodeWait) -> bool:
        """Whether enough nodes are idle, leaving or held for a job, all that it requires among
        them.
        """
        return self._size(job) > 0 and job.required <= self.usable

    def has_idle(self, job: NodeWait, since_s: float = math.inf) -> bool:
        """Whether enough nodes are idle, so that the scheduler could start it now: of all idle
        nodes those that were idle at ``since_s`` already and are since then.
        """
        idle = self._idle_at(since_s)
        count = len(idle & job.nodes)
        if count >= job.size:
            return job.required <= idle
        if not job.task_size and not job.fewest:
            return False
        return count >= self._least_size(job) and job.required <= idle

    def _idle_at(self, since_s: float) -> NodeSet:
        """Return the nodes that are idle since a time of the scheduler's at the latest."""
        if since_s not in self._idle_sets:
            self._idle_sets[since_s] = self.idle_since.until(since_s)
        return self._idle_sets[since_s]

    def _size(self, job: NodeWait) -> int:
        """Return how many nodes a job could get: all that it asks for, whole tasks of an array, so
        many of its range of sizes, or none.
        """
        usable = len(self.usable & job.nodes)
        if usable >= job.size:
            return job.size
        if job.task_size:
            return usable - usable % job.task_size
        return usable if 0 < job.fewest <= usable else 0

    def _least_size(self, job: NodeWait) -> int:
        """Return how many idle nodes are enough for a job: what it could get now, else one task of
        an array, or the fewest of its range.
        """
        return self._size(job) or job.task_size or job.fewest or job.size

    def watch(self, offer: Offer, queue: WaitingQueue) -> Offer:
        """Return the offer of a job that does not fit on the nodes that the jobs before it leave,
        after one more look: it is judged by the nodes that are idle for them.
        """
        is_enough = self.has_idle(offer.needs)
        if is_enough and not offer.looks:
            offer = replace(offer, spare=self._spare(offer))
        offer = offer.after_look(queue, is_enough=is_enough)
        if not offer.awaited:
            return offer
        return replace(offer, awaited=frozenset[ListedHolder](), awaited_s=PilotS(math.inf))

    def _spare(self, offer: Offer) -> NodeSet:
        """Return the nodes that are idle before a job is judged by idle nodes, unless any was
        released for it already.
        """
        if offer.released > offer.released_before or offer.refused:
            return offer.spare
        nodes = offer.job.nodes
        if nodes not in self._spare_sets:  # one set for all jobs, which may be thousands
            self._spare_sets[nodes] = self._idle_at(math.inf) & nodes
        return self._spare_sets[nodes]

    def refused(self, offer: Offer, since_s: float) -> NodeSet:
        """Return the nodes that a job may not have taken because it cannot use them: nodes that
        were idle before any was released, and since ``since_s``, and all that are like those, if
        enough of one kind were idle. None, if released ones would have been enough for it.
        """
        idle, job = self._idle_at(since_s), offer.job
        least = self._least_size(job)
        released = idle & (job.nodes - offer.spare)
        if job.required <= idle and len(released) >= least:
            return NO_NODES
        key = offer.spare, since_s, job.nodes, least
        if key not in self._refused_sets:  # one set for all jobs
            alike = [kind for kind in self.kinds if len(kind & idle & job.nodes) >= least]
            self._refused_sets[key] = union_of([offer.spare & idle, *alike]) & job.nodes
        refused = self._refused_sets[key]
        return refused - job.required if job.required else refused

    def serve(self, offer: Offer, queue: WaitingQueue) -> tuple[Offer, tuple[OwnHolder, ...]]:
        """Take the nodes for a job that fits out of the pool. Returns its offer after that, and the
        own holders to release, with the nodes that the job gets.
        """
        job = offer.needs
        if not offer.looks:
            offer = replace(offer, spare=self._spare(offer))
        offer = offer.after_look(queue, is_enough=self.has_idle(job))
        count = max(self._size(job) - len(job.required), 0)
        others_than_required = job.nodes - job.required
        from_idle = first_nodes(self.idle & others_than_required, count)
        count -= len(from_idle)
        from_leaving = first_nodes(self.leaving & others_than_required, count)
        count -= len(from_leaving)
        held = job.required - self.idle - self.leaving
        from_idle = from_idle | (job.required & self.idle)
        from_leaving = from_leaving | (job.required & self.leaving)
        starting = self.starting & from_leaving  # their holders are canceled
        own, others = self._released(job, held, count)
        self._take(from_idle, from_leaving)
        self._count_usable()
        released = sum(len(h.nodes) for h in own) + len(starting)
        return self._offered(offer, released, others), own

    def _take(self, from_idle: NodeSet, from_leaving: NodeSet) -> None:
        """Take nodes that are idle, or will be, for a job."""
        self.idle -= from_idle
        self.leaving -= from_leaving
        taken = from_idle | from_leaving
        self.hastened.update(h.name for h in self.given_back if h.nodes & from_leaving)
        self.pending |= {h.name for h in self.renewing if h.nodes & taken}
        self.awaited_since = self.awaited_since.also(from_leaving, self.at_s)

    def _released(
        self, job: NodeWait, required: NodeSet, count: int
    ) -> tuple[tuple[OwnHolder, ...], frozenset[ListedHolder]]:
        """Take held nodes for a job: the ``required`` ones, and ``count`` others. Returns the own
        holders, with the nodes that are taken, and those of other pilots.

        All pilots take the same ones. If only this pilot has holders there, it takes the cheapest.
        """
        own: list[OwnHolder] = []
        if required:
            own = self._from_own(list(self.own.values()), required, len(required))
        others = [node for node in self.others if node in required]
        if count:
            allowed = job.nodes - job.required
            shared = [node for node in self.others if node in allowed]
            if shared:
                nodes = self._latest(allowed, shared, count)
                own += self._from_own(list(self.own.values()), nodes, len(nodes))
                others += [node for node in shared if node in nodes]
            else:
                own += self._from_own(self._cheapest(), allowed, count)
        self.ended_jobs |= {held.job for held in own if not held.is_separable}
        return tuple(own), frozenset(self.others.pop(node) for node in others)

    def _from_own(self, order: Sequence[OwnHolder], nodes: NodeSet, count: int) -> list[OwnHolder]:
        """Take ``count`` of these nodes out of own holders, in this order."""
        taken: list[OwnHolder] = []
        for holder in order:
            if not count:
                break
            part = first_nodes(holder.nodes & nodes, count)
            if not part:
                continue
            taken.append(replace(holder, nodes=part))
            count -= len(part)
            rest = holder.nodes - part
            if rest:
                self.own[holder.name] = replace(holder, nodes=rest)
            else:
                del self.own[holder.name]
        return taken

    def _latest(self, allowed: NodeSet, shared: Sequence[str], count: int) -> NodeSet:
        """Return the nodes of the latest holders of all pilots."""
        jobs = {node: self.others[node].job for node in shared}
        for holder in self.own.values():
            jobs |= dict.fromkeys(holder.nodes & allowed, holder.job)
        order = sorted(jobs, key=lambda node: (-number_of(jobs[node]), jobs[node], node))
        return frozenset(order[:count])

    def _cheapest(self) -> list[OwnHolder]:
        """Order own holders: first those of jobs that end anyway, then jobs of one node; of these,
        nodes without a trainer, then those of the trainer that loses least, the latest ones first.
        Nodes of a job follow each other. A node that its job gives back alone counts as one of a
        job of one node.
        """
        costs: dict[str, float] = {}
        for held in self.own.values():
            if held.cost is not None:
                costs[held.job] = max(costs.get(held.job, 0.0), held.cost)

        def rank(held: OwnHolder) -> tuple[bool, bool, bool, float, float, str, str]:
            job = held.job
            ends_others = held.is_one_of_several and not held.is_separable
            cost = held.cost if held.is_separable else costs.get(job)
            loss = 0.0 if cost is None else cost
            goes_on = job not in self.ended_jobs
            return goes_on, ends_others, cost is not None, loss, -held.asked_s, job, held.name

        return sorted(self.own.values(), key=rank)

    def _offered(self, offer: Offer, released: int, others: frozenset[ListedHolder]) -> Offer:
        """Return an offer after ``released`` own nodes more, and ``others`` awaited from other
        pilots.
        """
        if not released and not others and not offer.awaited:
            return offer
        released_s = offer.released_s
        if released and released_s is None:
            released_s = self.at_s
        is_awaited = set(map(user_of, others)) <= set(map(user_of, offer.awaited))
        awaited_s = offer.awaited_s if is_awaited and others else self.at_s
        return replace(
            offer,
            released=offer.released + released,
            released_s=released_s,
            awaited=others,
            awaited_s=awaited_s if others else PilotS(math.inf),
        )


def _is_new_renewal(held: OwnHolder, at_s: PilotS, rules: YieldRules) -> bool:
    """Return whether a pending holder was requested less than a look ago for a node that another
    one of this pilot is leaving.
    """
    return held.is_renewal and at_s - held.asked_s < rules.poll_s


def user_of(holder: ListedHolder) -> str:
    """The user of a pilot: any number of pilots may be a user's, or be claimed by one."""
    return holder.pilot.partition("/")[0]
