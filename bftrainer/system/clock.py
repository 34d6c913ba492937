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
        self._wake_event = threading.Event()

    def now_s(self) -> HostS:
        """Seconds since the epoch."""
        return HostS(time.time())

    def elapsed_s(self) -> ElapsedS:
        """Seconds from some fixed moment, monotonic."""
        return ElapsedS(time.monotonic())

    def sleep(self, seconds: float) -> None:
        """Sleep for ``seconds``, or until :meth:`wake` is called; return at once if ``seconds`` is
        not positive.
        """
        if seconds > 0:
            self._wake_event.wait(seconds)
            self._wake_event.clear()

    def wake(self) -> None:
        """End the sleep of the thread that sleeps, or its next one: something has happened that it
        waits for.
        """
        self._wake_event.set()
