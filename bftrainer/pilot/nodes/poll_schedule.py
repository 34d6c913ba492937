"""When the pilot polls the scheduler next. Pure.

Without hints, polls are ``poll_s`` apart. A hint says that something may have changed and no more:
it brings the next poll forward. An Epilog sends its hint before the scheduler knows that the node
is idle, so a poll that finds nothing is repeated (:data:`REPEATS_S`). Polls that only a hint asks
for come out of an allowance, so a flood of hints costs no more than that.

Where hints announce what changes, the other polls become rarer: after :data:`TRUSTED_AFTER` polls
in a row whose newly idle nodes a hint had announced, they are ``calm_s`` apart. The first poll that
finds one without a hint ends that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum

from bftrainer.config.pilot import PilotConfig

REPEATS_S = (0.15, 1.5)
"""Polls after a hint, until one finds a newly idle node: the scheduler hears of an Epilog's end a
moment after its hint.
"""
BURST = 6.0
"""Hinted polls that may follow one another: the size of the allowance."""
TRUSTED_AFTER = 3


class PollOutcome(Enum):
    """What a poll found."""

    NOTHING = "nothing"
    """No newly idle node, or only nodes whose release the pilot knew of."""
    ANNOUNCED = "announced"
    """A newly idle node, and a hint had come."""
    UNANNOUNCED = "unannounced"
    FAILED = "failed"
    """The scheduler did not answer. Hints do not make the pilot ask it more often."""


@dataclass(frozen=True, slots=True)
class PollRules:
    """The intervals of polls: ``poll_s`` between two polls that no hint asks for, ``calm_s`` while
    hints announce the changes; and ``per_minute``, how many polls hints may ask for in a minute.
    """

    poll_s: float
    calm_s: float
    per_minute: float

    def interval_s(self, announced_count: int) -> float:
        """Return the seconds between two polls without a hint, after ``announced_count`` polls in a
        row whose changes a hint had announced.
        """
        return max(self.calm_s, self.poll_s) if announced_count >= TRUSTED_AFTER else self.poll_s


def rules_of(config: PilotConfig) -> PollRules:
    """Return the intervals between polls that the configuration asks for. Without a port for hints,
    none announces anything: polls are never rarer.
    """
    hints, poll_s = config.hints, config.times.poll_s
    return PollRules(poll_s, poll_s if hints.port is None else hints.poll_s, hints.looks_per_minute)


@dataclass(frozen=True, slots=True)
class PollSchedule:
    """What the time of the next poll depends on. All times are seconds of one clock that never goes
    back, infinite where there is none.

    - ``next_unhinted_s``: the next poll that no hint asks for.
    - ``next_hinted_s``: the next poll that a hint, or a known event, asks for.
    - ``last_hint_s``: the latest hint. ``last_poll_s``: the start of the latest poll.
    - ``not_before_s``: no poll begins earlier, whatever asks for it.
    - ``allowance``: how many hinted polls were allowed at ``allowance_at_s``.
    - ``announced_count``: polls in a row with announced changes.
    """

    next_unhinted_s: float
    next_hinted_s: float = math.inf
    last_hint_s: float = -math.inf
    last_poll_s: float = -math.inf
    not_before_s: float = -math.inf
    allowance: float = BURST
    allowance_at_s: float = -math.inf
    announced_count: int = 0

    @property
    def is_calm(self) -> bool:
        """Whether polls without a hint are rarer for now."""
        return self.announced_count >= TRUSTED_AFTER

    def wait_s(self, rules: PollRules, now_s: float) -> float:
        """Seconds until the next poll."""
        return max(self.due_s(rules) - now_s, 0.0)

    def hinted(self, now_s: float) -> PollSchedule:
        """Return the schedule after a hint that came at ``now_s``."""
        return replace(
            self, last_hint_s=now_s, next_hinted_s=min(self.next_hinted_s, now_s + REPEATS_S[0])
        )

    def expecting(self, at_s: float) -> PollSchedule:
        """Return the schedule with a poll at ``at_s``, the time of a known event. The poll counts
        against the allowance, but is no hint: nothing has announced itself.
        """
        return self if at_s >= self.next_hinted_s else replace(self, next_hinted_s=at_s)

    def forced(self, at_s: float) -> PollSchedule:
        """Return the schedule with a poll at ``at_s`` at the latest, whatever the allowance: main
        jobs may wait for this pilot.
        """
        return replace(self, next_unhinted_s=min(self.next_unhinted_s, at_s))

    def postponed(self, until_s: float) -> PollSchedule:
        """Return the schedule without a poll before ``until_s``: the budget of calls allows
        none.
        """
        return replace(self, not_before_s=until_s)

    def due_s(self, rules: PollRules) -> float:
        """Return when to poll next. A poll that a hint asks for waits until the allowance has room
        for it.
        """
        hinted_s = math.inf
        if self.next_hinted_s < math.inf and rules.per_minute:
            missing = max(1.0 - self._allowed_polls(self.next_hinted_s, rules), 0.0)
            hinted_s = self.next_hinted_s + missing * 60.0 / rules.per_minute
        return max(self.not_before_s, min(self.next_unhinted_s, hinted_s))

    def _allowed_polls(self, now_s: float, rules: PollRules) -> float:
        """Return how many polls that only a hint asks for are allowed at ``now_s``."""
        return min(
            self.allowance + max(now_s - self.allowance_at_s, 0.0) * rules.per_minute / 60.0, BURST
        )

    def outcome(self, has_new_idle: bool) -> PollOutcome:
        """Return what a poll means that began after this state. ``has_new_idle``: it has shown a
        newly idle node. The node counts as announced if a hint has come since the poll before, or
        at most the last repeat's time earlier: a hint may come before the scheduler knows the node.
        """
        if not has_new_idle:
            return PollOutcome.NOTHING
        return (
            PollOutcome.ANNOUNCED
            if self.last_hint_s >= self.last_poll_s - REPEATS_S[-1]
            else PollOutcome.UNANNOUNCED
        )

    def polled(
        self,
        begun_s: float,
        outcome: PollOutcome,
        rules: PollRules,
        stretch: float = 1.0,
        cost: float = 1.0,
    ) -> PollSchedule:
        """Return the schedule after a poll that began at ``begun_s``. ``stretch``: a factor on the
        interval, by chance or after failures. ``cost``: what a poll that a hint brought forward
        takes from the allowance.

        A newly idle node without a hint, and a failure, end the run of announced polls. After a
        failure no hint brings the next poll forward.
        """
        announced_count = {
            PollOutcome.NOTHING: self.announced_count,
            PollOutcome.ANNOUNCED: self.announced_count + 1,
        }.get(outcome, 0)
        allowance = self._allowed_polls(begun_s, rules)
        if begun_s < self.next_unhinted_s:
            allowance -= cost
        next_unhinted_s = begun_s + stretch * rules.interval_s(announced_count)
        # A poll before the first repeat of the latest hint may have come too early for its node.
        is_answered = (
            outcome is PollOutcome.ANNOUNCED and begun_s >= self.last_hint_s + REPEATS_S[0]
        )
        repeats_s = (at_s for wait_s in REPEATS_S if (at_s := self.last_hint_s + wait_s) > begun_s)
        return replace(
            self,
            next_unhinted_s=next_unhinted_s,
            next_hinted_s=math.inf if is_answered else min(repeats_s, default=math.inf),
            last_poll_s=begun_s,
            not_before_s=next_unhinted_s if outcome is PollOutcome.FAILED else -math.inf,
            allowance=max(allowance, 0.0),
            allowance_at_s=begun_s,
            announced_count=announced_count,
        )
