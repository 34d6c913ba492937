"""How long each tick of the loop takes, and which part of it: a node waits for its release as long as the longest tick."""

from __future__ import annotations

import math
from collections.abc import Callable

from bftrainer.domain.ports import Clock
from bftrainer.live.facts import Fact, TickStage, TickTook

SLOW_S = 5.0
_NOTE_AGAIN_S = 600.0


class TickTimer:
    """Divides the time between two sleeps into stages. ``tell`` hears of every tick, ``note`` now and then of a slow one."""

    def __init__(self, clock: Clock, tell: Callable[[Fact], None], note: Callable[[str], None]) -> None:
        self._clock = clock
        self._tell = tell
        self._note = note
        self._since_s = clock.elapsed_s()
        self._passed: dict[TickStage, float] = {}
        self._noted_s = -math.inf

    def passed(self, stage: TickStage) -> None:
        """The time since the last call was for this stage."""
        now_s = self._clock.elapsed_s()
        self._passed[stage] = self._passed.get(stage, 0.0) + now_s - self._since_s
        self._since_s = now_s

    def ends(self) -> None:
        """The tick is over: the pilot is about to sleep, or to look again."""
        took = TickTook(self._clock.now_s(), tuple(self._passed.items()))
        self._passed = {}
        self._tell(took)
        if took.whole_s >= SLOW_S and self._clock.elapsed_s() - self._noted_s >= _NOTE_AGAIN_S:
            self._noted_s = self._clock.elapsed_s()
            stage, seconds = took.largest
            self._note(f"a tick took {took.whole_s:.1f} s, {seconds:.1f} s of it for {stage.value}")

    def begins(self) -> None:
        """The pilot has slept."""
        self._since_s = self._clock.elapsed_s()
