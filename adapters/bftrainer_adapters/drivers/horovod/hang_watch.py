"""Finds hung workers: a stopped or stuck process reports no error, and Horovod's driver would wait for it forever. Pure."""

from __future__ import annotations

from dataclasses import dataclass

ARRIVED_S = 5.0
"""After an error all workers leave a group within this time: Gloo's timeout has passed for all of them."""


@dataclass(slots=True)
class HangWatch:
    """Armed by the first progress line; the workers of a script that reports nothing never count as hung."""

    hang_s: float
    heard_s: float | None = None
    waiting_since_s: float | None = None

    def heard(self, now_s: float) -> None:
        """Note a progress line."""
        self.heard_s = now_s

    def regrouped(self, now_s: float) -> None:
        """Note a new group, whose first step may take a while."""
        self.waiting_since_s = None
        if self.heard_s is not None:
            self.heard_s = now_s

    def hung(self, stragglers: set[tuple[str, int]], others_wait: bool, now_s: float) -> set[tuple[str, int]]:
        """Workers to kill now.

        If the others have left the group after an error and wait, the stragglers get a tenth of ``hang_s``, at least 5 s.
        If nobody has left, all workers count as hung after a silence of ``hang_s``.
        """
        if not (others_wait and stragglers):
            self.waiting_since_s = None
        elif self.waiting_since_s is None:
            self.waiting_since_s = now_s
        if self.waiting_since_s is not None and now_s - self.waiting_since_s >= max(ARRIVED_S, self.hang_s / 10):
            return stragglers
        if self.heard_s is not None and now_s - self.heard_s >= self.hang_s:
            return stragglers
        return set()
