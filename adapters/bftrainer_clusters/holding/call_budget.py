"""A pilot's budget of calls to the scheduler: one token bucket for all of its commands, by
priority.

A call is one RPC of the scheduler's controller, not one command. What releases a node is never
delayed; it may put the bucket into debt, which later calls repay. Looks and submissions wait. While
the bucket is less than half full, looks are spaced so that they use at most half of the refill, and
lists a quarter: looks alone would otherwise use all of it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum


class CallKind(Enum):
    """What a call is for. The most important kinds come first."""

    RELEASE = "release"
    """Ends holders. Never waits."""
    TIDY = "tidy"
    """Ends worker steps before a release. Without it, the payload ends them."""
    LIST = "list"
    """Lists the pilot's holders."""
    LOOK = "look"
    """Nodes, jobs and reservations."""
    SUBMIT = "submit"


_KEPT = {
    CallKind.RELEASE: -math.inf,
    CallKind.TIDY: 0.125,
    CallKind.LIST: 0.125,
    CallKind.LOOK: 0.25,
    CallKind.SUBMIT: 0.375,
}
"""Share of the bucket that a call of this kind leaves to more important ones."""
_SHARE = {CallKind.LIST: 0.25, CallKind.LOOK: 0.5}
"""Share of the refill that these kinds may use while the bucket is not half full."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """A token bucket of calls: ``level`` calls could be made at ``at_s``; ``per_s`` are added, up
    to ``size``. A level below 0 is debt.
    """

    size: float
    per_s: float
    level: float
    at_s: float

    @classmethod
    def full(cls, size: float, per_s: float, at_s: float) -> Bucket:
        return cls(size, per_s, size, at_s)

    def at(self, now_s: float) -> Bucket:
        """Return the bucket as refilled at ``now_s``; a clock that goes back refills nothing."""
        passed_s = max(now_s - self.at_s, 0.0)
        return replace(
            self,
            level=min(self.level + passed_s * self.per_s, self.size),
            at_s=max(now_s, self.at_s),
        )

    def take(self, calls: float, now_s: float) -> Bucket:
        """Return the bucket after these calls, with a debt if it did not hold as many."""
        refilled = self.at(now_s)
        return replace(refilled, level=refilled.level - calls)

    def wait_s(self, calls: float, kept: float, now_s: float) -> float:
        """Return the seconds until these calls would leave ``kept`` in the bucket; a bucket too
        small for that only has to be full.
        """
        missing = min(calls + max(kept, 0.0), self.size) - self.at(now_s).level
        return missing / self.per_s if missing > 1e-9 else 0.0

    def limited(self, size: float, per_s: float, now_s: float) -> Bucket:
        """Return the bucket with another size and refill. The calls that were used stay used."""
        refilled = self.at(now_s)
        return Bucket(size, per_s, size - min(refilled.size - refilled.level, size), refilled.at_s)

    def drained(self, calls: float, now_s: float) -> Bucket:
        """Return the bucket after calls that others have made: at most empty, without a debt, since
        the scheduler has long answered them.
        """
        refilled = self.at(now_s)
        return replace(refilled, level=max(refilled.level - calls, min(refilled.level, 0.0)))


class CallBudget:
    """The bucket of one pilot. Its loop and the thread that polls the scheduler both use it."""

    def __init__(self, calls_per_minute: float, elapsed_s: Callable[[], float]) -> None:
        self._elapsed_s = elapsed_s
        self._lock = threading.Lock()
        self._last_s: dict[CallKind, float] = {}
        self._site = (math.inf, math.inf)
        self._own = _own(calls_per_minute)
        self._bucket = Bucket.full(*self._own, elapsed_s())

    @property
    def is_limited(self) -> bool:
        """Whether the site's limit is stricter than the pilot's own."""
        return self._site[0] < self._own[0] or self._site[1] < self._own[1]

    @property
    def per_minute(self) -> float:
        return self._bucket.per_s * 60.0

    def wait_s(self, kind: CallKind, calls: float) -> float:
        """Return the seconds until these calls may be made; 0 if they may be made now."""
        if kind is CallKind.RELEASE:
            return 0.0
        with self._lock:
            bucket, now_s = self._bucket, self._elapsed_s()
            wait_s = bucket.wait_s(calls, _KEPT[kind] * bucket.size, now_s)
            if kind in _SHARE and bucket.wait_s(calls, 0.5 * bucket.size, now_s):
                spacing_s = calls / (_SHARE[kind] * bucket.per_s)
                wait_s = max(wait_s, self._last_s.get(kind, -math.inf) + spacing_s - now_s)
        return wait_s

    def spend(self, kind: CallKind, calls: float) -> None:
        """Take these calls from the bucket; they are made now."""
        with self._lock:
            now_s = self._elapsed_s()
            self._bucket, self._last_s[kind] = self._bucket.take(calls, now_s), now_s

    def charge(self, calls: float) -> None:
        """Take calls from the bucket that others have made with the pilot's allowance: workers'
        steps, the user's own commands.
        """
        with self._lock:
            self._bucket = self._bucket.drained(calls, self._elapsed_s())

    def refused(self) -> float:
        """Empty the bucket, because the scheduler has refused a call; return the seconds until a
        look may be made.
        """
        with self._lock:
            self._bucket = self._bucket.drained(math.inf, self._elapsed_s())
        return self.wait_s(CallKind.LOOK, 1.0)

    def configure(self, calls_per_minute: float) -> None:
        """Set the pilot's own limit."""
        self._own = _own(calls_per_minute)
        self._adjust()

    def limit(self, size: float, per_s: float) -> None:
        """Set the site's limit; infinite if it has none."""
        if self._site != (size, per_s):
            self._site = (size, per_s)
            self._adjust()

    def _adjust(self) -> None:
        with self._lock:
            size, per_s = (min(pair) for pair in zip(self._own, self._site, strict=True))
            self._bucket = self._bucket.limited(size, per_s, self._elapsed_s())


def _own(calls_per_minute: float) -> tuple[float, float]:
    """Return size and refill of the pilot's own bucket: calls of ten seconds, and of two looks at
    least.
    """
    return max(calls_per_minute / 6.0, 16.0), calls_per_minute / 60.0
