"""Workers that need no peers, and fail: when each starts again, and when the fault is the node's or
the program's. Pure.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from bftrainer_drivers.common.membership import Member
from bftrainer_drivers.common.outcome import Exit, was_taken

PAUSE_S = 1.0
"""The pause before a worker is started again; doubled with each further failure of its member."""
LONGEST_PAUSE_S = 60.0
FORGET_S = 600.0
"""A failure that follows the one before after more than this time is the first of a succession."""
MAX_MEMBER_FAILURES = 2
"""Failures of one member in succession, until the others have to do without it."""


@dataclass(slots=True)
class Retries:
    """Which failed workers start again, and when."""

    in_succession: int = 0
    """Failures since a task was finished. While a worker of a member waits to be started again,
    further failures of this member do not count; lost workers never count.
    """
    last_failure_s: float = 0.0
    restart_s: dict[tuple[Member, int], float] = field(default_factory=dict)
    """(member, slot) to the time at which a worker is started there."""
    failures: Counter[Member] = field(default_factory=Counter)

    def copy(self) -> Retries:
        return Retries(
            self.in_succession, self.last_failure_s, {**self.restart_s}, Counter(self.failures)
        )

    def note_failure(self, member: Member, end: Exit, now_s: float) -> None:
        """Record that a worker failed, and when it is started again. The end of a preempted worker
        delays its member only: it says nothing about the program.
        """
        if now_s - self.last_failure_s > FORGET_S:
            self.in_succession, self.failures = 0, Counter()
        self.last_failure_s = now_s
        waiting_members = {waiting_member for waiting_member, _ in self.restart_s}
        if member not in waiting_members:
            self.failures[member] += 1
            if not was_taken(end.status):
                self.in_succession += 1
        pause_s = min(PAUSE_S * 2.0 ** (self.failures[member] - 1), LONGEST_PAUSE_S)
        self.restart_s[member, end.slot] = now_s + pause_s

    def is_bad(self, member: Member) -> bool:
        return self.failures[member] >= MAX_MEMBER_FAILURES

    def note_success(self, member: Member) -> None:
        """Record that a worker of the member has finished a task: its failures are forgotten."""
        self.in_succession = 0
        self.failures.pop(member, None)

    def forget(self, member: Member) -> None:
        """Start no worker of this member again: it is not used any more."""
        self.failures.pop(member, None)
        self.restart_s = {key: due_s for key, due_s in self.restart_s.items() if key[0] != member}

    def pop_due(self, now_s: float) -> list[tuple[Member, int]]:
        """Return where workers are to be started now, (member, slot), and forget these places."""
        due_keys = [key for key, due_s in self.restart_s.items() if due_s <= now_s]
        for key in due_keys:
            del self.restart_s[key]
        return due_keys
