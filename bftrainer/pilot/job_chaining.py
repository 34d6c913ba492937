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

AGAIN_S = 30.0
RARELY_S, MOST_S = 300.0, 3600.0
"""Seconds between two questions while the end is far: each question is two calls to slurmctld, and
sites may allow a user four a minute.
"""
SPARE_S = 10.0


@dataclass(slots=True)
class JobChain:
    """Submits the successor of the pilot's job in time, and tells when the pilot must drain. The
    loop asks it in every tick; it asks the scheduler every few minutes or hours, near the end every
    ``AGAIN_S``.
    """

    _job: OwnJob
    _config: ConfigCell
    _clock: Clock
    _note: Callable[[str], None]
    _successor: str = field(default="", init=False)
    _next_look_s: float = field(default=-math.inf, init=False)
    _ends_s: float | None = field(default=None, init=False)
    _warned: bool = field(default=False, init=False)

    def warn(self) -> None:
        """Take note that the scheduler has announced the end of the job; the notice comes even if
        the scheduler answers no questions.
        """
        self._warned, self._next_look_s = True, -math.inf

    def is_time_to_end(self) -> bool:
        """Whether the pilot must begin to drain. Before that, the successor is submitted once:
        ``times.hand_over_s`` before the job's end, or at the scheduler's notice.
        """
        now_s, elapsed_s = self._clock.now_s(), self._clock.elapsed_s()
        if elapsed_s >= self._next_look_s:
            try:
                self._ends_s = self._job.ends_s()
                if not self._successor and self._is_due(now_s):
                    self._successor = self._job.submit_successor()
                    self._note(
                        f"successor job {self._successor} submitted; it waits for the end of "
                        "this job"
                    )
            except BFTrainerError as error:
                self._note(f"cannot check this job or submit its successor: {error}")
            # After the answer: where the scheduler lets the loop wait for it, most ticks do not
            # wait.
            self._next_look_s = self._clock.elapsed_s() + self._rest_s(now_s)
        if self._ends_s is None:
            return self._warned
        return now_s >= self._ends_s - self._config.now.times.shutdown_s - SPARE_S

    def call_off(self) -> None:
        """Cancel the successor: the pilot was told to end."""
        successor, self._successor = self._successor, ""
        if successor:
            try:
                self._job.withdraw(successor)
                self._note(f"successor job {successor} canceled")
            except BFTrainerError as error:
                self._note(f"successor job {successor} cannot be canceled: {error}")

    def _rest_s(self, now_s: float) -> float:
        """Return the seconds until the scheduler is asked again: the longer, the further off the
        end is. If the job's time limit is lowered by much meanwhile, the scheduler's notice tells
        (:meth:`warn`).
        """
        if self._ends_s is None:
            return AGAIN_S
        far_s = self._ends_s - self._config.now.times.hand_over_s - now_s
        return AGAIN_S if far_s <= 2 * RARELY_S else min(max(RARELY_S, far_s / 4), MOST_S)

    def _is_due(self, now_s: float) -> bool:
        return self._warned or (
            self._ends_s is not None and now_s >= self._ends_s - self._config.now.times.hand_over_s
        )
