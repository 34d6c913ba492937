"""Rules that end trainers early, by what they report: ``loss>2@1000`` and ASHA.

Samples, not steps: they mean the same at every number of workers. A rule is applied once at each
of its *rungs*, which are numbers of samples: at the first report with so many samples or more.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from bftrainer.errors import InvalidValueError

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_METRIC = r"[A-Za-z_][\w./-]{0,63}"
_LIMIT = re.compile(rf"\s*({_METRIC})\s*([<>])\s*({_NUMBER})\s*@\s*({_NUMBER})\s*")
_ASHA = re.compile(
    rf"\s*asha\(\s*(min|max)\s+({_METRIC})\s*,\s*({_NUMBER})\s*,\s*({_NUMBER})\s*(?:,\s*(\d{{1,9}})\s*)?\)\s*"
)


@dataclass(frozen=True, slots=True)
class Limit:
    """A trainer ends if a metric is above (or below) a value at a number of samples."""

    metric: str
    above: bool
    value: float
    samples: float

    @property
    def rungs(self) -> tuple[float, ...]:
        return (self.samples,)

    def ends(self, value: float, others: Iterable[float]) -> bool:
        """Whether a trainer with this ``value`` of the metric at the rung ends, whatever the
        ``others`` have reported.
        """
        return value > self.value if self.above else value < self.value


@dataclass(frozen=True, slots=True)
class ASHA:
    """Asynchronous successive halving (Li et al. 2018) among the trainers of a group.

    Rungs are ``first``, ``first * factor``, ... samples, below ``most``. Of the n trainers that
    have come to a rung so far, one that comes goes on if it is among the best n / ``factor``, and
    at least if it is the best. The paper pauses the others, and may go on with them later; here,
    they end.
    """

    metric: str
    first: float
    most: float
    factor: int = 3
    maximize: bool = False

    def __post_init__(self) -> None:
        """Raise :class:`InvalidValueError` unless 0 < first < most and the factor is at least 2."""
        if not (0 < self.first < self.most < math.inf and self.factor >= 2):
            raise InvalidValueError(
                f"ASHA: expected 0 < first < most and factor >= 2, got {self.first:g}, "
                f"{self.most:g}, {self.factor}"
            )

    def __str__(self) -> str:
        best = "max" if self.maximize else "min"
        return f"asha({best} {self.metric}, {self.first!r}, {self.most!r}, {self.factor})"

    @property
    def rungs(self) -> tuple[float, ...]:
        """The numbers of samples at which a trainer is compared, rising."""
        count = math.ceil(math.log(self.most / self.first, self.factor))
        # One more than needed, as the logarithm may be rounded down.
        candidates = (self.first * float(self.factor) ** number for number in range(count + 1))
        return tuple(rung for rung in candidates if rung < self.most)

    def ends(self, value: float, others: Iterable[float]) -> bool:
        """Whether a trainer with this ``value`` of the metric at a rung ends.

        A rung is a number of samples at which trainers are compared; ``others`` are the values of
        the trainers that came to it before. With this trainer the best n / ``factor`` of n go on,
        and at least the best one.
        """
        earlier_values = tuple(others)
        sign = 1 if self.maximize else -1
        better_count = sum(sign * other > sign * value for other in earlier_values)
        return better_count >= max(1, (len(earlier_values) + 1) // self.factor)


Rule = Limit | ASHA


@lru_cache  # a pilot asks at each report of each trainer
def parse_rule(text: str) -> Rule:
    """Return the rule that a text of ``stop_when`` says: ``loss>2@1000`` (end if the loss is above
    2 at 1000 samples), or ``asha(min loss, FIRST, MOST, FACTOR)``.

    Raises :class:`InvalidValueError` for any other text.
    """
    if match := _LIMIT.fullmatch(text):
        return Limit(
            metric=match[1],
            above=match[2] == ">",
            value=float(match[3]),
            samples=float(match[4]),
        )
    if match := _ASHA.fullmatch(text):
        return ASHA(
            metric=match[2],
            first=float(match[3]),
            most=float(match[4]),
            factor=int(match[5] or 3),
            maximize=match[1] == "max",
        )
    raise InvalidValueError(
        "expected METRIC>VALUE@SAMPLES like loss>2@1000, or asha(min METRIC, FIRST, MOST, "
        "FACTOR) in samples like "
        f"asha(min loss, 1000, 27000, 3); got {text!r:.100}"
    )
