"""The Clock port, on the clocks of this host."""

from __future__ import annotations

import time


class SystemClock:
    """Wall time, monotonic time and sleep."""

    def now_s(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def elapsed_s(self) -> float:
        """Seconds from some fixed moment, monotonic."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep; return at once if ``seconds`` is not positive."""
        if seconds > 0:
            time.sleep(seconds)
