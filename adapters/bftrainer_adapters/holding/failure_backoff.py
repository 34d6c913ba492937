"""Exponential back-off after failures, by name.

Not the NodeBackoff of bftrainer/live/nodes: that one counts preemptions soon after a start and is deterministic, this one
counts failures of commands and holders, with jitter, and its waits reach the pilot as ``Refusal.retry_s``.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field


@dataclass
class FailureBackoff:
    """Waits of ``first_s``, twice that, four times that ... up to ``most_s``, each up to 10 % longer or shorter at random."""

    first_s: float
    most_s: float
    seed: int = 0
    _failures: dict[str, int] = field(default_factory=dict)
    _until_s: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def failed(self, name: str, now_s: float) -> float:
        """Record a failure; the seconds to wait from now."""
        count = self._failures[name] = self._failures.get(name, 0) + 1
        wait_s = min(self.first_s * 2.0 ** min(count - 1, 30), self.most_s) * self._random.uniform(0.9, 1.1)
        self._until_s[name] = now_s + wait_s
        return wait_s

    def succeeded(self, name: str) -> None:
        self._failures.pop(name, None)
        self._until_s.pop(name, None)

    def has_failed(self, name: str) -> bool:
        """Whether there was a failure since the latest success."""
        return name in self._failures

    def wait_s(self, name: str, now_s: float) -> float:
        """Seconds left to wait; 0 for a name that may be tried."""
        return max(self._until_s.get(name, now_s) - now_s, 0.0)
