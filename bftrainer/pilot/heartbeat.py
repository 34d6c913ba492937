"""Renewal of the holders' leases, whatever the loop is waiting for: a slow scheduler, a long
solve.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from bftrainer.system.clock import Clock
from bftrainer.wires.leases import RENEWALS

BEAT_S = 5.0


class Heartbeat:
    """Renews the leases in the loop's ticks, and in a thread between them (:meth:`running`).

    A thread alone would hold nodes forever for a loop that hangs, or whose disk does not answer. So
    leases are renewed for ``lease_s`` after the loop has last written to the journal, and no
    longer. A suspended process suspends its threads.
    """

    def __init__(self, renew: Callable[[], None], clock: Clock, lease_s: float) -> None:
        """Renew leases by calling ``renew``. ``lease_s`` is the time for which a holder job keeps
        its node without a renewal.
        """
        self._renew = renew
        self._clock = clock
        self._lease_s = lease_s
        self._journal_write_s = -math.inf  # when the loop last wrote, in elapsed seconds
        self._next_renewal_s = -math.inf
        self._lock = threading.Lock()  # of the loop or the thread, while it renews

    @property
    def interval_s(self) -> float:
        """Seconds between two renewals, and between two of the loop's writes to the journal."""
        return min(BEAT_S, self._lease_s / RENEWALS)

    def mark_written(self) -> None:
        """Take note that the loop has just written to the journal."""
        self._journal_write_s = self._clock.elapsed_s()

    def renew_if_due(self) -> None:
        """Renew the leases if ``interval_s`` has passed since the last renewal, unless the loop has
        written nothing to its journal for ``lease_s``.

        Never waits for a renewal that is on its way in the other thread.
        """
        if not self._lock.acquire(blocking=False):
            return
        try:
            now_s = self._clock.elapsed_s()
            if now_s >= self._next_renewal_s and now_s - self._journal_write_s <= self._lease_s:
                self._next_renewal_s = now_s + self.interval_s
                self._renew()
        finally:
            self._lock.release()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Renew the leases in a thread as well while the block runs."""
        end_event = threading.Event()

        def beat() -> None:
            # Half the interval, so that a renewal is late by half an interval at most.
            while not end_event.wait(self.interval_s / 2):
                # An error of the holders' files: the loop meets it as well and reports it.
                with suppress(OSError):
                    self.renew_if_due()

        thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            end_event.set()
            thread.join(1.0)  # a file system that hangs must not keep the pilot from its end
