"""Polls of the scheduler: when, what they showed last, and for how long none has succeeded."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import replace

from bftrainer.config.pilot import PilotConfig
from bftrainer.core.debounce import DebounceState, debounce
from bftrainer.core.windows import PilotJobs, may_be_taken_at_once
from bftrainer.domain.cluster import Availability, NodeRequest
from bftrainer.domain.fragments import job_of, node_of
from bftrainer.domain.node_stages import NodeStage
from bftrainer.domain.ports import Scheduler
from bftrainer.domain.times import ElapsedS, PilotS
from bftrainer.errors import BFTrainerError, PostponedError
from bftrainer.live.derived import Table
from bftrainer.live.hints import Hints, NoHints
from bftrainer.live.nodes.classifier import NodeClassifier
from bftrainer.live.nodes.first_seen import FirstSeen
from bftrainer.live.nodes.looks import Looks, News, rules_of
from bftrainer.live.nodes.node_facts import Candidate, LimitWaits
from bftrainer.live.nodes.polls import Poll, PollRecord, Seen
from bftrainer.live.nodes.selection import asleep, idle_nodes, next_end_s, offered, window_ends_here
from bftrainer.live.nodes.sharing import Sharing
from bftrainer.live.recorder import Recorder
from bftrainer.live.steady_clock import SteadyClock
from bftrainer.system.background import Background

_SLOWEST_POLL = 6.0  # times poll_s, after failed polls
_OFFSET_JITTER_S = 3.0  # a poll takes its time
_AFTER_END_S = 1.0  # the scheduler acts upon an end that is known


class Survey:
    """Asks the scheduler when it is time, and keeps what the pilot may request.

    A poll is half a dozen commands of up to ten seconds each; the loop goes on meanwhile.
    """

    def __init__(
        self, config: PilotConfig, recorder: Recorder, scheduler: Scheduler, clock: SteadyClock, pilot_jobs: PilotJobs,
        sharing: Sharing, classes: NodeClassifier, background: Background, hints: Hints | None = None,
    ) -> None:  # fmt: skip
        self._recorder = recorder
        self._scheduler = scheduler
        self._clock = clock
        self._pilot_jobs = pilot_jobs
        self._sharing = sharing
        self._classes = classes
        self._background = background
        self._poll: Poll | None = None
        self._random = random.Random(config.decisions.seed)
        self._hints = hints or NoHints()
        self._looks = Looks(clock.elapsed_s())
        self._held: frozenset[str] = frozenset()  # all fragments since the last poll: their jobs end no window
        self._were_idle: frozenset[str] | None = None
        self._polls = PollRecord()
        self._silent_s = 0.0
        self._is_postponed = False
        self._told_of_budget = False
        self._attended_s = clock.elapsed_s()
        self._idle = DebounceState()
        self._more_until_s = -math.inf
        self._candidates: Table[Candidate] = Table()
        self._window_ends: tuple[tuple[str, float], ...] = ()
        self._asleep: frozenset[str] = frozenset()
        self._without_a_job: frozenset[str] = frozenset()
        self._limit_waits = LimitWaits()
        self._clock_offset_s: float | None = None
        self._seen_s = PilotS(-math.inf)
        self._first_seen = FirstSeen()

    @property
    def answers(self) -> bool:
        """Whether the last poll succeeded."""
        return self._polls.failures == 0

    @property
    def silent_s(self) -> float:
        """Seconds since the last answer. Time in which this process was stopped, and did not look, is no silence.

        Nor is a poll that is on its way and not yet as old as a silence: many slow commands follow one another in it.
        """
        return max(self._silent_s, 0.0 if self._poll is None else self._poll.took_s)

    @property
    def answered_for_s(self) -> float:
        """Seconds since the first success; 0 before it."""
        return 0.0 if self._polls.first_s is None else self._clock.elapsed_s() - self._polls.first_s

    @property
    def expects_more(self) -> bool:
        """Whether other nodes may be about to come: one awaits its second look, or one that needs none came less than
        ``nodes.confirm_s`` ago. A large job frees its nodes over a second or so.
        """
        return bool(self._idle.fresh) or self._clock.elapsed_s() < self._more_until_s

    @property
    def window_ends(self) -> tuple[tuple[str, float], ...]:
        """(node, seconds since 1970) where the scheduler's plans end a window, of held nodes, too."""
        return self._window_ends

    @property
    def seen_s(self) -> PilotS:
        """When the last observation was complete."""
        return self._seen_s

    @property
    def clock_offset_s(self) -> float | None:
        """What this host's clock is ahead of the scheduler's; None before the first observation."""
        return self._clock_offset_s

    @property
    def peer_holders(self) -> tuple[str, ...]:
        return self._sharing.holders

    @property
    def limit_waits(self) -> LimitWaits:
        """Main-queue jobs that wait for a limit for which our holders count."""
        return self._limit_waits

    @property
    def asleep(self) -> frozenset[str]:
        """Nodes that are powered down, among those that the configuration allows."""
        return self._asleep

    @property
    def without_a_job(self) -> frozenset[str]:
        """Nodes on which the last observation showed no job."""
        return self._without_a_job

    def candidates(self) -> tuple[Candidate, ...]:
        """Idle nodes that the configuration allows and that have not been requested since the last poll."""
        return self._candidates.values()

    def first_seen(self, node: str) -> Mapping[NodeStage, PilotS]:
        """Since when a candidate has been idle."""
        return self._first_seen.of(node)

    def requested(self, node: str) -> None:
        """Not a candidate before the next poll."""
        if node in self._candidates:
            del self._candidates[node]

    def forget_candidates(self) -> None:
        """They were selected by a configuration that is no longer in effect."""
        self._candidates = Table()

    def next_look_s(self, config: PilotConfig) -> float:
        """Seconds until the next poll is due; infinite while one is on its way."""
        return math.inf if self._poll is not None else self._looks.wait_s(rules_of(config), self._clock.elapsed_s())

    def attend(self, config: PilotConfig, fragments: frozenset[str], end_s: float = math.inf) -> bool:
        """Begin a poll if one is due, and take its answer once it is there. Returns whether an answer came.

        ``end_s`` is when the next of these fragments ends, by the host's clock. After failures, ask less often; a failure
        changes nothing of what is known.
        """
        elapsed, now_s, rules = self._clock.elapsed_s(), self._clock.now_s(), rules_of(config)
        passed_s, self._attended_s = min(elapsed - self._attended_s, config.times.poll_s), elapsed
        self._held |= fragments
        if self._hints.take():
            self._looks = self._looks.hinted(elapsed)
        if self._poll is None:
            # The scheduler is not silent where it was not asked, to spare it calls.
            self._silent_s += 0.0 if (self._is_postponed or self._looks.is_calm) and self.answers else passed_s
        else:
            self._poll.took_s += passed_s
        if self._poll is None:
            if now_s < end_s:
                self._looks = self._looks.expecting(elapsed + end_s - now_s)
            if elapsed < self._looks.due_s(rules):
                return False
            self._poll = Poll(elapsed, self._background.start(lambda: self._ask(config)))
        if not self._poll.answer.done():
            return False
        poll, self._poll = self._poll, None
        try:
            seen = poll.answer.result()
            complaint, held = self._read(seen, config, poll.begun_s), self._held
        except PostponedError as error:
            self._silent_s += poll.took_s
            self._looks = self._looks.postponed(elapsed + max(error.retry_s, config.times.poll_s / 10))
            self._is_postponed = True
            if not self._told_of_budget and error.retry_s > config.times.poll_s:
                self._told_of_budget = True  # once, not before every poll
                self._recorder.note("poll", "", f"polls are less frequent: {error}")
            return False
        except BFTrainerError as error:
            self._silent_s += poll.took_s
            self._failed(str(error))
            news, next_s = News.FAILED, math.inf
        else:
            self._succeeded(complaint)
            before, self._were_idle, self._held = self._were_idle, idle_nodes(seen.observation), fragments
            known = self._were_idle if before is None else before | {node_of(name) for name in held}
            news = self._looks.news(found_new=not self._were_idle <= known)
            end_s = next_end_s(self._window_ends, seen.observation, seen.at_s)
            next_s = elapsed + end_s + _AFTER_END_S - now_s
        slower = min(2.0 ** min(self._polls.failures, 10), _SLOWEST_POLL)
        stretch = slower * self._random.uniform(0.9, 1.1)
        self._looks = self._looks.looked(poll.begun_s, news, rules, stretch).expecting(next_s)
        if self._idle.fresh:
            self._looks = self._looks.expecting(min(self._idle.fresh.values()) + config.nodes.confirm_s)
        return True

    def _ask(self, config: PilotConfig) -> Seen:
        """In the background: nothing here is changed."""
        observation, at_s = self._scheduler.observe(), self._clock.now_s()
        return Seen(observation, at_s, self._sharing.look(config.nodes))

    def _read(self, answer: Seen, config: PilotConfig, begun_s: ElapsedS) -> str:
        """Take over an observation. Returns the complaint about a peer pilot, if any."""
        seen = answer.observation
        pilot_jobs = replace(self._pilot_jobs, job_ids=self._pilot_jobs.job_ids | {job_of(name) for name in self._held})
        complaint = self._sharing.read(config.nodes, seen, answer.peers)
        self._classes.observe(seen)
        free = offered(seen, pilot_jobs, config.nodes, self._classes.of_node)
        self._window_ends = tuple(window_ends_here(seen, pilot_jobs, answer.at_s).items())
        self._asleep = asleep(seen, config.nodes)
        self._without_a_job = frozenset(n.name for n in seen.nodes if n.availability is not Availability.BUSY)
        self._limit_waits = LimitWaits(answer.at_s, seen.limit_waits) if seen.limit_waits else LimitWaits()
        # Nothing above offers a node; nothing below fails.
        self._seen_s, offset_s = answer.at_s, answer.at_s - seen.at_s
        if self._clock_offset_s is None or abs(offset_s - self._clock_offset_s) > _OFFSET_JITTER_S:
            self._clock_offset_s = offset_s
        self._first_seen = self._first_seen.looked(free, seen.nodes, answer.at_s, self._clock_offset_s)
        confirm_s = config.nodes.confirm_s if may_be_taken_at_once(seen, pilot_jobs) else 0.0
        before = self._idle.offered
        self._idle, _ = debounce(self._idle, frozenset(free), begun_s, confirm_s)
        if not confirm_s and not self._idle.offered <= before:
            self._more_until_s = begun_s + config.nodes.confirm_s
        self._candidates = Table()
        for node in sorted(self._idle.offered):
            node_class = self._classes.of_node(node) or ""
            request = NodeRequest(node, free[node], self._classes.gpus(node), node_class)
            self._candidates[node] = Candidate(request, node_class)
        return complaint

    def _succeeded(self, complaint: str) -> None:
        polls = self._polls
        if polls.failures:
            self._recorder.note("poll", "", f"the scheduler responds again after {polls.failures} failed polls")
        if complaint and complaint != polls.complaint:
            self._recorder.note("hosts", "", complaint)
        self._is_postponed = False
        first_s = self._clock.elapsed_s() if polls.first_s is None else polls.first_s
        self._polls, self._silent_s = PollRecord(first_s, complaint=complaint), 0.0

    def _failed(self, error: str) -> None:
        polls = self._polls
        if error != polls.error:  # once, not at every poll of a long outage
            self._recorder.note("poll failed", "", error)
        self._polls = replace(polls, failures=polls.failures + 1, error=error)
        self._idle, _ = debounce(self._idle, None, 0.0, 0.0)
