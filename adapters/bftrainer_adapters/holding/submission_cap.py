"""A cap on the holders that a pilot submits in any hour. A pilot that starts again counts from zero."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

HOUR_S = 3600.0


@dataclass
class SubmissionCap:
    """The times of the submissions of the last hour."""

    _at_s: deque[float] = field(default_factory=deque)

    def submitted(self, now_s: float) -> None:
        self._at_s.append(now_s)

    def withdraw(self) -> None:
        """One of the latest failed."""
        if self._at_s:
            self._at_s.pop()

    def wait_s(self, most: int | None, now_s: float) -> float:
        """Seconds until one more leaves at most ``most`` in the hour before it; 0 without a cap."""
        while self._at_s and now_s - self._at_s[0] >= HOUR_S:
            self._at_s.popleft()
        if most is None or len(self._at_s) < most:
            return 0.0
        return self._at_s[len(self._at_s) - most] - now_s + HOUR_S  # in this order never above HOUR_S
