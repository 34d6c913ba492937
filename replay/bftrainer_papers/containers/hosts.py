"""Workers that several trainers share, as FlowCon and SpeCon see them: containers, limits and moves. All frozen.

A pool policy gives whole nodes to trainers; here a trainer sits in one container on one worker, and containers of a worker
share its processor. That is another world with the same rules: decisions are functions of what was observed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Container:
    """``loss`` is its evaluation function, 1 at the start and 0 when trained (None: nothing reported yet).

    ``used_s`` is the processor time that it has had, in seconds of a whole worker.
    """

    id: str
    loss: float | None = None
    used_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ContainerHost:
    """Its containers, and its resource consumption R(w_i, t): the lower, the more room."""

    containers: tuple[Container, ...] = ()
    consumption: float = 0.0


@dataclass(frozen=True, slots=True)
class WorkerDecision:
    """Soft upper limits of processor shares by container (1 where not named), and moves to other workers (by index)."""

    limits: tuple[tuple[str, float], ...] = ()
    moves: tuple[tuple[str, int], ...] = ()
    wake_at_s: float | None = None


class WorkerPolicy(Protocol):
    """Who gets how much of its worker, and who goes elsewhere. Pure; the memory is a frozen value, None at first."""

    @property
    def name(self) -> str:
        """What a reproduction calls it."""

    def decide(self, at_s: float, workers: Sequence[ContainerHost], memory: object) -> tuple[WorkerDecision, object]:
        """Asked at every arrival, completion and wake-up."""
