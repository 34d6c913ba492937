"""Finds workers that do not leave a group: survivors of a lost worker, and hung ones. Pure.

A stopped or stuck process reports no error, and Horovod's driver would wait for it forever.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

Key = tuple[str, int]
"""A worker: host label, slot."""

ARRIVED_S = 5.0
"""After an error all workers leave a group within this time: Gloo's timeout has passed for all of them."""
FREE_EVERY_S = 1.0
"""Between two notices to the same survivors; also how long workers that left without a loss wait for the others."""


@dataclass(slots=True)
class HangWatch:
    """Stragglers of a group, by ``hang_s``; a group of which all are silent has hung as a whole."""

    hang_s: float
    waiting_since_s: float | None = None
    member_lost: bool = False
    """Whether a worker of this group has ended on its own: those that have not left the group are its survivors."""
    _freed_s: float | None = None

    def regrouped(self) -> None:
        """Note a new group."""
        self.waiting_since_s = self._freed_s = None
        self.member_lost = False

    def must_free(self, stragglers: set[Key], others_wait: bool, now_s: float) -> bool:
        """Whether to tell the stragglers now that their group is broken: at once after a loss, then every second."""
        self._note_waiting(stragglers, others_wait, now_s)
        waiting_s = 0.0 if self.waiting_since_s is None else now_s - self.waiting_since_s
        if not stragglers or not (self.member_lost or waiting_s >= FREE_EVERY_S):
            return False
        if self._freed_s is not None and now_s - self._freed_s < FREE_EVERY_S:
            return False
        self._freed_s = now_s
        return True

    def hung(
        self, stragglers: set[Key], others_wait: bool, now_s: float, freed: AbstractSet[Key] = frozenset()
    ) -> set[Key]:
        """Workers to kill now.

        If the others have left the group after an error and wait, the stragglers get a tenth of ``hang_s``, at least 5 s.
        Survivors of a loss that answered the notice are alive and may be in a long step: they get ``hang_s``.
        """
        self._note_waiting(stragglers, others_wait, now_s)
        if self.waiting_since_s is not None and now_s - self.waiting_since_s >= max(ARRIVED_S, self.hang_s / 10):
            silent = stragglers - freed if self.member_lost else stragglers
            if silent or now_s - self.waiting_since_s >= self.hang_s:
                return silent or stragglers
        return set()

    def _note_waiting(self, stragglers: set[Key], others_wait: bool, now_s: float) -> None:
        if not (others_wait and stragglers):
            self.waiting_since_s = None
        elif self.waiting_since_s is None:
            self.waiting_since_s = now_s
