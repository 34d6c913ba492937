"""Polls of the scheduler: when, what they showed last, and for how long none has succeeded."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from bftrainer.config.pilot import PilotConfig
from bftrainer.core.debounce import DebounceState, debounce
from bftrainer.core.windows import PilotJobs
from bftrainer.domain.cluster import NodeRequest
from bftrainer.domain.ports import Clock, Scheduler
from bftrainer.errors import BFTrainerError
from bftrainer.live.derived import Table
from bftrainer.live.nodes.classifier import NodeClassifier
from bftrainer.live.nodes.decisions import Candidate
from bftrainer.live.nodes.selection import offered, window_ends_here
from bftrainer.live.nodes.sharing import Sharing
from bftrainer.persistence.registry import Registry

_SLOWEST_POLL = 6.0  # times poll_s, after failed polls


@dataclass(frozen=True, slots=True)
class PollRecord:
    """How polls went. Times are of the clock that never goes back; ``first_s`` is None before the first success.

    ``error`` is the last failure's text (empty: none since a success), ``complaint`` what was last said of peer pilots.
    """

    last_good_s: float
    first_s: float | None = None
    failures: int = 0
    error: str = ""
    complaint: str = ""


class Survey:
    """Asks the scheduler when it is time, and keeps what the pilot may request."""

    def __init__(
        self, config: PilotConfig, registry: Registry, scheduler: Scheduler, clock: Clock, pilot_jobs: PilotJobs,
        sharing: Sharing, classes: NodeClassifier,
    ) -> None:  # fmt: skip
        self._registry = registry
        self._scheduler = scheduler
        self._clock = clock
        self._pilot_jobs = pilot_jobs
        self._sharing = sharing
        self._classes = classes
        self._random = random.Random(config.decisions.seed)
        self._next_s = clock.elapsed_s()
        self._polls = PollRecord(clock.elapsed_s())
        self._idle = DebounceState()
        self._candidates: Table[Candidate] = Table()
        self._window_ends: tuple[tuple[str, float], ...] = ()

    @property
    def answers(self) -> bool:
        """Whether the last poll succeeded."""
        return self._polls.failures == 0

    @property
    def silent_s(self) -> float:
        """Seconds since the last success."""
        return self._clock.elapsed_s() - self._polls.last_good_s

    @property
    def answered_for_s(self) -> float:
        """Seconds since the first success; 0 before it."""
        return 0.0 if self._polls.first_s is None else self._clock.elapsed_s() - self._polls.first_s

    @property
    def window_ends(self) -> tuple[tuple[str, float], ...]:
        """(node, seconds since 1970) where the scheduler's plans end a window, of held nodes, too."""
        return self._window_ends

    @property
    def peer_holders(self) -> tuple[str, ...]:
        return self._sharing.holders

    def candidates(self) -> tuple[Candidate, ...]:
        """Idle nodes that the configuration allows and that have not been requested since the last poll."""
        return self._candidates.values()

    def requested(self, node: str) -> None:
        """Not a candidate before the next poll."""
        if node in self._candidates:
            del self._candidates[node]

    def reconfigure(self) -> None:
        """Forget the candidates: they were selected by the old configuration."""
        self._candidates = Table()

    def is_due(self) -> bool:
        return self._clock.elapsed_s() >= self._next_s

    def poll(self, config: PilotConfig, holders: frozenset[str]) -> None:
        """Ask the scheduler. After failures, ask less often; a failure changes nothing of what is known."""
        elapsed, now_s, poll_s = self._clock.elapsed_s(), self._clock.now_s(), config.times.poll_s
        try:
            complaint = self._observe(config, holders, now_s)
        except BFTrainerError as error:
            self._failed(str(error), elapsed - poll_s, now_s)
        else:
            self._succeeded(complaint, elapsed, now_s)
        slower = min(2.0 ** min(self._polls.failures, 10), _SLOWEST_POLL)
        self._next_s = elapsed + poll_s * slower * self._random.uniform(0.9, 1.1)

    def _observe(self, config: PilotConfig, holders: frozenset[str], now_s: float) -> str:
        """One observation. Returns the complaint about a peer pilot, if any."""
        seen = self._scheduler.observe()
        pilot_jobs = replace(self._pilot_jobs, job_ids=self._pilot_jobs.job_ids | holders)
        complaint = self._sharing.observe(config.nodes, seen)
        self._classes.observe(seen)
        free = offered(seen, pilot_jobs, config.nodes, self._classes.of_node)
        self._window_ends = tuple(window_ends_here(seen, pilot_jobs, now_s).items())
        # Nothing above offers a node; nothing below fails.
        self._idle, _ = debounce(self._idle, frozenset(free))
        self._candidates = Table()
        for node in sorted(self._idle.offered):
            request = NodeRequest(node, free[node], self._classes.gpus(node))
            self._candidates[node] = Candidate(request, self._classes.of_node(node) or "")
        return complaint

    def _succeeded(self, complaint: str, elapsed: float, now_s: float) -> None:
        polls = self._polls
        if polls.failures:
            self._registry.note(now_s, "poll", "", f"the scheduler responds again after {polls.failures} failed polls")
        if complaint and complaint != polls.complaint:
            self._registry.note(now_s, "hosts", "", complaint)
        self._polls = PollRecord(elapsed, elapsed if polls.first_s is None else polls.first_s, complaint=complaint)

    def _failed(self, error: str, before_s: float, now_s: float) -> None:
        polls = self._polls
        # Time in which this process was stopped, and did not poll, is no silence of the scheduler.
        last_good_s = polls.last_good_s if polls.failures else max(polls.last_good_s, before_s)
        if error != polls.error:  # once, not at every poll of a long outage
            self._registry.note(now_s, "poll failed", "", error)
        self._polls = replace(polls, last_good_s=last_good_s, failures=polls.failures + 1, error=error)
        self._idle, _ = debounce(self._idle, None)
