"""A limit of the scheduler on the pilot's jobs. It is the pilot's, not a node's: no node is backed off for it.

After a refusal the pilot waits, twice as long each time up to :data:`MOST_S`, and then tries one holder. When one is ready, it
tries as many as it likes: the limit may have been lifted, or its other jobs have ended.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bftrainer_adapters.holding.failure_backoff import FailureBackoff

MOST_S = 60.0
_NAME = "limit"


@dataclass
class JobLimit:
    """``words`` are the scheduler's; empty while no limit is known."""

    words: str = ""
    _waits: FailureBackoff = field(default_factory=lambda: FailureBackoff(5.0, MOST_S))

    def reached(self, words: str, now_s: float) -> float:
        """A limit was met; the seconds to wait. Holders of one round that meet it together count once."""
        waiting_s = self._waits.wait_s(_NAME, now_s)
        self.words = words
        return waiting_s or self._waits.failed(_NAME, now_s)

    def lifted(self) -> None:
        """A holder is ready."""
        self.words = ""
        self._waits.succeeded(_NAME)

    def wait_s(self, now_s: float) -> float:
        """Seconds until one more may be tried."""
        return self._waits.wait_s(_NAME, now_s)
