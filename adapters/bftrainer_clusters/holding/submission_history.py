"""The history of a pilot's submissions, and why a request for a node is refused because of it.
Frozen, pure.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from bftrainer.cluster.model import NodeRequest, Refusal
from bftrainer.counted import counted
from bftrainer_clusters.holding.holder_jobs import HolderRules, HolderSettings
from bftrainer_clusters.holding.node_times import NodeTimes

HOUR_S = 3600.0
LIMIT_WAITS_S = (5.0, 60.0)
"""First and longest wait for a limit on the pilot's jobs."""


@dataclass(frozen=True, slots=True)
class HolderStarted:
    """A holder has started: its payload was ready ``took_s`` after the submission (None: a
    predecessor has submitted it).
    """

    node: str
    node_class: str
    took_s: float | None


@dataclass(frozen=True, slots=True)
class HolderFailed:
    """A submission failed, or a holder did not start, for the scheduler's ``reason``."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class HolderEnded:
    """A holder has ended: its job was over ``took_s`` after its payload's end, or its release."""

    node_class: str
    took_s: float


HolderOutcome = HolderStarted | HolderFailed | HolderEnded


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential back-off: waits of ``first_s``, twice that, ... up to ``most_s``, each up to 10 %
    longer or shorter, by the node's name. ``until_s``: the end of the wait, in elapsed seconds.

    Not the NodeBackoff of bftrainer/pilot/nodes: that one counts preemptions soon after a start,
    this one counts failures of commands and holders, and its waits reach the pilot as
    ``Refusal.retry_s``.
    """

    failures: int = 0
    until_s: float = 0.0

    def failed(self, name: str, first_s: float, most_s: float, now_s: float) -> Backoff:
        """Return the back-off after one more failure at ``now_s`` of the node ``name``. The name
        decides how much longer or shorter the wait is.
        """
        spread = 0.9 + 0.2 * (zlib.crc32(f"{name} {self.failures}".encode()) % 1001) / 1000
        wait_s = min(first_s * 2.0 ** min(self.failures, 30), most_s) * spread
        return Backoff(self.failures + 1, now_s + wait_s)

    def wait_s(self, now_s: float) -> float:
        return max(self.until_s - now_s, 0.0)


@dataclass(frozen=True, slots=True)
class SubmissionHistory:
    """What has become of a pilot's submissions. ``sent_s`` are the times of the submissions of the
    last hour, oldest first; ``backoffs`` are the waits of nodes whose latest holder has failed.

    ``limit`` are the scheduler's words for a limit on the pilot's jobs (empty: none is known). A
    limit is the pilot's, not a node's. After it was met the pilot waits, twice as long each time,
    and then tries one holder; when one is ready, it tries as many as it likes: the limit may have
    been lifted, or its other jobs have ended. A pilot that starts again begins with the ``times``
    only.
    """

    times: NodeTimes = field(default_factory=NodeTimes)
    sent_s: tuple[float, ...] = ()
    backoffs: Mapping[str, Backoff] = field(default_factory=dict)
    limit: str = ""
    limit_wait: Backoff = Backoff()

    def sent(self, n_jobs: int, now_s: float) -> SubmissionHistory:
        """Return the history after ``n_jobs`` holders were submitted at ``now_s``."""
        last_hour_s = [at_s for at_s in self.sent_s if now_s - at_s < HOUR_S]
        return replace(self, sent_s=(*last_hour_s, *[now_s] * n_jobs))

    def after(self, outcome: HolderOutcome, rules: HolderRules, now_s: float) -> SubmissionHistory:
        """Return the history after a holder has started, failed or ended. A holder that has started
        ends the back-off of its node, and the wait for a limit; one that has failed begins or
        lengthens either.
        """
        match outcome:
            case HolderStarted(node, node_class, took_s):
                others = {name: backoff for name, backoff in self.backoffs.items() if name != node}
                times = self.times if took_s is None else self.times.started(node_class, took_s)
                return replace(self, times=times, backoffs=others, limit="", limit_wait=Backoff())
            case HolderFailed(_, reason) if rules.is_limit(reason):
                limit_wait = self.limit_wait
                # Holders of one round that fail at the limit together count as one failure.
                if not limit_wait.wait_s(now_s):
                    limit_wait = limit_wait.failed("", *LIMIT_WAITS_S, now_s)
                return replace(self, limit=reason, limit_wait=limit_wait)
            case HolderFailed(node, _):
                previous = self.backoffs.get(node, Backoff())
                backoff = previous.failed(
                    node, rules.settings.back_off_s, rules.settings.back_off_most_s, now_s
                )
                return replace(self, backoffs={**self.backoffs, node: backoff})
            case HolderEnded(node_class, took_s):
                return replace(self, times=self.times.ended(node_class, took_s))

    def observed(self, without_a_job: frozenset[str]) -> SubmissionHistory:
        """Return the history without the back-offs of nodes that have a job now: that job was
        faster than the holder, which is no failure of the node. ``without_a_job``: the nodes on
        which the latest poll has shown no job.
        """
        if self.backoffs.keys() <= without_a_job:
            return self
        idle = {name: backoff for name, backoff in self.backoffs.items() if name in without_a_job}
        return replace(self, backoffs=idle)

    def wait_s(self, failed: HolderFailed, rules: HolderRules, now_s: float) -> float:
        """Return the seconds to wait after a failure, which this history includes already."""
        backoff = self.limit_wait if rules.is_limit(failed.reason) else self.backoffs[failed.node]
        return backoff.wait_s(now_s)

    def cap_wait_s(self, hourly_cap: int | None, n_new_jobs: int, now_s: float) -> float:
        """Return the seconds until one more holder may be submitted, if ``n_new_jobs`` holders are
        submitted now and at most ``hourly_cap`` in any hour; 0 without a cap.
        """
        sent_s = self.sent(n_new_jobs, now_s).sent_s
        if hourly_cap is None or len(sent_s) < hourly_cap:
            return 0.0
        # The next submission has to wait until this one is an hour old.
        blocking_s = sent_s[len(sent_s) - hourly_cap]
        return blocking_s - now_s + HOUR_S  # in this order never above HOUR_S

    def why_not(
        self, request: NodeRequest, settings: HolderSettings, now_s: float
    ) -> Refusal | None:
        """Return why no holder is submitted on this node now; None if one may be. The reasons are
        the node's own: its window, and failures of its holders.
        """
        if words := self.times.why_too_short(request, settings.longest_s):
            # The window stays too short until its end.
            return Refusal(request.node, words, retry_s=max(request.window_s, 0.0))
        wait_s = self.backoffs.get(request.node, Backoff()).wait_s(now_s)
        return Refusal(request.node, "backing off after a failure", wait_s) if wait_s else None

    def why_no_other(
        self, node: str, rules: HolderRules, n_pending_jobs: int, n_new_jobs: int, now_s: float
    ) -> Refusal | None:
        """Return why no further holder is submitted, whatever the node; None if one may be.

        ``node`` is only named in the refusal. ``n_pending_jobs`` holders have not started, and
        ``n_new_jobs`` are about to be submitted.
        """
        settings, table = rules.settings, rules.traits.table
        n_waiting_jobs = n_pending_jobs + n_new_jobs
        if n_waiting_jobs >= settings.max_pending:
            return Refusal(
                node,
                f"{counted(n_waiting_jobs, 'holder is', 'holders are')} already pending "
                f"({table}.max_pending)",
            )
        limit_wait_s = self.limit_wait.wait_s(now_s)
        # After a limit was met, one holder at a time tries whether it still holds.
        if self.limit and (n_waiting_jobs or limit_wait_s):
            return Refusal(node, f"a limit on the pilot's jobs: {self.limit}", limit_wait_s)
        if wait_s := self.cap_wait_s(settings.submissions_per_hour, n_new_jobs, now_s):
            words = (
                f"{settings.submissions_per_hour} holders in the last hour "
                f"({table}.submissions_per_hour)"
            )
            return Refusal(node, words, wait_s)
        return None
