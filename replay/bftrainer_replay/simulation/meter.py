"""Simulated measurements of a replayed trainer: its steady rates and stalls, with an error like
that of real ones.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from bftrainer.decide.domain.events import RateSeen, StallSeen
from bftrainer_replay.simulation.progress import CostModel, ReplayedTrainer

WINDOW_GROWTH = 0.25
"""Windows grow: each lasts at least this share of the time measured so far on the same nodes."""


@dataclass(slots=True)
class _Segment:
    """A trainer's time on one set of nodes, since its last rescale."""

    since_s: float
    """The time of that rescale."""
    grew: bool
    """The rescale added nodes."""
    until_s: float
    """The end of the last measured window."""
    measured: bool = False
    """At least one window has been measured, and the stall with it."""


@dataclass(slots=True)
class Meter:
    """Measures the trainers whose curves are learned. ``noise`` is the relative standard deviation
    of one window.
    """

    noise: float = 0.0
    seed: int = 0
    windows_s: dict[str, float] = field(default_factory=dict)
    _segments: dict[str, _Segment] = field(default_factory=dict)
    _sizes: dict[str, int] = field(default_factory=dict)
    _rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)  # seeded: a replay must be reproducible

    def add(self, trainer_id: str, window_s: float) -> None:
        """Measure this trainer in windows of at least ``window_s`` seconds."""
        self.windows_s[trainer_id] = window_s

    def read(
        self, runs: Mapping[str, ReplayedTrainer], at_s: float
    ) -> tuple[RateSeen | StallSeen, ...]:
        """Return the measurements of rates and stalls since the last call.

        A rate is measured over a window of time on the same nodes, after the stall of a rescale.
        Call it before the runs are changed at ``at_s``.
        """
        if not self.windows_s:
            return ()
        measurements: list[RateSeen | StallSeen] = []
        for name, run in runs.items():
            window_s = self.windows_s.get(name)
            if window_s is None or not run.nodes:
                continue
            segment = self._current_segment(name, run)
            steady_s = max(run.since_s, run.ready_s)
            begin_s = max(steady_s, segment.until_s)
            # On the same nodes, windows become longer: a long run needs no more measurements.
            shortest_s = max(window_s, WINDOW_GROWTH * (at_s - steady_s))
            if at_s - begin_s < shortest_s:
                continue
            if not segment.measured and run.ready_s > run.since_s:
                measurements.append(self._measured_stall(name, segment.grew, run))
            rate = self._with_noise(run.rate)
            measurements.append(RateSeen(name, run.nodes, rate, at_s - begin_s))
            segment.until_s = at_s
            segment.measured = True
        return tuple(measurements)

    def _measured_stall(self, name: str, grew: bool, run: ReplayedTrainer) -> StallSeen:
        """Return the measured cost of the last rescale.

        Where new workers started beside training ones (cost model ``overlap``), it has two parts:
        their start, and the stall at the switch. ``grew`` tells whether the rescale added nodes.
        """
        if run.cost_model is not CostModel.OVERLAP:
            return StallSeen(name, grew, self._with_noise(run.ready_s - run.since_s))
        if not math.isfinite(run.switch_s):  # nothing started
            return StallSeen(name, False, self._with_noise(run.ready_s - run.since_s))
        start_s = run.switch_s - run.since_s
        switch_s = run.ready_s - max(run.switch_s, run.stalled_until_s)
        return StallSeen(name, True, self._with_noise(switch_s), self._with_noise(start_s))

    def _current_segment(self, name: str, run: ReplayedTrainer) -> _Segment:
        """Return the trainer's segment; after a rescale, a new one."""
        segment = self._segments.get(name)
        if segment is None or segment.since_s != run.since_s:
            segment = _Segment(run.since_s, run.nodes > self._sizes.get(name, 0), run.since_s)
            self._segments[name] = segment
            self._sizes[name] = run.nodes
        return segment

    def forget(self, trainer_id: str) -> None:
        """Measure this trainer no more."""
        for table in (self.windows_s, self._segments, self._sizes):
            table.pop(trainer_id, None)

    def _with_noise(self, value: float) -> float:
        """Return a measurement of ``value``; its error leaves at least a tenth of the value."""
        if not self.noise:
            return value
        return value * max(1.0 + self._rng.gauss(0.0, self.noise), 0.1)
