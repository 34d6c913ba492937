"""When the pilot looks at the scheduler next. Pure.

Without hints, looks are ``poll_s`` apart. A hint says that something may have changed and no more: it brings the next look
forward. An Epilog sends its hint before the scheduler knows that the node is idle, so a look that finds nothing is repeated
(:data:`REPEATS_S`). Looks that only a hint asks for come out of an allowance, so a flood of hints costs no more than that.

Where hints announce what changes, the other looks become rarer: after :data:`TRUSTED_AFTER` looks in a row whose newly idle
nodes a hint had announced, they are ``calm_s`` apart. The first look that finds one without a hint ends that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum

from bftrainer.config.pilot import PilotConfig

REPEATS_S = (0.15, 1.5)
"""Looks after a hint, until one finds a newly idle node: the scheduler hears of an Epilog's end a moment after its hint."""
BURST = 6.0
"""So many hinted looks may follow one another; the allowance is full with them."""
TRUSTED_AFTER = 3


class News(Enum):
    """What a look found."""

    NOTHING = "nothing"
    """No newly idle node, or only nodes whose release the pilot knew of."""
    ANNOUNCED = "announced"
    """A newly idle node, and a hint had come."""
    UNANNOUNCED = "unannounced"
    FAILED = "failed"
    """The scheduler did not answer. Hints do not make the pilot ask it more often."""


@dataclass(frozen=True, slots=True)
class LookRules:
    """``poll_s`` between two looks that no hint asks for, ``calm_s`` while hints announce the changes, and the number of hinted
    looks per minute.
    """

    poll_s: float
    calm_s: float
    per_minute: float

    def interval_s(self, announced: int) -> float:
        """Between two looks without a hint."""
        return max(self.calm_s, self.poll_s) if announced >= TRUSTED_AFTER else self.poll_s


def rules_of(config: PilotConfig) -> LookRules:
    """Without a port for hints, none announces anything: looks are never rarer."""
    hints, poll_s = config.hints, config.times.poll_s
    return LookRules(poll_s, poll_s if hints.port is None else hints.poll_s, hints.looks_per_minute)


@dataclass(frozen=True, slots=True)
class Looks:
    """What the time of the next look depends on. All times are seconds of one clock that never goes back.

    ``unhinted_s``: the next look without a hint. ``hinted_s``: the next one that a hint asks for, ``hint_s``: the latest hint.
    ``allowance``: hinted looks that were allowed at ``counted_s``. ``announced``: looks in a row with announced changes.
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
        """Whether looks without a hint are rarer for now."""
        return self.announced >= TRUSTED_AFTER

    def wait_s(self, rules: LookRules, now_s: float) -> float:
        """Seconds until the next look."""
        return max(self.due_s(rules) - now_s, 0.0)

    def hinted(self, now_s: float) -> Looks:
        """A hint has come."""
        return replace(self, hint_s=now_s, hinted_s=min(self.hinted_s, now_s + REPEATS_S[0]))

    def expecting(self, at_s: float) -> Looks:
        """Something known is due at this time: look then. It is no hint: nothing has announced itself."""
        return self if at_s >= self.hinted_s else replace(self, hinted_s=at_s)

    def postponed(self, until_s: float) -> Looks:
        """The budget of calls allows no look before this time."""
        return replace(self, not_before_s=until_s)

    def due_s(self, rules: LookRules) -> float:
        """When to look next."""
        missing = 1.0 - self._allowed(self.hinted_s, rules) if self.hinted_s < math.inf else 0.0
        hinted_s = self.hinted_s + (max(missing, 0.0) * 60.0 / rules.per_minute if rules.per_minute else math.inf)
        return max(self.not_before_s, min(self.unhinted_s, hinted_s))

    def _allowed(self, now_s: float, rules: LookRules) -> float:
        return min(self.allowance + max(now_s - self.counted_s, 0.0) * rules.per_minute / 60.0, BURST)

    def news(self, found_new: bool) -> News:
        """What a look means that begins after this state: a hint counts from the look before on, less the last repeat."""
        if not found_new:
            return News.NOTHING
        return News.ANNOUNCED if self.hint_s >= self.begun_s - REPEATS_S[-1] else News.UNANNOUNCED

    def looked(self, begun_s: float, news: News, rules: LookRules, stretch: float = 1.0) -> Looks:
        """A look that began at ``begun_s`` has ended. ``stretch`` is for chance, and for failures."""
        announced = {News.NOTHING: self.announced, News.ANNOUNCED: self.announced + 1}.get(news, 0)
        allowance = self._allowed(begun_s, rules) - (1.0 if begun_s < self.unhinted_s else 0.0)
        unhinted_s = begun_s + stretch * rules.interval_s(announced)
        is_answered = news is News.ANNOUNCED and begun_s >= self.hint_s + REPEATS_S[0]
        again_s = (at_s for wait_s in REPEATS_S if (at_s := self.hint_s + wait_s) > begun_s)
        return replace(
            self,
            unhinted_s=unhinted_s,
            hinted_s=math.inf if is_answered else min(again_s, default=math.inf),
            begun_s=begun_s,
            not_before_s=unhinted_s if news is News.FAILED else -math.inf,
            allowance=max(allowance, 0.0),
            counted_s=begun_s,
            announced=announced,
        )
