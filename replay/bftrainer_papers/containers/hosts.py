"""Workers that several trainers share, as seen by FlowCon and SpeCon: containers, limits and moves.

A pool policy gives whole nodes to trainers. Here, a trainer runs in one container on one worker,
and the containers of a worker share its processor. As in the pool, decisions are functions of the
observed state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Container:
    """A container as a policy sees it. ``loss`` is its evaluation function, 1 at the start and 0
    when trained (None: nothing reported yet).

    ``used_s`` is the processor time that it has used, in seconds of a whole worker.
    """

    id: str
    loss: float | None = None
    used_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ContainerHost:
    """A worker: its containers, and its resource consumption R(w_i, t) in [0, 1] [SpeCon 4.2]."""

    containers: tuple[Container, ...] = ()
    consumption: float = 0.0


@dataclass(frozen=True, slots=True)
class WorkerDecision:
    """What a policy decides: soft upper limits of processor shares by container (1 where not
    named), and moves to other workers (by index).
    """

    limits: tuple[tuple[str, float], ...] = ()
    moves: tuple[tuple[str, int], ...] = ()
    wake_at_s: float | None = None


class WorkerPolicy(Protocol):
    """Decides limits and moves. A pure function; the memory is a frozen value, None at first."""

    @property
    def name(self) -> str:
        """The name in a reproduction."""

    def decide(
        self, at_s: float, workers: Sequence[ContainerHost], memory: object
    ) -> tuple[WorkerDecision, object]:
        """Called at every arrival, completion and wake-up."""
