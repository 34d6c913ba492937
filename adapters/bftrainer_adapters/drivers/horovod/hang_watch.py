"""Finds hung workers: a stopped or stuck process fails nobody, and Horovod's driver would wait for it for ever. Pure."""

from __future__ import annotations

from dataclasses import dataclass

ARRIVED_S = 5.0
"""Workers leave a group within this of each other: Gloo's timeout has passed for all of them."""


@dataclass(slots=True)
class HangWatch:
    """Armed by the first progress line; a script that reports none is never taken for hung."""

    hang_s: float
    heard_s: float | None = None
    waiting_since_s: float | None = None

    def heard(self, now_s: float) -> None:
        """A progress line has come, or a group has been formed while armed."""
        self.heard_s = now_s

    def regrouped(self, now_s: float) -> None:
        """A new group: its first step may take a while."""
        self.waiting_since_s = None
        if self.heard_s is not None:
            self.heard_s = now_s

    def hung(self, stragglers: set[tuple[str, int]], others_wait: bool, now_s: float) -> set[tuple[str, int]]:
        """Workers to kill now.

        Where the others have left the group after an error and wait, the stragglers are known: they get a tenth of
        ``hang_s``, at least 5 s. Where nobody has, silence for ``hang_s`` makes all of them suspect.
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
