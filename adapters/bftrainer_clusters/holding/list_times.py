"""When a holder asks the scheduler for the list of the pilot's jobs. Frozen, pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from bftrainer.cluster.model import FragmentPhase
from bftrainer_clusters.holding.holder_fragment import HolderFragment
from bftrainer_clusters.holding.holder_jobs import HolderRules, HolderSettings

_ASK_OFTEN_FOR_S = 15.0
"""For how long after the latest change of a fragment the list is asked for more often."""
_MAX_DELAY = 6.0
"""The longest wait after failures, in polls."""


@dataclass(frozen=True, slots=True)
class ListTimes:
    """When the scheduler is asked for its job list next. All times are elapsed seconds."""

    next_s: float
    failures: int = 0
    """Lists that have failed since the last answer."""
    failure: str = ""
    """The error of the latest of them."""
    has_listed: bool = False
    """Whether the scheduler has answered since the pilot's start."""
    suspects: bool = False
    """Whether a node with a holder at rest shows no job: it may have failed, and leaves no mark."""

    def is_due(self, moving: Iterable[HolderFragment], rules: HolderRules, now_s: float) -> bool:
        """Return whether to ask the scheduler for its job list now. ``moving`` are the fragments
        that are not at rest.

        Lists are more frequent while only a list can show the next change of a fragment, and less
        frequent while all holders rest and none is suspected: then the payloads' marks show it.
        """
        if self.failures or not self.has_listed:
            return now_s >= self.next_s
        moving_fragments = list(moving)
        latest_list_s = self.next_s - rules.poll_s
        if now_s >= latest_list_s + rules.traits.min_interval_s and any(
            _is_about_to_change(fragment, rules.settings, now_s) for fragment in moving_fragments
        ):
            return True
        if moving_fragments or self.suspects:
            return now_s >= self.next_s
        return now_s >= self.next_s + (rules.traits.polls_at_rest - 1) * rules.poll_s

    def failed(self, error: str, poll_s: float, asked_s: float, now_s: float) -> ListTimes:
        """Return the times after a list that was asked for at ``asked_s`` has failed at ``now_s``.
        The states of fragments stay as they are; refusals quote the error, because the Scheduler
        port may not meet the same one.

        Before the first list, after two polls with answers, the caller takes a list that has not
        come for an empty one. So the next try is ``poll_s`` from the end of this one: a scheduler
        that hangs leaves the caller as much time as it takes.
        """
        next_s = now_s + poll_s
        if self.has_listed:
            next_s = asked_s + poll_s * min(2.0**self.failures, _MAX_DELAY)
        return replace(self, next_s=next_s, failures=self.failures + 1, failure=error)

    def answered(self, poll_s: float, asked_s: float) -> ListTimes:
        """Return the times after an answer; no holder is suspected any more."""
        return ListTimes(asked_s + poll_s, has_listed=True)


def _is_about_to_change(fragment: HolderFragment, settings: HolderSettings, now_s: float) -> bool:
    """Return whether a fragment is about to change in a way that only the scheduler's job list
    shows: its job ends, its end becomes known, or it should have started. A change that has not
    come within _ASK_OFTEN_FOR_S is not asked for more often.
    """
    is_leaving = fragment.phase is FragmentPhase.LEAVING
    lacks_end = fragment.phase is FragmentPhase.READY and fragment.fragment.ends_s is None
    awaits_list = is_leaving or lacks_end or fragment.is_late(settings, now_s)
    return awaits_list and now_s - fragment.since_s < _ASK_OFTEN_FOR_S
