"""The port of time, and its implementation by the clocks of this host."""

from __future__ import annotations

import threading
import time
from typing import Protocol

from bftrainer.times import ElapsedS, HostS


class Clock(Protocol):
    """The only source of time outside the core."""

    def now_s(self) -> HostS:
        """Seconds since the epoch, for display and journals. It may jump."""

    def elapsed_s(self) -> ElapsedS:
        """Monotonic seconds from an arbitrary origin, for timeouts and backoffs."""

    def sleep(self, seconds: float) -> None: ...


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
        """Sleep until then, or until something has happened (:meth:`wake`); return at once if
        ``seconds`` is not positive.
        """
        if seconds > 0:
            self._woken.wait(seconds)
            self._woken.clear()

    def wake(self) -> None:
        """Something has happened that the sleeper waits for: end its sleep, or its next one."""
        self._woken.set()
