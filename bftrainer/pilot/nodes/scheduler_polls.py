"""Polls of the scheduler: asked for in the background when one is due; their answers make the
:mod:`.cluster_view`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import InitVar, dataclass, replace

from bftrainer.cluster.model import GiveWay
from bftrainer.cluster.ports import PeerPilots, Scheduler
from bftrainer.cluster.windows import PilotJobs
from bftrainer.config.in_effect import ConfigCell
from bftrainer.decide.yielding.blind import Glance, OwnJobs
from bftrainer.errors import BFTrainerError, CommandError, SchedulerError
from bftrainer.pilot.hints import Hints, NoHints
from bftrainer.pilot.nodes.classifier import NodeClassifier
from bftrainer.pilot.nodes.cluster_view import ClusterView, EndedPoll, PollAnswer, after_poll, notes
from bftrainer.pilot.nodes.glances import Glances
from bftrainer.pilot.nodes.poll_schedule import PollSchedule, rules_of
from bftrainer.pilot.recorder import Recorder
from bftrainer.pilot.steady_clock import SteadyClock
from bftrainer.sharing.fair_share import Demand
from bftrainer.sharing.peers import ask_peers
from bftrainer.system.background import Background
from bftrainer.times import ElapsedS, PilotS

_MIN_SHORTAGE_S = 20.0
"""Pilots that lack nodes for less, as after every main job, do not show peer pilots that they do:
each announcement is a call to the scheduler.
"""


@dataclass(slots=True)
class _Poll:
    """A poll on its way since ``begun_s``. Time in which this process was stopped is no part of
    ``took_s``.
    """

    begun_s: ElapsedS
    answer: Future[PollAnswer]
    took_s: float = 0.0


@dataclass(eq=False)
class SchedulerPolls:
    """Polls the scheduler when it is time, in the background. A poll is half a dozen commands of up
    to ten seconds each; the loop goes on.
    """

    _config: ConfigCell
    _recorder: Recorder
    _scheduler: Scheduler
    _clock: SteadyClock
    _pilot_jobs: PilotJobs
    _peers: PeerPilots | None
    _classes: NodeClassifier
    _background: Background
    _glances: Glances
    hints: InitVar[Hints | None] = None

    def __post_init__(self, hints: Hints | None) -> None:
        self.demand: Demand | None = None
        """The demand that peer pilots are shown, at most once every ``poll_s``. None: not known
        yet.
        """
        self._announced_demand: Demand | None = None
        self._next_announcement_s = -math.inf
        self._satisfied_s = self._clock.elapsed_s()
        self._announcement: Future[None] | None = None
        self._hints = hints or NoHints()
        self._random = random.Random(self._config.now.decisions.seed)
        self._poll: _Poll | None = None
        self._released_nodes = frozenset[str]()
        self._needs_poll = False
        self._give_way = GiveWay.SITE
        self._last_attend_s = self._clock.elapsed_s()
        self.view = ClusterView(PollSchedule(self._clock.elapsed_s()))

    @property
    def silent_s(self) -> float:
        """For how many seconds the scheduler has not answered. Time in which this process was
        stopped, and did not poll, is no silence.

        Nor is a poll that is on its way and not yet as old as a silence: many slow commands follow
        one another in it.
        """
        return max(self.view.silent_s, 0.0 if self._poll is None else self._poll.took_s)

    @property
    def answered_for_s(self) -> float:
        """Seconds since the first success; 0 before it."""
        return 0.0 if self.view.first_s is None else self._clock.elapsed_s() - self.view.first_s

    @property
    def next_s(self) -> float:
        """Seconds until the next poll or glance is due; infinite while one is on its way."""
        glance_s = self._glances.next_s(self._give_way)
        if self._poll is not None:
            return glance_s
        rules = rules_of(self._config.now)
        return min(self.view.schedule.wait_s(rules, self._clock.elapsed_s()), glance_s)

    @property
    def glance(self) -> Glance | None:
        """The latest glance at the scheduler's counters, where the pilot makes way by itself."""
        return self._glances.latest

    def watch(self, way: GiveWay, own: OwnJobs, is_offering: bool) -> None:
        """Glance at the scheduler's counters if it is time; schedule a poll for now where they have
        changed, or while nodes are offered to main jobs (``is_offering``).

        ``way``: who frees nodes for main jobs. ``own``: this pilot's holders in the counters.
        """
        has_way_changed = way is not self._give_way
        self._give_way = way
        is_wanted = self._glances.attend(way, own, watches=is_offering)
        if way is not GiveWay.YIELD and self.view.queue is not None:
            self.view = replace(self.view, queue=None)
        self._needs_poll = self._needs_poll or is_wanted or has_way_changed
        # A poll that is on its way began before; the next one follows it.
        if self._needs_poll and self._poll is None:
            self._needs_poll = False
            schedule = self.view.schedule.forced(self._clock.elapsed_s())
            self.view = replace(self.view, schedule=schedule)

    def attend(self, fragments: frozenset[str], end_s: float = math.inf) -> bool:
        """Begin a poll if one is due, and take its answer once it has come. Returns whether a poll
        has succeeded in this call.

        ``fragments`` are those that this pilot holds, ``end_s`` is when the next of them ends, by
        the pilot's clock (infinite: unknown).
        """
        config = self._config.now
        elapsed_s, now_s = self._clock.elapsed_s(), self._clock.now_s()
        # A longer pause means that this process was stopped: it counts as one interval.
        passed_s = min(elapsed_s - self._last_attend_s, config.times.poll_s)
        self._last_attend_s = elapsed_s
        view = replace(self.view, held=self.view.held | fragments)
        if self._hints.take():
            view = replace(view, schedule=view.schedule.hinted(elapsed_s))
        if self._poll is None:
            view = self._with_expected_poll(view, passed_s, elapsed_s)
            if now_s < end_s:
                schedule = view.schedule.expecting(elapsed_s + end_s - now_s)
                view = replace(view, schedule=schedule)
            if elapsed_s >= view.schedule.due_s(rules_of(config)):
                self._poll = _Poll(elapsed_s, self._background.start(self._observe_cluster))
        else:
            self._poll.took_s += passed_s
        self.view = view
        if self._poll is None or not self._poll.answer.done():
            return False
        poll, self._poll = self._poll, None
        self._take_answer(poll, fragments, elapsed_s, now_s)
        return self.view.answers and not self.view.is_postponed

    def _with_expected_poll(
        self, view: ClusterView, passed_s: float, elapsed_s: ElapsedS
    ) -> ClusterView:
        """Return the view after ``passed_s`` without a poll, with a poll scheduled where other
        pilots have changed something, or may.
        """
        if self._peers is not None and self._peers.has_news():
            view = replace(view, schedule=view.schedule.expecting(elapsed_s))
        view = view.waited(passed_s)
        if self.demand is not None and self.demand.is_short:
            # Others may be giving nodes up for this pilot.
            soon_s = view.schedule.last_poll_s + self._config.now.times.poll_s / 2
            view = replace(view, schedule=view.schedule.expecting(soon_s))
        return view

    def _take_answer(
        self, poll: _Poll, fragments: frozenset[str], elapsed_s: ElapsedS, now_s: PilotS
    ) -> None:
        """Make the view from the answer of a poll that is over, or from its error, and note what
        has changed.
        """
        answer: PollAnswer | BFTrainerError
        try:
            answer = poll.answer.result()
            self._classes.observe(answer.observation)
        except BFTrainerError as error:
            answer = error
        ended = EndedPoll(
            poll.begun_s, elapsed_s, now_s, poll.took_s, answer, self._random.uniform(0.9, 1.1)
        )
        before = self.view
        self.view = after_poll(
            before, ended, self._config.now, self._pilot_jobs_now(), self._classes, fragments
        )
        if self.view.queue is not None:
            queue = replace(self.view.queue, planned_s=self._glances.planned_s)
            self.view = replace(self.view, queue=queue)
        if released := self._released_nodes:
            # They were released while the poll was on its way, which may not show them.
            self._released_nodes = frozenset()
            self.look_soon(released)
        for kind, text in notes(before, self.view):
            self._recorder.note(kind, "", text)

    def _pilot_jobs_now(self) -> PilotJobs:
        """Return the jobs and partitions of pilots. Where the queue is hidden, a window is as long
        as a main job may have to wait (``nodes.worst_wait_s``).
        """
        jobs = self._pilot_jobs
        if self._give_way is not GiveWay.BLIND or jobs.assume_window_s is not None:
            return jobs
        return replace(jobs, assume_window_s=self._config.now.nodes.worst_wait_s)

    def look_soon(self, nodes: Iterable[str] = ()) -> None:
        """Poll soon, and request none of these ``nodes`` before that: holders there have ended, so
        the numbers of their idle GPUs have changed.
        """
        released = frozenset(nodes)
        if self._poll is not None:
            # The answer of the poll on its way may be older.
            self._released_nodes |= released
        self.view = self.view.without_candidates(released)
        self.view = replace(
            self.view, schedule=self.view.schedule.expecting(self._clock.elapsed_s())
        )

    def look_again(self) -> None:
        """Poll soon, and request no candidate before that: one node went to a faster job, and the
        others that the last poll showed may have gone as well.
        """
        self.view = replace(self.view, candidates=())
        self.look_soon()

    def show_demand(self) -> None:
        """Show peer pilots the demand if it has changed, one call at a time: with a slow scheduler
        calls would pile up.
        """
        if self._announcement is not None and not self._announcement.done():
            return
        nodes, demand, elapsed_s = self._config.now.nodes, self.demand, self._clock.elapsed_s()
        if demand is None or not demand.is_short:
            self._satisfied_s = elapsed_s
        elif elapsed_s - self._satisfied_s < _MIN_SHORTAGE_S:
            demand = replace(demand, is_short=False)
        if (
            self._peers is None
            or not nodes.share
            or demand in (None, self._announced_demand)
            or elapsed_s < self._next_announcement_s
        ):
            return
        self._next_announcement_s = elapsed_s + self._config.now.times.poll_s
        self._announcement = self._background.start(
            lambda: self._announce_demand(nodes.hosts, demand)
        )

    def _announce_demand(self, hosts: tuple[str, ...], demand: Demand | None) -> None:
        """Announce the demand to peer pilots. Runs in the background and changes only
        ``_announced_demand``; a failed announcement is repeated.
        """
        if self._peers is not None and demand is not None:
            with suppress(CommandError, SchedulerError):
                self._peers.announce(hosts, demand.wants, demand.is_short, demand.least)
                self._announced_demand = demand

    def _observe_cluster(self) -> PollAnswer:
        """Ask for the peer pilots, then observe the cluster: in this order, a node that a peer
        pilot takes meanwhile is not counted twice. Runs in the background and changes nothing here.
        """
        peers = ask_peers(self._peers, self._config.now.nodes)
        answer = PollAnswer(self._scheduler.observe(), self._clock.now_s(), peers)
        return answer if self._peers is None else replace(answer, own=self._peers.own)
