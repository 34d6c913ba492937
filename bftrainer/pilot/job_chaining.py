"""Job chaining: before the pilot's own job ends, its successor is submitted; then the pilot drains
as if told to end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from bftrainer.cluster.site_plugin import OwnJob
from bftrainer.config.in_effect import ConfigCell
from bftrainer.errors import BFTrainerError
from bftrainer.system.clock import Clock

NEAR_END_INTERVAL_S = 30.0
MIN_INTERVAL_S, MAX_INTERVAL_S = 300.0, 3600.0
"""Seconds between two questions while the end is far: each question is two calls to slurmctld, and
sites may allow a user four a minute.
"""
SPARE_S = 10.0


@dataclass(slots=True)
class JobChain:
    """Submits the successor of the pilot's job in time, and says when the pilot must drain.

    The loop calls :meth:`attend` in every tick; the scheduler is asked every few minutes or hours,
    near the end of the job every ``NEAR_END_INTERVAL_S``.
    """

    _job: OwnJob
    _config: ConfigCell
    _clock: Clock
    _note: Callable[[str], None]
    """Writes a line to the event log."""
    _successor: str = field(default="", init=False)
    _next_check_s: float = field(default=-math.inf, init=False)
    _end_s: float | None = field(default=None, init=False)
    _is_end_announced: bool = field(default=False, init=False)

    def mark_end_announced(self) -> None:
        """Take note that the scheduler has announced the end of the job; the notice comes even if
        the scheduler answers no questions.
        """
        self._is_end_announced, self._next_check_s = True, -math.inf

    def attend(self) -> bool:
        """Check the pilot's own job if it is time. Returns whether the pilot must begin to drain:
        to stop its trainers and release its nodes.

        Before that, the successor job is submitted once: ``times.hand_over_s`` before the job's
        end, or at the scheduler's notice. A failure is noted, and the next check tries again.
        """
        now_s = self._clock.now_s()
        if self._clock.elapsed_s() >= self._next_check_s:
            self._check_job(now_s)
            # Counted from the answer: where the scheduler lets the loop wait for it, most ticks do
            # not wait.
            self._next_check_s = self._clock.elapsed_s() + self._interval_s(now_s)
        # The scheduler has not said when the job ends; its notice is all that is known.
        if self._end_s is None:
            return self._is_end_announced
        return now_s >= self._end_s - self._config.now.times.shutdown_s - SPARE_S

    def _check_job(self, now_s: float) -> None:
        """Ask the scheduler when the pilot's own job ends, and submit its successor if it is due.
        An error is noted in the event log.
        """
        try:
            self._end_s = self._job.ends_s()
            if not self._successor and self._is_successor_due(now_s):
                self._successor = self._job.submit_successor()
                self._note(
                    f"successor job {self._successor} submitted; it waits for the end of this job"
                )
        except BFTrainerError as error:
            self._note(f"cannot check this job or submit its successor: {error}")

    def cancel_successor(self) -> None:
        """Cancel the successor, if one was submitted: the pilot was told to end."""
        successor, self._successor = self._successor, ""
        if successor:
            try:
                self._job.withdraw(successor)
                self._note(f"successor job {successor} canceled")
            except BFTrainerError as error:
                self._note(f"successor job {successor} cannot be canceled: {error}")

    def _interval_s(self, now_s: float) -> float:
        """Return the seconds until the scheduler is asked again for the end of the pilot's job.

        It is a quarter of the time that is left until the successor is due, within bounds. If the
        job's time limit is lowered by much meanwhile, the scheduler's notice says so
        (:meth:`mark_end_announced`).
        """
        if self._end_s is None:
            return NEAR_END_INTERVAL_S
        until_due_s = self._end_s - self._config.now.times.hand_over_s - now_s
        if until_due_s <= 2 * MIN_INTERVAL_S:
            return NEAR_END_INTERVAL_S
        return min(max(MIN_INTERVAL_S, until_due_s / 4), MAX_INTERVAL_S)

    def _is_successor_due(self, now_s: float) -> bool:
        return self._is_end_announced or (
            self._end_s is not None and now_s >= self._end_s - self._config.now.times.hand_over_s
        )
