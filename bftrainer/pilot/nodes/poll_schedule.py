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

    def interval_s(self, announced: int) -> float:
        """Return the seconds between two polls without a hint, after ``announced`` announced polls
        in a row.
        """
        return max(self.calm_s, self.poll_s) if announced >= TRUSTED_AFTER else self.poll_s


def rules_of(config: PilotConfig) -> PollRules:
    """Return the intervals between polls that the configuration asks for. Without a port for hints,
    none announces anything: polls are never rarer.
    """
    hints, poll_s = config.hints, config.times.poll_s
    return PollRules(poll_s, poll_s if hints.port is None else hints.poll_s, hints.looks_per_minute)


@dataclass(frozen=True, slots=True)
class PollSchedule:
    """What the time of the next poll depends on. All times are seconds of one clock that never goes
    back.

    ``unhinted_s``: the next poll without a hint. ``hinted_s``: the next one that a hint asks for,
    ``hint_s``: the latest hint. ``allowance``: hinted polls that were allowed at ``counted_s``.
    ``announced``: polls in a row with announced changes.
    """

    unhinted_s: float
    hinted_s: float = math.inf
    hint_s: float = -math.inf
    begun_s: float = -math.inf
    not_before_s: float = -math.inf
    allowance: float = BURST
    counted_s: float = -math.inf
    announced: int = 0

    @property
    def is_calm(self) -> bool:
        """Whether polls without a hint are rarer for now."""
        return self.announced >= TRUSTED_AFTER

    def wait_s(self, rules: PollRules, now_s: float) -> float:
        """Seconds until the next poll."""
        return max(self.due_s(rules) - now_s, 0.0)

    def hinted(self, now_s: float) -> PollSchedule:
        """Return the schedule after a hint that came at ``now_s``."""
        return replace(self, hint_s=now_s, hinted_s=min(self.hinted_s, now_s + REPEATS_S[0]))

    def expecting(self, at_s: float) -> PollSchedule:
        """Return the schedule with a poll at ``at_s``, when something known is due. It is no hint:
        nothing has announced itself.
        """
        return self if at_s >= self.hinted_s else replace(self, hinted_s=at_s)

    def forced(self, at_s: float) -> PollSchedule:
        """Return the schedule with a poll at ``at_s``, whatever the allowance: main jobs may wait
        for this pilot.
        """
        return replace(self, unhinted_s=min(self.unhinted_s, at_s))

    def postponed(self, until_s: float) -> PollSchedule:
        """Return the schedule without a poll before ``until_s``: the budget of calls allows
        none.
        """
        return replace(self, not_before_s=until_s)

    def due_s(self, rules: PollRules) -> float:
        """When to poll next."""
        missing = 1.0 - self._allowed(self.hinted_s, rules) if self.hinted_s < math.inf else 0.0
        hinted_s = self.hinted_s + (
            max(missing, 0.0) * 60.0 / rules.per_minute if rules.per_minute else math.inf
        )
        return max(self.not_before_s, min(self.unhinted_s, hinted_s))

    def _allowed(self, now_s: float, rules: PollRules) -> float:
        """Return how many polls that only a hint asks for are allowed at ``now_s``."""
        return min(
            self.allowance + max(now_s - self.counted_s, 0.0) * rules.per_minute / 60.0, BURST
        )

    def outcome(self, found_new: bool) -> PollOutcome:
        """Return what a poll means that begins after this state. A newly idle node counts as
        announced if a hint has come since the poll before, less the last repeat.
        """
        if not found_new:
            return PollOutcome.NOTHING
        return (
            PollOutcome.ANNOUNCED
            if self.hint_s >= self.begun_s - REPEATS_S[-1]
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
        """
        announced = {
            PollOutcome.NOTHING: self.announced,
            PollOutcome.ANNOUNCED: self.announced + 1,
        }.get(outcome, 0)
        allowance = self._allowed(begun_s, rules) - (cost if begun_s < self.unhinted_s else 0.0)
        unhinted_s = begun_s + stretch * rules.interval_s(announced)
        is_answered = outcome is PollOutcome.ANNOUNCED and begun_s >= self.hint_s + REPEATS_S[0]
        again_s = (at_s for wait_s in REPEATS_S if (at_s := self.hint_s + wait_s) > begun_s)
        return replace(
            self,
            unhinted_s=unhinted_s,
            hinted_s=math.inf if is_answered else min(again_s, default=math.inf),
            begun_s=begun_s,
            not_before_s=unhinted_s if outcome is PollOutcome.FAILED else -math.inf,
            allowance=max(allowance, 0.0),
            counted_s=begun_s,
            announced=announced,
        )
