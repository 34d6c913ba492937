"""Which users' pilots release their holders for main jobs. Any user may start jobs that look like
holders: all holders of a user who does not release one in time count as main jobs for a while.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bftrainer.decide.yielding.facts import WaitingQueue, YieldRules
from bftrainer.decide.yielding.offers import Offer
from bftrainer.decide.yielding.pool import user_of
from bftrainer.times import PilotS

STRANGER_S = 2.0
"""Beyond a look, the holders of a user who has released none for a job before are waited for so
long. Pilots of users who have are given their trainers' time to leave.
"""
DISTRUST_S = 60.0
"""The holders of a user count as main jobs for so long at least after one was not released in
time.
"""


@dataclass(frozen=True, slots=True)
class LateHolder:
    """A holder that was not released in time, seen to be late at ``first_s`` and at ``last_s``."""

    user: str
    job: str
    node: str
    first_s: PilotS
    last_s: PilotS


@dataclass(frozen=True, slots=True)
class UserTrust:
    """``unresponsive``: holders that were not released in time. All holders of their users count
    as main jobs. ``responsive``: users who have released nodes for a job.
    """

    unresponsive: tuple[LateHolder, ...] = ()
    responsive: frozenset[str] = frozenset()

    @property
    def distrusted(self) -> frozenset[str]:
        """The users whose holders count as main jobs."""
        return frozenset(late.user for late in self.unresponsive)

    def after_look(
        self, offers: Iterable[Offer], queue: WaitingQueue, rules: YieldRules
    ) -> UserTrust:
        """Return the holders that should have left by now, and the users who have released nodes,
        after a look.

        A node counts as released when no holder of its user runs there: the clock of a user goes on
        while other holders take the place of the first.
        """
        staying = [holder for holder in queue.holders if not holder.is_leaving]
        user_on = {holder.node: user_of(holder) for holder in staying}
        running = {holder.job for holder in staying}
        trusted = self.responsive | {rules.own_pilot.partition("/")[0]}
        responsive = set(self.responsive)
        late: dict[tuple[str, str], LateHolder] = {}
        for before in self.unresponsive:
            is_released = user_on.get(before.node) != before.user
            if is_released and queue.at_s - before.first_s <= rules.notice_s + rules.poll_s:
                responsive.add(before.user)
            elif before.job in running or queue.at_s - before.last_s < DISTRUST_S:
                late[before.user, before.job] = before
        for offer in offers:
            age_s = queue.at_s - offer.awaited_s
            for holder in sorted(offer.awaited, key=lambda holder: (holder.job, holder.node)):
                user = user_of(holder)
                if user_on.get(holder.node) != user:
                    responsive.add(user)
                elif age_s >= _patience_s(user in trusted, rules):
                    first = late.get((user, holder.job))
                    first_s = queue.at_s if first is None else first.first_s
                    entry = LateHolder(user, holder.job, holder.node, first_s, queue.at_s)
                    late[user, holder.job] = entry
        unresponsive = tuple(late[key] for key in sorted(late))
        users = frozenset(entry.user for entry in unresponsive)
        return UserTrust(unresponsive, frozenset(responsive) - users)


def _patience_s(is_responsive: bool, rules: YieldRules) -> float:
    """Return for how long a user's holders are waited for after they should have been released."""
    if is_responsive:
        return rules.notice_s + 2.0 * rules.poll_s
    return rules.poll_s + STRANGER_S
