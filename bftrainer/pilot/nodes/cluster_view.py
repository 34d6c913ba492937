"""The result of the polls so far: a frozen view of the cluster, and the view after one more poll.
Pure.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Protocol

from bftrainer.cluster.model import (
    UNKNOWN_PILOT,
    Availability,
    Hidden,
    Idle,
    NodeRequest,
    NodeView,
    Observation,
    PeerPilot,
)
from bftrainer.cluster.selection import (
    allowed_nodes,
    asleep_nodes,
    idle_gpu_nodes,
    idle_nodes,
    next_end_s,
    offered_windows,
    part_of,
    used_gpu_counts,
    window_ends_by_host_clock,
)
from bftrainer.cluster.windows import PilotJobs, may_be_taken_at_once
from bftrainer.config.pilot import PilotConfig
from bftrainer.counted import counted
from bftrainer.decide.core.debounce import DebounceState, debounce
from bftrainer.decide.domain.node_stages import NodeStage
from bftrainer.decide.yielding.facts import WaitingQueue
from bftrainer.errors import BFTrainerError, PostponedError
from bftrainer.fragment_names import job_of, node_of
from bftrainer.pilot.nodes.holding_order import OrderFacts
from bftrainer.pilot.nodes.node_facts import Candidate, Harvest, LimitWaits
from bftrainer.pilot.nodes.poll_schedule import PollOutcome, PollSchedule, rules_of
from bftrainer.sharing.fair_share import Sharer
from bftrainer.sharing.peers import overlap, peer_holders, rivals
from bftrainer.times import ElapsedS, PilotS

FirstSeen = Mapping[str, Mapping[NodeStage, PilotS]]
"""By idle node: the instants before a request."""
_SLOWEST_POLL = 6.0  # times poll_s, after failed polls
_OFFSET_JITTER_S = 3.0  # a poll takes its time
_WITH_JOBS = (Availability.BUSY, Availability.SHARED)
_AFTER_END_S = 1.0  # the scheduler acts upon an end that is known
_PUBLISHED = 0.25  # of a hinted poll's cost: no scheduler is asked
_AGAIN_S = 0.5  # until who asks for several pilots may have asked again


class NodeLookup(Protocol):
    """Classes and GPUs of nodes that were observed."""

    def of_node(self, node: str) -> str | None: ...
    def gpus(self, node: str) -> int: ...


_NONE_USABLE = (
    "none of the {} nodes may be held: check the partition of the holders, and "
    "[nodes] (bftrainer doctor --state DIR)"
)


@dataclass(frozen=True, slots=True)
class PollAnswer:
    """The answer of the scheduler to a poll: an observation, when it was complete, the peer pilots
    if they matter, and this pilot as they see it.
    """

    observation: Observation
    at_s: PilotS
    peers: tuple[PeerPilot, ...] | None
    own: PeerPilot = UNKNOWN_PILOT


@dataclass(frozen=True, slots=True)
class EndedPoll:
    """A poll with its answer or error. The pilot was awake for ``took_s`` of it. ``stretch``: a
    factor on the interval until the next poll, by chance.
    """

    begun_s: ElapsedS
    ended_s: ElapsedS
    now_s: PilotS
    took_s: float
    answer: PollAnswer | BFTrainerError
    stretch: float = 1.0


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What is known of the cluster, and how polls went.

    ``held`` are all fragments since the last poll: their jobs end no window. ``first_s``: the first
    success. ``silent_s``: seconds without an answer. ``error``: of the last failure, empty since a
    success. ``budget``: the limit of calls that first postponed a poll for long. ``complaint``:
    what was last said of peer pilots, or of nodes; ``remark``: of a broker. ``rivals``: other
    pilots of the ``usable`` nodes, which are all that the configuration allows; ``own``: this one.
    ``is_blind``: the site hides the rivals. ``window_ends``: (node, end) by the scheduler's plans,
    held nodes included. ``clock_offset_s``: what this host's clock is ahead of the scheduler's.
    ``part_gpus``: GPUs of parts in the last look: where there are more, a job may be about to take
    them.
    """

    schedule: PollSchedule
    held: frozenset[str] = frozenset()
    were_idle: frozenset[str] | None = None
    first_s: ElapsedS | None = None
    failures: int = 0
    error: str = ""
    is_postponed: bool = False
    budget: str = ""
    complaint: str = ""
    remark: str = ""
    silent_s: float = 0.0
    idle: DebounceState = field(default_factory=DebounceState)
    more_until_s: float = -math.inf
    candidates: tuple[Candidate, ...] = ()
    window_ends: tuple[tuple[str, float], ...] = ()
    asleep: frozenset[str] = frozenset()
    without_a_job: frozenset[str] = frozenset()
    limit_waits: LimitWaits = field(default_factory=LimitWaits)
    peer_holders: tuple[str, ...] = ()
    rivals: tuple[Sharer, ...] = ()
    own: PeerPilot = UNKNOWN_PILOT
    usable: int = 0
    is_blind: bool = False
    clock_offset_s: float | None = None
    seen_s: PilotS = PilotS(-math.inf)
    order: OrderFacts = field(default_factory=OrderFacts)
    queue: WaitingQueue | None = None
    harvest: Harvest = field(default_factory=Harvest)
    part_gpus: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    first_seen: FirstSeen = field(default_factory=lambda: MappingProxyType({}))

    @property
    def answers(self) -> bool:
        return self.failures == 0

    def expects_more(self, now_s: ElapsedS) -> bool:
        """Whether other nodes may be about to come: one awaits its second poll, or one that needs
        none came less than ``nodes.confirm_s`` ago. A large job frees its nodes over a second or
        so.
        """
        return bool(self.idle.fresh) or now_s < self.more_until_s

    def waited(self, seconds: float) -> ClusterView:
        """Return the view after ``seconds`` in which no poll was on its way. They count as silence
        of the scheduler, unless it was not asked to spare it calls.
        """
        is_spared = self.answers and (self.is_postponed or self.schedule.is_calm)
        return self if is_spared else replace(self, silent_s=self.silent_s + seconds)

    def without_candidates(self, nodes: Iterable[str]) -> ClusterView:
        """Return the view in which these nodes are no candidates: they are not requested before the
        next poll.
        """
        released = frozenset(nodes)
        return (
            replace(
                self,
                candidates=tuple(
                    candidate
                    for candidate in self.candidates
                    if candidate.request.node not in released
                ),
            )
            if released
            else self
        )


