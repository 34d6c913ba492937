"""Equal share, the baseline of the paper (5.1): optimal where rescaling is free and all trainers
are alike.
"""

from __future__ import annotations

from dataclasses import dataclass

from bftrainer.decide.domain.events import Event
from bftrainer.decide.domain.ports import Policy
from bftrainer.decide.domain.state import Decision, State
from bftrainer.decide.policies.settings import PolicySettings
from bftrainer.decide.policies.shares import equal_shares


@dataclass(frozen=True, slots=True)
class EqualShare:
    """The policy that gives each of J trainers q = floor(|pool| / J) nodes, within its bounds.

    The rest goes to the trainers in order of admission, up to N_j^max.
    """

    name: str = "equal-share"

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        """Counts do not depend on the nodes held now. No memory."""
        trainers = [active.trainer for active in state.active]
        return Decision(equal_shares(trainers, len(state.pool))), None


def build(settings: PolicySettings) -> Policy:
    """Entry point ``bftrainer.policies``."""
    return EqualShare()
