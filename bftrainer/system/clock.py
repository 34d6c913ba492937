"""The Clock port, on the clocks of this host."""

from __future__ import annotations

import threading
import time

from bftrainer.domain.times import ElapsedS, HostS


class SystemClock:
    """Wall time, monotonic time, and a sleep that another thread can end."""

    def __init__(self) -> None:
        self._woken = threading.Event()

    def now_s(self) -> HostS:
        """Seconds since the epoch."""
        return HostS(time.time())

    def elapsed_s(self) -> ElapsedS:
        """Seconds from some fixed moment, monotonic."""
        return ElapsedS(time.monotonic())

    def sleep(self, seconds: float) -> None:
        """Sleep until then, or until something has happened (:meth:`wake`); return at once if ``seconds`` is not positive."""
        if seconds > 0:
            self._woken.wait(seconds)
            self._woken.clear()

    def wake(self) -> None:
        """Something has happened that the sleeper waits for: end its sleep, or its next one."""
        self._woken.set()
