"""Leave alone what failed: longer each time it fails again."""

from __future__ import annotations

import random
from dataclasses import dataclass, field


@dataclass
class BackOff:
    """Waits of ``first_s``, twice that, four times that ... up to ``most_s``, by name; a tenth more or less, by lot."""

    first_s: float
    most_s: float
    seed: int = 0
    _failures: dict[str, int] = field(default_factory=dict)
    _until_s: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def failed(self, name: str, now_s: float) -> float:
        """Note a failure; seconds to wait from now."""
        count = self._failures[name] = self._failures.get(name, 0) + 1
        wait_s = min(self.first_s * 2.0 ** min(count - 1, 30), self.most_s) * self._random.uniform(0.9, 1.1)
        self._until_s[name] = now_s + wait_s
        return wait_s

    def succeeded(self, name: str) -> None:
        """Start afresh."""
        self._failures.pop(name, None)
        self._until_s.pop(name, None)

    def wait_s(self, name: str, now_s: float) -> float:
        """Seconds that are left; 0 for what may be tried."""
        return max(self._until_s.get(name, now_s) - now_s, 0.0)
