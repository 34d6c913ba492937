"""Shortest remaining time first, a control ([AFS]): trainers run at their requested sizes, the
shortest first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from bftrainer.decide.domain.events import Event
from bftrainer.decide.domain.model import rates
from bftrainer.decide.domain.needs import Need
from bftrainer.decide.domain.ports import Policy
from bftrainer.decide.domain.state import Active, Decision, State
from bftrainer.decide.policies.settings import PolicySettings
from bftrainer_papers.policies.lengths import remaining
from bftrainer_papers.policies.shares import first_fit, requested


@dataclass(frozen=True, slots=True)
class Srtf:
    """Preemptive, without rescaling. A trainer that does not fit is skipped. A planned stop keeps
    all progress.
    """

    name: str = "srtf"
    needs: frozenset[Need] = frozenset({Need.LENGTH})
    rigid: bool = True

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        """Ties go to the trainer admitted first. No memory."""
        order = sorted(
            range(len(state.active)), key=lambda j: (self._remaining_s(state.active[j]), j)
        )
        return Decision(first_fit(state, order)), None

    def _remaining_s(self, active: Active) -> float:
        rate = rates(active.trainer)[requested(active.trainer)]
        return remaining(active, self.name) / rate if rate > 0 else math.inf


def build(settings: PolicySettings) -> Policy:
    """Entry point ``bftrainer.policies``."""
    settings.option_values("srtf")
    return Srtf()
