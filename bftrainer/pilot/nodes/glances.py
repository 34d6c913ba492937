"""Glances at the scheduler's counters, for a pilot that makes way for main jobs by itself.

A glance is one cheap call, however large the queue is. Only where a counter has moved, the cluster
is observed.
"""

from __future__ import annotations

import math
from concurrent.futures import Future
from dataclasses import dataclass, field

from bftrainer.cluster.model import GiveWay, glances_per_s
from bftrainer.cluster.ports import YieldPort
from bftrainer.config.in_effect import ConfigCell
from bftrainer.decide.yielding.blind import Glance, OwnJobs
from bftrainer.decide.yielding.facts import JobCounters
from bftrainer.errors import BFTrainerError
from bftrainer.pilot.steady_clock import SteadyClock
from bftrainer.system.background import Background

PUBLISHED_S = 0.5
"""Counters that another process has asked for are read so often: their age is that process's."""


@dataclass(eq=False)
class Glances:
    """Asks the scheduler for its counters when it is time. A glance that fails counts as one at
    which a counter has moved.
    """

    _config: ConfigCell
    _port: YieldPort | None
    _clock: SteadyClock
    _background: Background
    latest: Glance | None = field(default=None, init=False)
    planned_s: float | None = field(default=None, init=False)
    """When the latest complete backfill cycle began, by the scheduler's clock."""
    _answer: Future[JobCounters] | None = field(default=None, init=False)
    _begun_s: float = field(default=-math.inf, init=False)

    def next_s(self, way: GiveWay) -> float:
        """Seconds until the next glance is due; infinite where none is needed, or one is on its
        way.
        """
        if way is GiveWay.SITE or self._port is None or self._answer is not None:
            return math.inf
        interval_s = 1.0 / glances_per_s(way, self._config.now.nodes.yield_poll_s)
        if self.latest is not None and self.latest.counters.is_published:
            interval_s = min(interval_s, PUBLISHED_S)
        return max(self._begun_s + interval_s - self._clock.elapsed_s(), 0.0)

    def attend(self, way: GiveWay, own: OwnJobs, *, watches: bool = False) -> bool:
        """Begin a glance if one is due, and take its answer once it is there. Returns whether the
        cluster is to be observed now: because a counter has moved or the glance failed; with
        ``watches``, after each glance.
        """
        if way is GiveWay.SITE or self._port is None:
            self.latest = None
            return False
        if self._answer is None and self.next_s(way) <= 0.0:
            self._begun_s = self._clock.elapsed_s()
            self._answer = self._background.start(self._port.glance)
        if self._answer is None or not self._answer.done():
            return False
        answer, self._answer = self._answer, None
        try:
            counters = answer.result()
        except BFTrainerError:
            return True
        before = self.latest
        self.latest = Glance(self._clock.now_s(), counters, own)
        if counters.planned_s is not None:
            self.planned_s = counters.planned_s
        if way is GiveWay.BLIND:  # it would show no job
            return False
        return watches or before is None or has_moved(before.counters, counters)


def has_moved(before: JobCounters, now: JobCounters) -> bool:
    """Whether a job was submitted, has started or has ended between two glances."""
    was = before.submitted, before.started, before.ended, before.state
    return was != (now.submitted, now.started, now.ended, now.state)
