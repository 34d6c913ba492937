"""Node-seconds by trainer: held, trained (rank 0 has reported since the last change of size) and stalled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from bftrainer.domain.times import PilotS
from bftrainer.live.trainers.steps import TrainerState
from bftrainer.persistence.registry import Usage
from bftrainer.protocol.metrics import Metric


class Reached(NamedTuple):
    """What a trainer has reached, as it says."""

    samples: float
    metrics: tuple[Metric, ...]


@dataclass(slots=True)
class UsageBook:
    """Node-seconds since they were last written to the registry."""

    accounted_s: PilotS
    _booked: dict[str, list[float]] = field(default_factory=dict)  # node-seconds held, trained; samples repeated
    _written: dict[str, tuple[Metric, ...]] = field(default_factory=dict)

    def account(self, states: Mapping[str, TrainerState], now_s: PilotS) -> None:
        """Count the time since the last call."""
        passed_s, self.accounted_s = max(now_s - self.accounted_s, 0.0), now_s
        for name, it in states.items():
            if not it.view.alive:
                continue
            booked = self._booked.setdefault(name, [0.0] * 3)
            node_s = len(it.ordered) * passed_s
            booked[0] += node_s
            # For a program that reports nothing, what its driver says counts.
            if it.view.trains or (it.view.on and it.view.heard_s == 0):
                booked[1] += node_s

    def repeated(self, name: str, samples: float) -> None:
        """A trainer processes these samples again."""
        self._booked.setdefault(name, [0.0] * 3)[2] += samples

    def taken(self, reached: Mapping[str, Reached]) -> tuple[Usage, ...]:
        """Remove and return the usage of these trainers, with what they have reached. The caller writes it."""
        found = []
        for name, (samples, metrics) in reached.items():
            changed = metrics if metrics and metrics is not self._written.get(name, ()) else ()
            if name in self._booked or changed:
                held, trained, repeated = self._booked.pop(name, (0.0, 0.0, 0.0))
                self._written[name] = metrics
                found.append(Usage(name, samples, held, trained, held - trained, changed, repeated))
        return tuple(found)

    def forget(self, name: str) -> None:
        """The trainer is over."""
        self._written.pop(name, None)
