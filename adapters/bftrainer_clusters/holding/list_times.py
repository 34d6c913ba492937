"""When a holder asks the scheduler for its list. Frozen, pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from bftrainer.cluster.model import FragmentPhase
from bftrainer_clusters.holding.holder_fragment import HolderFragment
from bftrainer_clusters.holding.holder_jobs import HolderRules, HolderSettings

_ASK_OFTEN_FOR_S = 15.0


@dataclass(frozen=True, slots=True)
class ListTimes:
    """When the scheduler is asked for its list next. ``failure`` is what the latest try met,
    ``suspects`` whether a node at rest shows no job: it may have failed, and leaves no mark.
    """

    next_s: float
    failures: int = 0
    failure: str = ""
    has_listed: bool = False
    suspects: bool = False

    def is_due(self, moving: Iterable[HolderFragment], rules: HolderRules, now_s: float) -> bool:
        """Return whether to ask the scheduler for its list now. Lists are less frequent while all
        holders rest and none is suspected: the marks tell what happens.
        """
        if self.failures or not self.has_listed:
            return now_s >= self.next_s
        moving, poll_s = list(moving), rules.poll_s
        is_near = any(_is_about_to_change(held, rules.settings, now_s) for held in moving)
        if is_near and now_s >= self.next_s - poll_s + rules.traits.min_interval_s:
            return True
        rests = 0 if moving or self.suspects else rules.traits.polls_at_rest - 1
        return now_s >= self.next_s + rests * poll_s

    def failed(self, error: str, poll_s: float, asked_s: float, now_s: float) -> ListTimes:
        """Return the times after a list has failed. The states of fragments stay as they are;
        refusals quote the error, because the Scheduler port may not meet the same one.

        Before the first list, after two polls with answers, the caller takes a list that has not
        come for an empty one. So the next try is ``poll_s`` from the end of this one: a scheduler
        that hangs leaves the caller as much time as it takes.
        """
        next_s = (
            asked_s + poll_s * min(2.0**self.failures, 6.0) if self.has_listed else now_s + poll_s
        )
        return replace(self, next_s=next_s, failures=self.failures + 1, failure=error)

    def answered(self, poll_s: float, asked_s: float) -> ListTimes:
        return ListTimes(asked_s + poll_s, has_listed=True)


def _is_about_to_change(held: HolderFragment, settings: HolderSettings, now_s: float) -> bool:
    """Return whether a fragment is about to change in a way that only the scheduler's
    list shows.
    """
    unknown_end = held.phase is FragmentPhase.READY and held.fragment.ends_s is None
    soon = held.phase is FragmentPhase.LEAVING or unknown_end or held.is_late(settings, now_s)
    return soon and now_s - held.since_s < _ASK_OFTEN_FOR_S