def after_poll(
    view: ClusterView,
    poll: EndedPoll,
    config: PilotConfig,
    ours: PilotJobs,
    lookup: NodeLookup,
    held: frozenset[str],
) -> ClusterView:
    """Return the view of the cluster after a poll; ``held`` are the fragments now. A failed poll
    changes nothing of what is known of the cluster.
    """
    rules = rules_of(config)
    try:
        if isinstance(poll.answer, BFTrainerError):
            raise poll.answer
        after = _view_after_poll(view, poll, poll.answer, config, ours, lookup)
    except PostponedError as error:
        not_before_s = poll.ended_s + max(error.retry_s, config.times.poll_s / 10)
        budget = view.budget or (str(error) if error.retry_s > config.times.poll_s else "")
        return replace(
            view,
            silent_s=view.silent_s + poll.took_s,
            schedule=view.schedule.postponed(not_before_s),
            is_postponed=True,
            budget=budget,
        )
    except BFTrainerError as error:
        outcome, next_s, cost = PollOutcome.FAILED, math.inf, 1.0
        silent_s = view.silent_s + poll.took_s
        after = replace(
            view,
            silent_s=silent_s,
            failures=view.failures + 1,
            error=str(error),
            is_postponed=False,
        )
    else:
        assert isinstance(poll.answer, PollAnswer)
        assert after.were_idle is not None
        were_idle = (
            after.were_idle
            if view.were_idle is None
            else view.were_idle | {node_of(name) for name in view.held}
        )
        outcome = view.schedule.outcome(has_new_idle=not after.were_idle <= were_idle)
        end_s = next_end_s(after.window_ends, poll.answer.observation, poll.answer.at_s)
        next_s = poll.ended_s + end_s + _AFTER_END_S - poll.now_s
        is_published = (
            poll.answer.observation.evidence_s is not None and not config.nodes.unit.divides_nodes
        )
        cost = _PUBLISHED if is_published else 1.0  # of single GPUs, no broker tells
        after = replace(after, held=held)
    slower = min(2.0 ** min(after.failures, 10), _SLOWEST_POLL)
    schedule = view.schedule.polled(
        poll.begun_s, outcome, rules, slower * poll.stretch, cost
    ).expecting(next_s)
    if after.idle.fresh:
        at_s = min(after.idle.fresh.values()) + config.nodes.confirm_s
        schedule = schedule.expecting(
            max(at_s, poll.ended_s + min(_AGAIN_S, config.nodes.confirm_s))
        )
    return replace(after, schedule=schedule)


