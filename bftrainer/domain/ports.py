"""The interfaces of the core. Protocols only; nothing here does anything."""

from __future__ import annotations

from typing import Protocol

from bftrainer.domain.cluster import Acquired, Fragment, NodeRequest, Observation, PeerPilot
from bftrainer.domain.events import Event
from bftrainer.domain.problem import Answer, Problem
from bftrainer.domain.state import Decision, Plan, Rescale, State


class Allocator(Protocol):
    """A solver of the allocation problem. Real: ``exact``, ``highs``, ``gurobi``, ``chain``."""

    @property
    def name(self) -> str:
        """What the journal and ``--solver`` call it."""

    def solve(self, problem: Problem) -> Answer:
        """The best counts. Raises :class:`~bftrainer.errors.SolverError` or ``NoFeasibleCountsError``."""


class Policy(Protocol):
    """Who gets how many nodes: (state with its memory, event) -> (decision, new memory). Pure."""

    @property
    def name(self) -> str:
        """What ``--policy`` calls it."""

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        """One legal count per trainer of ``state.active``, and the memory to find in ``state.memory`` next time.

        The memory is a frozen value (None at first); it is journalled and survives a crash.
        """


class World(Protocol):
    """What happens, and what carries decisions out: a live cluster or a replayed log."""

    def next_event(self, wake_at_s: float | None) -> Event | None:
        """The next event, at ``wake_at_s`` at the latest if that is given; None when there will be no more."""

    def apply(self, steps: tuple[Rescale, ...]) -> None:
        """Carry rescales out, in order."""


class Journal(Protocol):
    """Where decisions are written down before they are carried out."""

    def record(self, event: Event, state: State, plan: Plan) -> None:
        """The event, the state it left behind, and the plan for it."""


class Clock(Protocol):
    """The only source of time outside the core."""

    def now_s(self) -> float:
        """Seconds since the epoch, for people and journals. It may jump."""

    def elapsed_s(self) -> float:
        """Seconds from some fixed moment; it never goes back. For timeouts and back-offs."""

    def sleep(self, seconds: float) -> None:
        """Let so much time pass."""


class Scheduler(Protocol):
    """A batch scheduler that is only looked at. Real: Slurm by its commands, Slurm by pyslurm."""

    def observe(self) -> Observation:
        """Nodes, pending jobs and reservations as of now, in one batch of calls.

        Raises :class:`~bftrainer.errors.SchedulerError` (or ``CommandError``): unknown is not an empty cluster.
        """


class NodeHolder(Protocol):
    """What takes idle nodes and gives them back: one fragment (``node#id``) per node. Real: ``slurm``, ``trace``."""

    def acquire(self, claims: tuple[NodeRequest, ...]) -> Acquired:
        """Ask for the nodes; fragments begin as PENDING. Never waits for one to start.

        A claim that the scheduler refuses, or that is one too many for now, comes back as a refusal.
        """

    def poll(self) -> tuple[Fragment, ...]:
        """Every fragment there is, by name; one that is GONE is in the answer once. Cheap enough for every 0.2 s.

        Where nothing has changed it may be the very same value as before, which costs nobody anything.

        The first call of a pilot's life finds the holders of its predecessor. While the scheduler does not answer, what is
        known of it stays as it was: nothing is gone because nobody said anything.
        """

    def release(self, names: frozenset[str]) -> None:
        """End these fragments: foreign processes, worker steps, then the holder. Names that are gone already are fine."""

    def clear(self, names: frozenset[str]) -> None:
        """End whatever runs in these fragments, such as a dead pilot's orphans, and keep the fragments.

        Raises :class:`~bftrainer.errors.CommandError` or ``SchedulerError`` where that takes a scheduler that does not answer.
        """

    def renew(self) -> None:
        """Tell every fragment that the pilot lives; one that is not told for ``lease_s`` ends by itself."""


class PeerPilots(Protocol):
    """The other pilots of the site, of whatever user. Real: Slurm, by the comments of holders and pilots' jobs."""

    def announce(self, hosts: tuple[str, ...]) -> None:
        """Show to the others that these hosts are ours."""

    def look(self) -> tuple[PeerPilot, ...]:
        """The others, as far as their jobs can be seen. Raises SchedulerError or CommandError: silence is not nobody."""
