"""The pilot's own time: that of the host when the pilot started, and from then on what has really
passed.

Node-hours, time-outs, timers of policies and windows are differences of times. If the host's clock
is set while the pilot runs, they must not change: an hour forward is no hour of training. What
users and other hosts read is the host's time (:meth:`SteadyClock.to_host`).
"""

from __future__ import annotations

from bftrainer.system.clock import Clock
from bftrainer.times import ElapsedS, HostS, PilotS


class SteadyClock:
    """The clocks of a pilot, over the Clock port."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset_s = clock.now_s() - clock.elapsed_s()

    def now_s(self) -> PilotS:
        """Seconds since the epoch, by the host's clock as it was when the pilot started."""
        return PilotS(self._offset_s + self._clock.elapsed_s())

    def host_s(self) -> HostS:
        """Seconds since the epoch, by the host's clock as it is now."""
        return self._clock.now_s()

    def elapsed_s(self) -> ElapsedS:
        return self._clock.elapsed_s()

    def sleep(self, seconds: float) -> None:
        self._clock.sleep(seconds)

    @property
    def step_s(self) -> float:
        """By how many seconds the host's clock has been set since the pilot started."""
        return self.host_s() - self.now_s()

    def to_host(self, at_s: PilotS) -> HostS:
        """Return a time of the pilot's clock as the host's clock shows it now."""
        step_s = self.step_s  # two clocks that are read one after the other differ a little
        return HostS(at_s + step_s if abs(step_s) > 1.0 else at_s)