def _view_after_poll(
    view: ClusterView,
    poll: EndedPoll,
    answer: PollAnswer,
    config: PilotConfig,
    ours: PilotJobs,
    lookup: NodeLookup,
) -> ClusterView:
    """Return the view after a poll with an observation of the cluster. Raises ``BFTrainerError``
    where the site hides what has to be known.
    """
    seen, at_s = answer.observation, answer.at_s
    ours = _jobs_of_pilots(view, answer, ours)
    holders = peer_holders(config.nodes, seen, answer.peers)
    free = offered_windows(seen, ours, config.nodes, lookup.of_node)
    usable = allowed_nodes(seen, ours, config.nodes, lookup.of_node)
    offset_s = _clock_offset_s(view, at_s - seen.at_s)
    parts = _free_parts(seen, ours, free) if config.nodes.unit.divides_nodes else {}
    evidence_s = poll.begun_s if seen.evidence_s is None else seen.evidence_s
    confirm_s = config.nodes.confirm_s if may_be_taken_at_once(seen, ours) else 0.0
    before = _without_larger_parts(view, parts) if confirm_s else view.idle
    idle, _ = debounce(before, frozenset(free), evidence_s, confirm_s)
    seen_first = first_seen(view.first_seen, free, seen.nodes, at_s, offset_s)
    more_until_s = view.more_until_s
    if not confirm_s and not idle.offered <= view.idle.offered:
        more_until_s = poll.begun_s + config.nodes.confirm_s
    hides_jobs = Hidden.JOBS in seen.hidden
    return replace(
        view,
        were_idle=idle_nodes(seen),
        first_s=poll.ended_s if view.first_s is None else view.first_s,
        failures=0,
        error="",
        is_postponed=False,
        complaint=_configuration_problem(config, answer, usable),
        remark=seen.remark,
        silent_s=0.0,
        idle=idle,
        more_until_s=more_until_s,
        candidates=tuple(
            _request_candidates(idle.offered, free, parts, seen_first, config, lookup)
        ),
        window_ends=tuple(window_ends_by_host_clock(seen, ours, at_s).items()),
        asleep=asleep_nodes(seen, config.nodes),
        without_a_job=frozenset(
            node.name for node in seen.nodes if node.availability not in _WITH_JOBS
        ),
        limit_waits=_limit_waits(seen, PilotS(at_s - max(poll.begun_s - evidence_s, 0.0))),
        peer_holders=holders,
        rivals=() if hides_jobs else rivals(answer.peers or (), usable),
        own=answer.own,
        usable=len(usable),
        is_blind=hides_jobs and answer.peers is not None and config.nodes.share,
        clock_offset_s=offset_s,
        seen_s=at_s,
        order=_order_facts(seen, ours, config, at_s),
        queue=_waiting_queue(view, seen, at_s, config),
        harvest=_idle_and_held(seen, usable, at_s, lookup),
        part_gpus=MappingProxyType({name: part.gpus for name, part in parts.items()}),
        first_seen=seen_first,
    )


def _jobs_of_pilots(view: ClusterView, answer: PollAnswer, ours: PilotJobs) -> PilotJobs:
    """Return the jobs that are no main jobs: this pilot's holders, and where pilots make way for
    main jobs, those of the others. There, any other job is a main job, also in the holders'
    partition.
    """
    job_ids = ours.job_ids | {job_of(name) for name in view.held}
    if answer.observation.node_waits is None:
        return replace(ours, job_ids=job_ids)
    job_ids |= {holder for peer in answer.peers or () for holder in peer.holders}
    return replace(ours, job_ids=job_ids, shares_partitions=True)


def _clock_offset_s(view: ClusterView, measured_s: float) -> float:
    """Return by how much this host's clock is ahead of the scheduler's. The known offset stays if
    the measured one differs by less than a poll's jitter.
    """
    offset_s = view.clock_offset_s
    if offset_s is not None and abs(measured_s - offset_s) <= _OFFSET_JITTER_S:
        return offset_s
    return measured_s


def _free_parts(seen: Observation, ours: PilotJobs, free: Mapping[str, float]) -> dict[str, Idle]:
    """Return the free part of each offered node that main jobs share."""
    return {
        node.name: part_of(node, ours)
        for node in seen.nodes
        if node.name in free and node.availability is Availability.SHARED
    }


def _without_larger_parts(view: ClusterView, parts: Mapping[str, Idle]) -> DebounceState:
    """Return the idle nodes without those whose free part has grown since the last look: these have
    to be confirmed again.
    """
    larger = {node for node, part in parts.items() if part.gpus > view.part_gpus.get(node, 0)}
    fresh = {node: since_s for node, since_s in view.idle.fresh.items() if node not in larger}
    return DebounceState(view.idle.offered - larger, fresh)


def _request_candidates(
    nodes: Iterable[str],
    windows: Mapping[str, float],
    parts: Mapping[str, Idle],
    seen_first: FirstSeen,
    config: PilotConfig,
    lookup: NodeLookup,
) -> Iterator[Candidate]:
    """Yield the requests that idle nodes allow, sorted by node; of shared nodes, for their free
    parts.
    """
    by_gpu = config.nodes.unit.divides_nodes
    for node in sorted(nodes):
        node_class = lookup.of_node(node) or ""
        request = NodeRequest(node, windows[node], lookup.gpus(node), node_class)
        if part := parts.get(node):
            request = replace(request, gpus=part.gpus, cpus=part.cpus, mib=part.mib)
        size = request.gpus if by_gpu else 1
        yield Candidate(request, node_class, size=size, since_s=seen_first[node][NodeStage.SEEN])


