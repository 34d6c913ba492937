"""How long holders take from submission to ready, a Prolog included: measured, so that windows too short are not taken."""

from __future__ import annotations

import statistics
from collections import deque
from dataclasses import dataclass, field

_REMEMBERED = 15


@dataclass
class StartTimes:
    """The latest starts."""

    _latest: deque[float] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))

    def add(self, seconds: float) -> None:
        self._latest.append(seconds)

    @property
    def typical_s(self) -> float:
        """The median; 0 before the first."""
        return statistics.median(self._latest) if self._latest else 0.0
