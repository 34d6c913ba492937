"""Shortest remaining time first, a control (AFS notes): who would be done first at its requested size runs at that size."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bftrainer.domain.events import Event
from bftrainer.domain.model import rates
from bftrainer.domain.ports import Policy
from bftrainer.domain.state import Active, Decision, State
from bftrainer.policies.needs import Need
from bftrainer.policies.settings import PolicySettings
from bftrainer.policies.sizes import remaining, requested


@dataclass(frozen=True, slots=True)
class Srtf:
    """Preemptive; nobody is scaled. Who does not fit is passed over. A planned stop keeps all progress."""

    name: str = "srtf"
    needs: frozenset[Need] = frozenset({Need.LENGTH})
    rigid: bool = True

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        """No memory. Ties: the trainer admitted first."""
        order = sorted(range(len(state.active)), key=lambda j: (self._remaining_s(state.active[j]), j))
        return Decision(first_fit(state, order)), None

    def _remaining_s(self, active: Active) -> float:
        rate = rates(active.trainer)[requested(active.trainer)]
        return remaining(active, self.name) / rate if rate > 0 else math.inf


def first_fit(state: State, order: list[int]) -> tuple[int, ...]:
    """Each its requested size, in the given order, where that fits what the earlier ones left."""
    free, counts = len(state.pool), [0] * len(state.active)
    for j in order:
        size = requested(state.active[j].trainer)
        if size <= free:
            counts[j], free = size, free - size
    return tuple(counts)


def build(settings: PolicySettings) -> Policy:
    """Entry point ``bftrainer.policies``."""
    settings.option_values("srtf")
    return Srtf()
