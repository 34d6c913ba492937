"""Themis (Mahajan et al., NSDI 2020), a baseline of [AFS]: auctions for finish-time fairness.

The finish-time fairness of a job on G nodes is rho(G) = T_SH / T_ID [Themis 3.2, 5.2]:

    T_SH = time since its submission + remaining samples / rate(G)
    T_ID = samples / rate(R_max) * N_avg

R_max is the size that the job requests (at most the pool), and N_avg the mean number of jobs during
its life. A job holds its nodes for a lease. Nodes without a lease are offered to the fraction 1 - f
of all jobs with the worst rho. The partial allocation mechanism maximizes the product of the
bidders' valuations 1 / rho(G); nodes that they do not take go to the other jobs. Jobs use any size
up to R_max, and never more.

Defaults: f = 0.8, leases of 20 minutes.

Departures: the product is maximized node by node, which is optimal where 1 / rho is log-concave. A
job without nodes has an infinite rho: such jobs come first, in the order of the rho that they would
have at R_max. Hidden payments, which make truthful bids the best ones, are left out, as the curves
are known and no job bids. Nodes that the bidders leave go to the job with the worst rho (Themis:
any at random). A job has one lease for all its nodes. Placement does not matter here.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bftrainer.decide.domain.events import Event
from bftrainer.decide.domain.model import rates
from bftrainer.decide.domain.needs import Need
from bftrainer.decide.domain.ports import Policy
from bftrainer.decide.domain.sizes import largest_legal, sizes_of
from bftrainer.decide.domain.state import Active, Decision, State
from bftrainer.decide.policies.settings import PolicySettings
from bftrainer_papers.policies.lengths import remaining
from bftrainer_papers.policies.shares import requested


@dataclass(frozen=True, slots=True)
class Contention:
    """The number of jobs over time: ``job_s`` is its integral up to ``at_s``, ``count`` the number
    since then, and ``began`` the integral when each job was first observed.
    """

    at_s: float = 0.0
    count: int = 0
    job_s: float = 0.0
    began: tuple[tuple[str, float], ...] = ()

    def then(self, state: State) -> Contention:
        """Return the number of jobs over time up to a state's time, with the jobs of that state.

        The integral grows by the jobs that there were until now; new jobs begin at its present
        value.
        """
        job_s = self.job_s + self.count * (state.at_s - self.at_s)
        began = dict(self.began)
        return Contention(
            state.at_s,
            len(state.active),
            job_s,
            tuple(
                (admitted.trainer.id, began.get(admitted.trainer.id, job_s))
                for admitted in state.active
            ),
        )


@dataclass(frozen=True, slots=True)
class Leases:
    """The memory of the policy: the contention, and the end of every lease (s)."""

    contention: Contention = Contention()
    ends_s: tuple[tuple[str, float], ...] = ()


@dataclass(slots=True)
class _Bidder:
    """A job in an auction: the sizes that it can use, and its rho at each (empty: it can use no
    more nodes and does not bid).
    """

    name: str
    sizes: tuple[int, ...]
    rho: Mapping[int, float]
    nodes: int

    @property
    def fairness(self) -> tuple[float, float]:
        """The key by which bidders are ordered: rho now, and rho at the largest size."""
        return (self.rho.get(self.nodes, math.inf), self.rho[self.sizes[-1]])

    def next_size(self, free: int) -> int | None:
        """Return the next larger size if it needs at most ``free`` more nodes."""
        place = bisect_right(self.sizes, self.nodes)
        if place == len(self.sizes) or self.sizes[place] - self.nodes > free:
            return None
        return self.sizes[place]

    def gain(self, size: int) -> float:
        """Return the growth of log(1 / rho) per node, from the present size to ``size``."""
        now, after = self.rho.get(self.nodes, math.inf), self.rho[size]
        return math.log(now / after) / (size - self.nodes) if after > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Themis:
    """Themis: ``fairness`` is its knob f in [0, 1), ``lease_s`` the length of a lease."""

    fairness: float = 0.8
    lease_s: float = 1200.0
    name: str = "themis"
    needs: frozenset[Need] = frozenset({Need.LENGTH})

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        """Keep the nodes that are leased, and auction the others; the memory is the
        :class:`Leases`.

        Only the jobs with the worst finish-time fairness, a fraction 1 - f, may bid at first; what
        they leave goes to the others. The policy asks to be called again at the end of the first
        lease if some job could use more nodes.
        """
        before = state.memory if isinstance(state.memory, Leases) else Leases()
        contention = before.contention.then(state)
        ends_s = {name: end_s for name, end_s in before.ends_s if end_s > state.at_s}
        bidders = [
            self._as_bidder(active, contention, began, len(state.pool), active.trainer.id in ends_s)
            for active, (_, began) in zip(state.active, contention.began, strict=True)
        ]
        free = len(state.pool) - sum(bidder.nodes for bidder in bidders)
        bidding = [bidder for bidder in bidders if bidder.rho]
        bidding.sort(key=lambda bidder: bidder.fairness, reverse=True)
        # The margin keeps rounding from adding a job; at least one job must be offered the nodes.
        offered_count = max(math.ceil((1 - self.fairness) * len(bidders) - 1e-9), 1)
        free = auction(bidding[:offered_count], free)
        auction(bidding[offered_count:], free)
        for bidder in bidders:
            if bidder.nodes:
                ends_s.setdefault(bidder.name, state.at_s + self.lease_s)
        held = {bidder.name for bidder in bidders if bidder.nodes}
        leases = tuple((name, end_s) for name, end_s in ends_s.items() if name in held)
        wants_more = any(bidder.next_size(len(state.pool)) is not None for bidder in bidding)
        first_end_s = min((end_s for _, end_s in leases), default=None)
        counts = tuple(bidder.nodes for bidder in bidders)
        return Decision(counts, first_end_s if wants_more else None), Leases(contention, leases)

    def _as_bidder(
        self, active: Active, contention: Contention, began: float, pool: int, has_lease: bool
    ) -> _Bidder:
        """Return the job as a bidder, with rho (its finish-time fairness) at each size that it
        could use.

        A job with a lease begins with the nodes that it holds, any other with none. ``began`` is
        the integral of ``contention`` (the number of jobs over time) when the job was first
        observed: with it, the mean number of jobs during its life is known.
        """
        trainer, rate = active.trainer, rates(active.trainer)
        limit = min(requested(trainer), pool)
        sizes = tuple(size for size in sizes_of(trainer) if size <= limit and rate[size] > 0)
        nodes = largest_legal(trainer, min(len(active.nodes), limit)) if has_lease else 0
        # It can use no nodes at all, or has as many as it can use.
        if not sizes or nodes == sizes[-1]:  # it does not bid
            return _Bidder(trainer.id, sizes, {}, nodes if sizes else 0)
        waited_s = contention.at_s - active.admitted_s
        lived_s = contention.job_s - began
        mean_count = lived_s / waited_s if waited_s > 0 and lived_s > 0 else contention.count
        left = remaining(active, self.name)
        alone_s = (trainer.samples_total or 0.0) / rate[sizes[-1]] * mean_count
        rho = {size: (waited_s + left / rate[size]) / alone_s for size in sizes}
        return _Bidder(trainer.id, sizes, rho, nodes)


def auction(bidders: Sequence[_Bidder], free: int) -> int:
    """Give ``free`` nodes to bidders so that the product of their 1 / rho grows fastest.

    Return how many are left. First every bidder without nodes, in the given order (the worst rho
    first), gets its smallest size while that fits, because a job without nodes makes the product 0.
    Then each step goes to the bidder that gains most by it.
    """
    for bidder in bidders:
        if bidder.nodes == 0 and (size := bidder.next_size(free)) is not None:
            free -= size
            bidder.nodes = size
    while free > 0:
        bids = [
            (bidder.gain(size), -place, size)
            for place, bidder in enumerate(bidders)
            if bidder.nodes and (size := bidder.next_size(free)) is not None
        ]
        if not bids:
            return free
        _, place, size = max(bids)
        winner = bidders[-place]
        free -= size - winner.nodes
        winner.nodes = size
    return free


def build(settings: PolicySettings) -> Policy:
    """Entry point ``bftrainer.policies``."""
    options = settings.option_values("themis", fairness=0.8, lease_s=1200.0)
    return Themis(options["fairness"], options["lease_s"])