def _configuration_problem(config: PilotConfig, answer: PollAnswer, usable: Collection[str]) -> str:
    """Return what is wrong with the nodes of the configuration: a peer pilot lists some as well, or
    none may be held. Empty if nothing is wrong.
    """
    nodes = answer.observation.nodes
    shared = overlap(config.nodes.hosts, answer.peers or (), (node.name for node in nodes))
    if shared or usable or not nodes:
        return shared
    return _NONE_USABLE.format(len(nodes))


def _limit_waits(seen: Observation, at_s: PilotS) -> LimitWaits:
    """The main jobs that wait for a limit that holders count towards."""
    return LimitWaits(at_s, seen.limit_waits) if seen.limit_waits else LimitWaits()


def _order_facts(
    seen: Observation, ours: PilotJobs, config: PilotConfig, at_s: PilotS
) -> OrderFacts:
    """Return what decides the order of requests (:mod:`.holding_order`) where trainers get single
    GPUs; nothing where they get whole nodes.
    """
    if not config.nodes.unit.divides_nodes:
        return OrderFacts()
    partitions = {node.name: ours.main_partitions(node) for node in seen.nodes}
    return OrderFacts(idle_gpu_nodes(seen, ours), used_gpu_counts(seen, ours), partitions, at_s)


_IDLE = (Availability.FREE, Availability.PLANNED)


def _waiting_queue(
    view: ClusterView, seen: Observation, at_s: PilotS, config: PilotConfig
) -> WaitingQueue | None:
    """Return the queue of main jobs that wait for nodes; None where this pilot does not have to
    make way for them.
    """
    waits = seen.node_waits
    if waits is None:
        return None
    before_s = PilotS(at_s - config.times.poll_s) if view.queue is None else view.queue.at_s
    held = {holder.node for holder in waits.holders}
    return WaitingQueue(
        at_s,
        seen.at_s,
        before_s,
        waits.jobs,
        waits.holders,
        frozenset[str](node.name for node in seen.nodes if node.availability in _IDLE),
        frozenset[str](
            node.name
            for node in seen.nodes
            if node.availability in _WITH_JOBS and node.name not in held
        ),
        waits.starts,
        seen.planned_s,
        waits.kinds,
    )


def _idle_and_held(
    seen: Observation, usable: Iterable[str], at_s: PilotS, lookup: NodeLookup
) -> Harvest:
    """Return the usable nodes that are idle, and those that holders of any pilot have."""
    classes = {node: lookup.of_node(node) or "" for node in usable}
    idle = [
        (node.name, classes[node.name])
        for node in seen.nodes
        if node.availability in _IDLE and node.name in classes
    ]
    holders = () if seen.node_waits is None else seen.node_waits.holders
    held = [(holder.node, classes[holder.node]) for holder in holders if holder.node in classes]
    return Harvest(at_s, tuple(idle), tuple(held))


def first_seen(
    before: FirstSeen,
    offered: Iterable[str],
    nodes: Iterable[NodeView],
    at_s: PilotS,
    offset_s: float,
) -> FirstSeen:
    """Return since when each offered node has been idle: by the scheduler's word, and by the first
    poll that offered it. A poll that does not offer a node forgets it.
    """
    fresh = set(offered)
    kept = {node: instants for node, instants in before.items() if node in fresh}
    for node in nodes:
        if node.name in fresh and node.name not in kept:
            idle_s = (
                None if node.last_busy_s is None else PilotS(min(node.last_busy_s + offset_s, at_s))
            )
            kept[node.name] = {NodeStage.SEEN: at_s} | (
                {} if idle_s is None else {NodeStage.IDLE: idle_s}
            )
    return MappingProxyType(kept)


def notes(before: ClusterView, after: ClusterView) -> Iterator[tuple[str, str]]:
    """Yield (kind, text) for the event log about changes in how polls go: once, and not at every
    poll of a long outage.
    """
    if before.failures and not after.failures:
        yield (
            "poll",
            f"the scheduler responds again after {counted(before.failures, 'failed poll')}",
        )
    if after.complaint and after.complaint != before.complaint:
        yield "hosts", after.complaint
    if after.is_blind and not before.is_blind:
        yield (
            "share",
            "the site hides other users' jobs (PrivateData): idle nodes are not split with "
            "their pilots",
        )
    if after.remark and not before.remark:
        yield "poll", f"the pilot polls the scheduler itself: {after.remark}"
    if after.budget and not before.budget:
        yield "poll", f"polls are less frequent: {after.budget}"
    if after.error and after.error != before.error:
        yield "poll failed", after.error
