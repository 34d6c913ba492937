"""Whether the site allows this pilot to hold nodes, and what the log of events says of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from bftrainer.cluster.model import HoldingPermit
from bftrainer.times import ElapsedS

REFUSED, ALLOWED, ACCEPTED = "refused", "allowed", "accepted"
"""Kinds of notes."""
REPEAT_S = 86_400.0


@dataclass
class HoldingPermission:
    """The site's latest answer, and what was noted of the answers before it."""

    ask: Callable[[], HoldingPermit]
    now: HoldingPermit = field(default_factory=HoldingPermit)
    _repeat_s: float = -math.inf

    def look(self, elapsed_s: ElapsedS) -> Iterator[tuple[str, str]]:
        """Take the site's answer; (kind, text) of the notes that it is worth.

        A refusal, and what the user has accepted, are noted when they change, and every day.
        """
        before, self.now = self.now, self.ask()
        is_repeated = elapsed_s >= self._repeat_s
        if is_repeated:
            self._repeat_s = elapsed_s + REPEAT_S
        if self.now.refusal and (is_repeated or self.now.refusal != before.refusal):
            yield REFUSED, f"no node is held: {self.now.refusal}"
        if before.refusal and not self.now.refusal:
            yield ALLOWED, "nodes may be held again"
        if is_repeated or self.now.remarks != before.remarks:
            for remark in self.now.remarks:
                yield ACCEPTED, remark
