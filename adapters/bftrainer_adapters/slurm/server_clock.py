"""slurmctld's time between two calls of sdiag: its clock and this host's differ by the same seconds from look to look."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

KEPT_S = 300.0


@dataclass
class ServerClock:
    """``elapsed_s`` never goes back, and counts time in which the host slept: the time shown is late at no time."""

    elapsed_s: Callable[[], float]
    planned_s: float | None = None
    """Its latest backfill cycle, as of the last ``set``."""
    _at_s: float = 0.0
    _set_s: float = -math.inf

    @property
    def is_due(self) -> bool:
        """Whether to ask sdiag again. A clock that is set meanwhile is wrong for that long."""
        return self.elapsed_s() - self._set_s >= KEPT_S

    def set(self, at_s: float, planned_s: float | None) -> None:
        """What sdiag has just shown."""
        self._at_s, self._set_s, self.planned_s = at_s, self.elapsed_s(), planned_s

    def now_s(self) -> float:
        """Seconds of the server's epoch; sdiag shows whole seconds, so it may be up to one early."""
        return self._at_s + self.elapsed_s() - self._set_s
