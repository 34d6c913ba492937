"""The interfaces of the core, as Protocols: solvers, policies, worlds and journals."""

from __future__ import annotations

from typing import Protocol

from bftrainer.decide.domain.events import Event
from bftrainer.decide.domain.problem import Answer, Problem
from bftrainer.decide.domain.state import Decision, Plan, Rescale, State


class Allocator(Protocol):
    """A solver of the allocation problem. Real: ``exact``, ``highs``, ``gurobi``, ``chain``."""

    @property
    def name(self) -> str:
        """Its name in the journal and for ``--solver``."""

    def solve(self, problem: Problem) -> Answer:
        """The best counts found. Raises :class:`~bftrainer.errors.SolverError` or
        ``NoFeasibleCountsError``.
        """


class Policy(Protocol):
    """Divides the pool among the trainers: (state with its memory, event) -> (decision, new
    memory). Pure.
    """

    @property
    def name(self) -> str:
        """Its name for ``--policy``."""

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        """Return one legal count per trainer of ``state.active``, and the memory that the next call
        finds in ``state.memory``.

        The memory is a frozen value (None at first). It is journaled and survives a crash, so it is
        made of plain values, tuples, and frozen dataclasses and enums of the package of the policy
        (:mod:`bftrainer.pilot.persistence.codec`).
        """


class World(Protocol):
    """The source of events, which also carries out decisions: a live cluster or a replayed log."""

    def next_event(self, state: State) -> Event | None:
        """The next event after ``state``, at ``state.wake_at_s`` at the latest if set; None at the
        end.
        """

    def apply(self, steps: tuple[Rescale, ...]) -> None:
        """Carry out rescales in order."""


class Journal(Protocol):
    """Records decisions before they are carried out."""

    def record(self, event: Event, state: State, plan: Plan) -> None:
        """Record an event, the state after it, and the plan."""
