"""Equal share: the paper's baseline (5.1). It is optimal when rescaling is free and all trainers are alike."""

from __future__ import annotations

from dataclasses import dataclass

from bftrainer.domain.events import Event
from bftrainer.domain.model import Trainer
from bftrainer.domain.ports import Policy
from bftrainer.domain.state import Decision, State
from bftrainer.policies.settings import PolicySettings


@dataclass(frozen=True, slots=True)
class EqualShare:
    """q = floor(|pool| / J) nodes each, within bounds; the rest goes first come first served up to N^max."""

    name: str = "equal-share"

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        """The same counts whatever the trainers hold now; no memory."""
        trainers = [active.trainer for active in state.active]
        return Decision(equal_shares(trainers, len(state.pool))), None


def equal_shares(trainers: list[Trainer], nodes: int) -> tuple[int, ...]:
    """Counts for ``nodes`` nodes among trainers in order of admission."""
    if not trainers:
        return ()
    quota = nodes // len(trainers)
    counts = [largest_legal(trainer, quota) for trainer in trainers]
    rest = nodes - sum(counts)
    for j, trainer in enumerate(trainers):
        more = largest_legal(trainer, counts[j] + rest)
        rest -= more - counts[j]
        counts[j] = more
    return tuple(counts)


def largest_legal(trainer: Trainer, nodes: int) -> int:
    """The largest size of a trainer within ``nodes``; 0 if even its smallest is too large."""
    if trainer.sizes is not None:
        return max((n for n in trainer.sizes if n <= nodes), default=0)
    return min(nodes, trainer.max_nodes) if nodes >= trainer.min_nodes else 0


def build(settings: PolicySettings) -> Policy:
    """Entry point ``bftrainer.policies``."""
    return EqualShare()
