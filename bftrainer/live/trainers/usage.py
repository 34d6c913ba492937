"""Node-seconds by trainer: held, trained (rank 0 has reported since the last change of size) and stalled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bftrainer.live.trainers.steps import TrainerState
from bftrainer.persistence.registry import Usage


@dataclass(slots=True)
class UsageBook:
    """Node-seconds since they were last written to the registry."""

    accounted_s: float
    _booked: dict[str, list[float]] = field(default_factory=dict)  # held, trained

    def account(self, states: Mapping[str, TrainerState], now_s: float) -> None:
        """Count the time since the last call."""
        passed_s, self.accounted_s = max(now_s - self.accounted_s, 0.0), now_s
        for name, it in states.items():
            if not it.view.alive:
                continue
            booked = self._booked.setdefault(name, [0.0, 0.0])
            node_s = len(it.ordered) * passed_s
            booked[0] += node_s
            # For a program that reports nothing, what its driver says counts.
            if it.view.trains or (it.view.on and it.view.heard_s == 0):
                booked[1] += node_s

    def taken(self, names: Iterable[str], samples: Mapping[str, float]) -> tuple[Usage, ...]:
        """Remove and return the usage of these trainers, with the samples that they have reached. The caller writes it."""
        found = [(name, self._booked.pop(name)) for name in names if name in self._booked]
        return tuple(Usage(name, samples[name], held, trained, held - trained) for name, (held, trained) in found)
