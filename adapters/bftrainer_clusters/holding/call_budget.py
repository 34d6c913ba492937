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


_RESERVE = {
    CallKind.RELEASE: -math.inf,
    CallKind.TIDY: 0.125,
    CallKind.LIST: 0.125,
    CallKind.LOOK: 0.25,
    CallKind.SUBMIT: 0.375,
}
"""Fraction of the bucket that a call of this kind leaves to more important ones."""
_REFILL_FRACTION = {CallKind.LIST: 0.25, CallKind.LOOK: 0.5}
"""Fraction of the refill that these kinds may use while the bucket is not half full."""


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

    def wait_s(self, calls: float, reserve: float, now_s: float) -> float:
        """Return the seconds until these calls would leave ``reserve`` calls in the bucket; a
        bucket too small for both only has to be full.
        """
        needed_level = min(calls + max(reserve, 0.0), self.size)
        missing_calls = needed_level - self.at(now_s).level
        # Less than 1e-9 calls are a rounding error.
        return missing_calls / self.per_s if missing_calls > 1e-9 else 0.0

    def limited(self, size: float, per_s: float, now_s: float) -> Bucket:
        """Return the bucket with another size and refill. The calls that were used stay used, up to
        an empty bucket.
        """
        refilled = self.at(now_s)
        used_calls = refilled.size - refilled.level
        return Bucket(size, per_s, size - min(used_calls, size), refilled.at_s)

    def drained(self, calls: float, now_s: float) -> Bucket:
        """Return the bucket after calls that others have made. They empty it at most, and add no
        debt, since the scheduler has long answered them; an earlier debt stays.
        """
        refilled = self.at(now_s)
        lowest_level = min(refilled.level, 0.0)
        return replace(refilled, level=max(refilled.level - calls, lowest_level))


class CallBudget:
    """The bucket of one pilot. Its loop and the thread that polls the scheduler both use it.

    ``calls_per_minute`` is the pilot's own limit, ``elapsed_s`` a clock that never goes back.
    """

    def __init__(self, calls_per_minute: float, elapsed_s: Callable[[], float]) -> None:
        self._elapsed_s = elapsed_s
        self._lock = threading.Lock()
        # When the calls so far of a kind leave room for others of it: each call takes its own share
        # of the refill, so that a cheap one does not keep a look waiting as long as a look would.
        self._spaced_until_s: dict[CallKind, float] = {}
        # Limits as (size of the bucket, refill per second); the smaller ones count.
        self._site_limit = (math.inf, math.inf)
        self._own_limit = _own_limit(calls_per_minute)
        self._bucket = Bucket.full(*self._own_limit, elapsed_s())

    @property
    def is_limited(self) -> bool:
        """Whether the site's limit is stricter than the pilot's own."""
        site_size, site_per_s = self._site_limit
        own_size, own_per_s = self._own_limit
        return site_size < own_size or site_per_s < own_per_s

    @property
    def per_minute(self) -> float:
        return self._bucket.per_s * 60.0

    def wait_s(self, kind: CallKind, calls: float) -> float:
        """Return the seconds until these calls may be made; 0 if they may be made now."""
        if kind is CallKind.RELEASE:
            return 0.0
        with self._lock:
            bucket, now_s = self._bucket, self._elapsed_s()
            wait_s = bucket.wait_s(calls, _RESERVE[kind] * bucket.size, now_s)
            is_below_half = bucket.wait_s(calls, 0.5 * bucket.size, now_s) > 0.0
            if kind in _REFILL_FRACTION and is_below_half:
                wait_s = max(wait_s, self._spaced_until_s.get(kind, -math.inf) - now_s)
        return wait_s

    def spend(self, kind: CallKind, calls: float) -> None:
        """Take these calls from the bucket; they are made now."""
        with self._lock:
            now_s = self._elapsed_s()
            self._bucket = self._bucket.take(calls, now_s)
            if kind in _REFILL_FRACTION:
                begins_s = max(self._spaced_until_s.get(kind, -math.inf), now_s)
                spacing_s = calls / (_REFILL_FRACTION[kind] * self._bucket.per_s)
                self._spaced_until_s[kind] = begins_s + spacing_s

    def charge(self, calls: float) -> None:
        """Take from the bucket the calls that others have made with the pilot's allowance: workers'
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
        self._own_limit = _own_limit(calls_per_minute)
        self._apply_limits()

    def limit(self, size: float, per_s: float) -> None:
        """Set the site's limit, as the size and the refill per second of a bucket; infinite if it
        has none.
        """
        if self._site_limit != (size, per_s):
            self._site_limit = (size, per_s)
            self._apply_limits()

    def _apply_limits(self) -> None:
        """Give the bucket the smaller size and the smaller refill of the two limits."""
        with self._lock:
            size = min(self._own_limit[0], self._site_limit[0])
            per_s = min(self._own_limit[1], self._site_limit[1])
            self._bucket = self._bucket.limited(size, per_s, self._elapsed_s())


def _own_limit(calls_per_minute: float) -> tuple[float, float]:
    """Return the pilot's own limit as (size of the bucket, refill per second). The bucket holds the
    calls of ten seconds, and at least those of two looks.
    """
    return max(calls_per_minute / 6.0, 16.0), calls_per_minute / 60.0
