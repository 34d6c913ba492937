"""How long each tick of the loop takes, and which part of it: a node waits for its release as long
as the longest tick.
"""

from __future__ import annotations

import math

from bftrainer.pilot.facts import TickStage
from bftrainer.pilot.recorder import Recorder
from bftrainer.pilot.steady_clock import SteadyClock

SLOW_S = 5.0
_NOTE_AGAIN_S = 600.0


class TickTimer:
    """Divides the time between two sleeps into stages. A slow tick is noted, now and then."""

    def __init__(self, clock: SteadyClock, recorder: Recorder) -> None:
        self._clock = clock
        self._recorder = recorder
        self._stage_start_s = clock.elapsed_s()
        self._stage_s: dict[TickStage, float] = {}
        self._last_note_s = -math.inf

    def passed(self, stage: TickStage) -> None:
        """Count the time since the last call, or since the tick began, for this stage."""
        now_s = self._clock.elapsed_s()
        self._stage_s[stage] = self._stage_s.get(stage, 0.0) + now_s - self._stage_start_s
        self._stage_start_s = now_s

    def ends(self) -> None:
        """Record the round of the loop (tick) that is over: the pilot is about to sleep, or to
        begin the next one.

        A slow tick is noted in the event log, unless one was noted less than ``_NOTE_AGAIN_S`` ago.
        """
        took = self._recorder.tick(tuple(self._stage_s.items()))
        self._stage_s = {}
        if took.total_s >= SLOW_S and self._clock.elapsed_s() - self._last_note_s >= _NOTE_AGAIN_S:
            self._last_note_s = self._clock.elapsed_s()
            stage, seconds = took.longest_stage
            self._recorder.note(
                "slow tick",
                "",
                f"a tick took {took.total_s:.1f} s, {seconds:.1f} s of it for {stage.value}",
            )

    def begins(self) -> None:
        """Begin a tick after the pilot has slept: the time of sleep counts for no stage."""
        self._stage_start_s = self._clock.elapsed_s()
