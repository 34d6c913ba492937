"""Why a request for a node is refused before a holder is submitted: limits, caps, windows, back-offs. No I/O."""

from __future__ import annotations

from collections.abc import Callable

from bftrainer.domain.cluster import NodeRequest, Refusal
from bftrainer_adapters.holding.failure_backoff import FailureBackoff
from bftrainer_adapters.holding.holder_jobs import HolderSettings
from bftrainer_adapters.holding.job_limit import JobLimit
from bftrainer_adapters.holding.node_times import NodeTimes
from bftrainer_adapters.holding.submission_cap import SubmissionCap


class HolderAdmission:
    """What has been learned from submissions, failures and starts. ``table`` names the settings in messages."""

    def __init__(self, settings: HolderSettings, table: str, is_limit: Callable[[str], bool], times: NodeTimes) -> None:
        self.settings = settings
        self._table = table
        self._is_limit = is_limit
        self._nodes = FailureBackoff(settings.back_off_s, settings.back_off_most_s)
        self._limit = JobLimit()
        self._times = times
        self._cap = SubmissionCap()

    def is_suspect(self, node: str) -> bool:
        """Whether the latest holder there has failed: the next one is for this node alone."""
        return self._nodes.has_failed(node)

    def reason_against(self, request: NodeRequest, is_held: bool, waiting: int | None, now_s: float) -> Refusal | None:
        """Why no holder is submitted, with ``waiting`` holders pending; None if one may be.

        Without ``waiting``: why the node may not join others in a holder that is submitted.
        """
        settings, node = self.settings, request.node
        if is_held:
            return Refusal(node, "already held")
        if waiting is not None and (refusal := self._reason_against_another(node, waiting, now_s)):
            return refusal
        if words := self._times.why_too_short(request, settings.longest_s):
            return Refusal(node, words, max(request.window_s, 0.0))
        wait_s = self._nodes.wait_s(node, now_s)
        return Refusal(node, "backing off after a failure", wait_s) if wait_s else None

    def _reason_against_another(self, node: str, waiting: int, now_s: float) -> Refusal | None:
        """Limits and caps on holders, whatever the node."""
        settings = self.settings
        if waiting >= settings.max_pending:
            return Refusal(node, f"{waiting} holders are already pending ({self._table}.max_pending)")
        if self._limit.words and (waiting or self._limit.wait_s(now_s)):
            return Refusal(node, f"a limit on the pilot's jobs: {self._limit.words}", self._limit.wait_s(now_s))
        if wait_s := self._cap.wait_s(settings.submissions_per_hour, now_s):
            words = f"{settings.submissions_per_hour} holders in the last hour ({self._table}.submissions_per_hour)"
            return Refusal(node, words, wait_s)
        return None

    def submitted(self, now_s: float) -> None:
        """A holder is being submitted."""
        self._cap.submitted(now_s)

    def not_submitted(self) -> None:
        """The submission failed."""
        self._cap.withdraw()

    def failed(self, node: str, reason: str, now_s: float) -> float:
        """A submission failed, or a holder did not start. Seconds to wait: a limit on jobs is no failure of the node."""
        if self._is_limit(reason):
            return self._limit.reached(reason, now_s)
        return self._nodes.failed(node, now_s)

    def ready(self, node: str, took_s: float | None, node_class: str) -> None:
        """A holder is ready; ``took_s`` after its submission, if that is known."""
        self._nodes.succeeded(node)
        self._limit.lifted()
        if took_s is not None:
            self._times.started(node_class, took_s)
