"""The pilot's nodes: read what scheduler and holders show, decide (:mod:`.decisions`), carry the
steps out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from bftrainer.cluster.model import (
    UNKNOWN_PILOT,
    Fragment,
    FragmentPhase,
    GiveWay,
    NodeRequest,
)
from bftrainer.cluster.selection import may_be_held
from bftrainer.cluster.site_plugin import Site
from bftrainer.config.in_effect import ConfigCell
from bftrainer.decide.domain.state import Nodes
from bftrainer.decide.yielding.blind import OwnJobs
from bftrainer.errors import CommandError, SchedulerError
from bftrainer.fragment_names import job_of, node_of
from bftrainer.pilot.facts import FragmentEvent
from bftrainer.pilot.hints import Hints
from bftrainer.pilot.memo import Memoized
from bftrainer.pilot.nodes.classifier import NodeClassifier, PoolDemand
from bftrainer.pilot.nodes.decisions import (
    Ask,
    GiveBack,
    next_release,
    next_steps,
    with_companions,
)
from bftrainer.pilot.nodes.glances import Glances
from bftrainer.pilot.nodes.held_fragments import (
    Ends,
    FragmentBook,
    earliest,
    limit_ends,
    planned_ends,
)
from bftrainer.pilot.nodes.holding_permission import REFUSED, YIELD, HoldingPermission
from bftrainer.pilot.nodes.making_way import Hasten, Shorten
from bftrainer.pilot.nodes.node_facts import Moment, NodeFacts, NodeMemory, with_back_off
from bftrainer.pilot.nodes.node_requests import MAX_BACK_OFF_S, NodeBackoff, RequestProgress
from bftrainer.pilot.nodes.scheduler_polls import SchedulerPolls
from bftrainer.pilot.recorder import Recorder
from bftrainer.pilot.steady_clock import SteadyClock
from bftrainer.slots import slot_of
from bftrainer.system.background import AtOnce, Background
from bftrainer.times import ElapsedS, PilotS

_RELEASE_S = 3.0  # from the release of a node until the scheduler shows it idle


@dataclass(frozen=True, slots=True)
class Predecessor:
    """Fragments that the previous pilot left open in the audit, and when this pilot began to look
    for them.
    """

    fragments: Nodes
    since_s: ElapsedS


@dataclass(frozen=True, slots=True)
class Decided:
    """The last decision: its facts, its memory, and when (by the clock that never goes back) the
    next is due at the latest.
    """

    facts: NodeFacts | None = None
    memory: NodeMemory = field(default_factory=NodeMemory)
    due_s: float = -math.inf


def _holders_of(slots: Nodes) -> Nodes:
    return Nodes(slot_of(name).fragment for name in slots)


class NodeManager:
    """Requests, keeps and releases all fragments of this pilot. Its caller calls, in each tick:
    look, poll_if_due, take_and_give, release.
    """

    def __init__(
        self,
        config: ConfigCell,
        recorder: Recorder,
        site: Site,
        clock: SteadyClock,
        classes: NodeClassifier,
        background: Background | None = None,
        hints: Hints | None = None,
    ) -> None:
        background = background or AtOnce()
        self._config = config
        self._recorder = recorder
        self._holder = site.holder
        self._yielding = site.yielding
        self._own = site.own
        self._clock = clock
        self._polls = SchedulerPolls(
            config,
            recorder,
            site.scheduler,
            clock,
            site.ours,
            site.peers,
            classes,
            background,
            Glances(config, site.yielding, clock, background),
            hints,
        )
        self._permission = HoldingPermission(site.permit)
        self._own_jobs = OwnJobs()
        self._backoff = NodeBackoff()
        self._fragments = FragmentBook(config, recorder, classes, self._backoff)
        self._polled: tuple[Fragment, ...] = ()
        left_open = Nodes(fragment.name for fragment in recorder.registry.fragments(open_only=True))
        self._predecessor: Predecessor | None = Predecessor(left_open, clock.elapsed_s())
        self._decided = Decided()
        self._burst = RequestProgress()
        self._window_ends = Memoized(planned_ends)
        self._limit_ends = Memoized(limit_ends)
        self._earliest = Memoized(earliest)
        self._candidates = Memoized(with_back_off)
        self._holders_of = Memoized(_holders_of)
        self.look()

    @property
    def settled(self) -> bool:
        """Whether it is known which of the predecessor's fragments are still there."""
        return self._predecessor is None

    @property
    def pool(self) -> Nodes:
        """The fragments that trainers may use: fragments, or the GPUs of each."""
        return self._fragments.slots()

    def _fragments_of_slots(self, slots: Nodes) -> Nodes:
        """Return the fragments to which ``slots`` belong: under ``nodes.unit = "gpu"``, all GPUs of
        a holder join and leave together.
        """
        return self._holders_of(slots) if self._config.now.nodes.unit.divides_nodes else slots

    @property
    def all_joined(self) -> bool:
        """Whether no node is about to join the pool: none is requested, and none has just become
        idle.
        """
        return not (
            self._polls.view.expects_more(self._clock.elapsed_s()) or self._fragments.joining()
        )

    @property
    def window_ends(self) -> tuple[tuple[str, float], ...]:
        """When each fragment or slot of the pool has to be released: by the scheduler's plan, or by
        a holder's time limit.
        """
        ends = self._earliest(self._planned_ends(), self._near_limit_ends())
        if not ends or not self._config.now.nodes.unit.divides_nodes:
            return ends
        end_s = dict(ends)
        fragments = {name: slot_of(name).fragment for name in self.pool}
        return tuple(
            sorted(
                (name, end_s[fragment]) for name, fragment in fragments.items() if fragment in end_s
            )
        )

    def _planned_ends(self) -> Ends:
        before_s = self._config.now.nodes.leave_before_s
        return self._window_ends(
            self._fragments.pool(), self._fragments.all(), self._polls.view.window_ends, before_s
        )

    def _near_limit_ends(self) -> Ends:
        """Return when each fragment of the pool has to be released before its holder's time limit.
        Empty while the offset of the scheduler's clock is not known.
        """
        view = self._polls.view
        if view.clock_offset_s is None:
            return ()
        before_s = self._config.now.nodes.leave_before_s - view.clock_offset_s
        return self._limit_ends(
            self._fragments.pool(), self._fragments.all(), before_s, view.seen_s
        )

    @property
    def ready(self) -> Nodes:
        """The pool, and fragments whose class is not known yet."""
        return Nodes(
            held_fragment.name for held_fragment in self._fragments.all() if held_fragment.is_ready
        )

    @property
    def empty(self) -> bool:
        """Whether no fragment is held or requested."""
        return not self._fragments.all()

    def name_of(self, fragment_id: str) -> str | None:
        """The name of a fragment, from its id, by which drivers know it."""
        if self._config.now.nodes.unit.divides_nodes:
            fragment_id = job_of(fragment_id)
        return next(
            (
                held_fragment.name
                for held_fragment in self._fragments.all()
                if held_fragment.fragment.id == fragment_id
            ),
            None,
        )

    def look(self) -> None:
        """Look at the holders, and write to the registry what has changed. Holders of a predecessor
        are adopted.
        """
        now_s, polled = self._clock.now_s(), self._holder.poll()
        for kind, text in self._permission.refresh(self._clock.elapsed_s()):
            self._recorder.note(kind, "", text)
        if polled != self._polled:
            parts = [
                held_fragment.name
                for held_fragment in self._fragments.all()
                if held_fragment.fragment.is_part
            ]
            waiting = [
                held_fragment.name
                for held_fragment in self._fragments.all()
                if held_fragment.ready_s is None and held_fragment.given_back_s is None
            ]
            self._fragments.update(polled, now_s)
            self._polled = polled
            if any(self._fragments.get(name) is None for name in waiting):
                self._polls.look_again()
            if released := [name for name in parts if self._fragments.get(name) is None]:
                # A main job has taken some GPUs of such a node; the others are idle.
                self._polls.look_soon(map(node_of, released))
            for name in self._fragments.without_gpus():
                self.give_back(
                    [name],
                    "its payload names no GPUs: see slurm.holder_script, and File= in gres.conf",
                )
                self._backoff.postpone(node_of(name), PilotS(now_s + MAX_BACK_OFF_S))
        if self._predecessor is not None:
            missing = self._predecessor.fragments.difference(h.name for h in self._fragments.all())
            if self._is_settled(self._predecessor, missing):
                self._predecessor = None
                for name in sorted(missing):
                    self._recorder.write_fragment_event(
                        name, FragmentEvent.RELEASED, now_s, "gone while no pilot was there"
                    )

    def _is_settled(self, before: Predecessor, missing: Nodes) -> bool:
        """Whether the search for the predecessor's fragments is over. If none of them has shown up,
        they may have been lost, or be unknown: a silent scheduler has not lost them.

        After its first answer the holder's list follows within two polls, even if that came just
        before ``stale_after_s``.
        """
        if not before.fragments or missing != before.fragments:
            return True
        times = self._config.now.times
        if self._polls.answered_for_s > 0:
            return self._polls.answered_for_s > 2 * times.poll_s
        return self._clock.elapsed_s() - before.since_s > times.stale_after_s

    @property
    def next_look_s(self) -> float:
        """Seconds until the next poll is due."""
        return self._polls.next_s

    def poll_if_due(self) -> None:
        """Poll the scheduler if it is time, and take its answer once it is there."""
        end_s = min((end_s for _, end_s in self.window_ends), default=math.inf) + _RELEASE_S
        memory = self._decided.memory
        way = self._permission.permit.give_way
        is_offering = memory.yielding.offers.blocks if way is GiveWay.YIELD else memory.blind.offers
        self._polls.watch(way, self._own_jobs_now(), is_offering)
        if self._polls.attend(frozenset(h.name for h in self._fragments.all()), end_s):
            self._fragments.classify()
            self._holder.observed(self._polls.view.without_a_job)
            self._backoff.end_missed(self._polls.view.were_idle or ())

    def _own_jobs_now(self) -> OwnJobs:
        phases = [held_fragment.fragment.phase for held_fragment in self._fragments.all()]
        return replace(self._own_jobs, pending=phases.count(FragmentPhase.PENDING))

    def take_and_give(self, trainers: frozenset[str], demand: PoolDemand, used: Nodes) -> None:
        """Request nodes that trainers can use; release nodes that they do not use or that the
        scheduler needs.
        """
        view = self._polls.view
        facts = NodeFacts(
            self._config.now,
            self._fragments.all(),
            self._fragments.pool(),
            self._fragments_of_slots(used),
            self._planned_ends(),
            self._near_limit_ends(),
            self._candidates(view.candidates, self._backoff.nodes()),
            view.asleep,
            view.peer_holders,
            view.limit_waits,
            trainers,
            demand,
            view.answers,
            self._decided.memory,
            view.rivals,
            view.usable,
            self._own if view.own == UNKNOWN_PILOT else view.own,
            view.order,
            self._permission.permit,
            view.queue,
            self._polls.glance,
            view.harvest,
            view.clock_offset_s,
        )
        elapsed, now_s = self._clock.elapsed_s(), self._clock.now_s()
        self._polls.show_demand()
        if facts == self._decided.facts and elapsed < self._decided.due_s:
            return
        local_time = datetime.fromtimestamp(self._clock.host_s(), UTC).astimezone()
        decision = next_steps(facts, Moment(now_s, local_time, self._polls.silent_s))
        self._decided = Decided(facts, decision.memory, elapsed + decision.again_after_s)
        self._polls.demand = decision.demand
        for words in decision.tells:
            self._recorder.note("share", "", words)
        for words in decision.way_words:
            self._recorder.note(YIELD, "", words)
        for served in decision.served:
            self._recorder.note(YIELD, f"job {served.job}", served.words)
            if served.delay_s is not None:
                self._recorder.main_job_delayed(served.job, served.delay_s)
        requested = 0
        for step in decision.steps:
            match step:
                case GiveBack(names, reason, back_off, group, notice_s, renewals):
                    for node, until_s in back_off:
                        self._backoff.postpone(node, PilotS(until_s))
                    self._fragments.give_back(names, reason, now_s, group, notice_s, dict(renewals))
                case Shorten(names, seconds) if self._yielding is not None:
                    self._yielding.shorten(names, seconds)
                case Hasten(names, notice_s):
                    self._fragments.hasten(names, notice_s)
                case Ask(requests):
                    requested += self._submit_requests(requests, now_s)
        self._burst, words = self._burst.after(decision.wanted, requested, len(self.ready), now_s)
        if words:
            self._recorder.note("nodes", "", words)

    def _submit_requests(self, requests: tuple[NodeRequest, ...], now_s: PilotS) -> int:
        """Request nodes from the holder. Returns how many requests were submitted."""
        view = self._polls.view
        age_s = max(now_s - view.seen_s, 0.0)  # a poll may be minutes old where calls are limited
        before = self._own_jobs  # Slurm may have counted a holder before the call returns
        self._own_jobs = replace(before, submitted=before.submitted + len(requests))
        acquired = self._holder.acquire(
            tuple(replace(request, window_s=request.window_s - age_s) for request in requests)
        )
        jobs = {job_of(fragment.name) for fragment in acquired.fragments}
        self._own_jobs = replace(before, submitted=before.submitted + len(jobs))
        self._polls.view = view.without_candidates(fragment.node for fragment in acquired.fragments)
        self._fragments.update(acquired.fragments, now_s)
        for fragment in acquired.fragments:
            self._recorder.fragment_seen(fragment.name, view.first_seen.get(fragment.node, {}))
        for refusal in acquired.refusals:
            self._recorder.note(REFUSED, refusal.node, refusal.reason)
            self._backoff.postpone(
                refusal.node, PilotS(now_s + max(refusal.retry_s, self._config.now.times.poll_s))
            )
        return len(acquired.fragments)

    @property
    def urgent(self) -> Nodes:
        """Fragments that trainers have to leave within seconds: main jobs wait for their nodes."""
        given_back = self._fragments.given_back()
        return Nodes(h.name for h in given_back if h.patience_s is not None)

    def give_back(self, names: Iterable[str], reason: str) -> None:
        """Take fragments out of the pool; their holders are released when their trainers have left
        them. The other fragments of jobs that end with them leave as well.
        """
        kept = [
            held_fragment
            for held_fragment in self._fragments.all()
            if held_fragment.given_back_s is None
        ]
        leaving = with_companions(frozenset(names), kept)
        self._fragments.give_back(leaving, reason, self._clock.now_s())

    def release(self, in_use: Nodes, *, at_once: bool = False, renews: bool = True) -> None:
        """End the holders of fragments that were given back and are no longer in use, or have been
        for too long. ``at_once``: of all that were given back. ``renews``: nodes that leave only
        because their jobs end are requested again.
        """
        if given_back := self._fragments.given_back():
            in_use = self._fragments_of_slots(in_use)
            patience_s = 0.0 if at_once else self._config.now.times.move_s
            step = next_release(given_back, in_use, patience_s, self._clock.now_s())
            if step is not None:
                renewals = self._end_holders(step.names)
                if renewals and renews and not self._permission.permit.refusal:
                    before = {h.name for h in self._fragments.all()}
                    self._submit_requests(renewals, self._clock.now_s())
                    self._fragments.renewals({h.name for h in self._fragments.all()} - before)

    def _end_holders(self, names: Nodes) -> tuple[NodeRequest, ...]:
        """End the holders of these fragments. Returns requests for the nodes that leave only
        because their jobs end: made now, a new holder is in the queue when the old one ends.
        """
        fragments = self._fragments.all()
        staying = {
            job_of(held_fragment.name)
            for held_fragment in fragments
            if held_fragment.name not in names and not held_fragment.is_released
        }
        ended = len({job_of(name) for name in names} - staying)
        self._own_jobs = replace(self._own_jobs, ended=self._own_jobs.ended + ended)
        self._holder.release(names)
        self._fragments.released(names)
        released = [held_fragment for held_fragment in fragments if held_fragment.name in names]
        return tuple(
            held_fragment.renewal for held_fragment in released if held_fragment.renewal is not None
        )

    def clear(self, in_use: Nodes) -> None:
        """End the processes in fragments that no driver uses: orphans of a pilot whose job died
        with its drivers.
        """
        if orphaned := self.ready - self._fragments_of_slots(in_use):
            try:
                self._holder.clear(orphaned)
            except (
                CommandError,
                SchedulerError,
            ) as error:
                # The payloads end their holders, without the scheduler's help.
                self.give_back(
                    orphaned, f"leftover processes of a predecessor cannot be ended: {error}"
                )

    def renew(self) -> None:
        self._holder.renew()

    def apply_config(self) -> None:
        """Apply a changed configuration: drop the candidates, which were selected by the old one,
        and give back fragments that are not allowed any more.
        """
        self._polls.view = replace(self._polls.view, candidates=())
        refused = [
            h.name for h in self._fragments.all() if not may_be_held(h.node, self._config.now.nodes)
        ]
        self.give_back(refused, "not among nodes.hosts, or excluded")
