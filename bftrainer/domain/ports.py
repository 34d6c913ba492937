"""The interfaces of the core, as Protocols."""

from __future__ import annotations

from typing import Protocol

from bftrainer.domain.cluster import Acquired, Fragment, NodeRequest, Observation, PeerPilot
from bftrainer.domain.events import Event
from bftrainer.domain.problem import Answer, Problem
from bftrainer.domain.state import Decision, Plan, Rescale, State
from bftrainer.domain.times import ElapsedS, HostS


class Allocator(Protocol):
    """A solver of the allocation problem. Real: ``exact``, ``highs``, ``gurobi``, ``chain``."""

    @property
    def name(self) -> str:
        """Its name in the journal and for ``--solver``."""

    def solve(self, problem: Problem) -> Answer:
        """The best counts found. Raises :class:`~bftrainer.errors.SolverError` or ``NoFeasibleCountsError``."""


class Policy(Protocol):
    """Divides the pool among the trainers: (state with its memory, event) -> (decision, new memory). Pure."""

    @property
    def name(self) -> str:
        """Its name for ``--policy``."""

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        """One legal count per trainer of ``state.active``, and the memory that the next call finds in ``state.memory``.

        The memory is a frozen value (None at first). It is journaled and survives a crash, so it is made of plain values,
        tuples, and frozen dataclasses and enums of the package of the policy (:mod:`bftrainer.persistence.codec`).
        """


class World(Protocol):
    """The source of events, which also carries out decisions: a live cluster or a replayed log."""

    def next_event(self, state: State) -> Event | None:
        """The next event after ``state``, at ``state.wake_at_s`` at the latest if set; None at the end."""

    def apply(self, steps: tuple[Rescale, ...]) -> None:
        """Carry out rescales in order."""


class Journal(Protocol):
    """Records decisions before they are carried out."""

    def record(self, event: Event, state: State, plan: Plan) -> None:
        """Record an event, the state after it, and the plan."""


class Clock(Protocol):
    """The only source of time outside the core."""

    def now_s(self) -> HostS:
        """Seconds since the epoch, for display and journals. It may jump."""

    def elapsed_s(self) -> ElapsedS:
        """Monotonic seconds from an arbitrary origin, for timeouts and backoffs."""

    def sleep(self, seconds: float) -> None: ...


class Scheduler(Protocol):
    """Read access to a batch scheduler. Real: Slurm by its commands or by pyslurm, LSF by its commands."""

    def observe(self) -> Observation:
        """Nodes, pending jobs and reservations as of now, in one batch of calls.

        Raises :class:`~bftrainer.errors.SchedulerError` or ``CommandError``; a failed poll is not an empty cluster.
        """


class NodeHolder(Protocol):
    """Takes idle nodes and releases them, one fragment (``node#id``) per node. Real: ``slurm``, ``lsf``, ``trace``."""

    def acquire(self, claims: tuple[NodeRequest, ...]) -> Acquired:
        """Request nodes without waiting; fragments begin as PENDING.

        A request that the scheduler rejects, or that exceeds a limit, comes back as a refusal. While the scheduler is slow,
        the last ones are left for the next call: they come back as neither.
        """

    def poll(self) -> tuple[Fragment, ...]:
        """All fragments, sorted by name; one that is GONE is reported once. Cheap enough to call every 0.2 s.

        Without changes it may return the same object as before. The first call of a pilot finds the holders of its
        predecessor. While the scheduler does not answer, the last known state of a fragment stays: silence is not GONE.
        """

    def observed(self, without_a_job: frozenset[str]) -> None:
        """The scheduler was just observed, and shows no job on these nodes. A fragment there may be lost."""

    def release(self, names: frozenset[str]) -> None:
        """End these fragments: foreign processes, worker steps, then the holder. Unknown names are ignored."""

    def clear(self, names: frozenset[str]) -> None:
        """End all processes in these fragments, such as orphans of a dead pilot, and keep the fragments.

        Raises :class:`~bftrainer.errors.CommandError` or ``SchedulerError`` if it needs a scheduler that does not answer.
        """

    def renew(self) -> None:
        """Renew the lease of every fragment; a fragment ends by itself ``lease_s`` after the last renewal.

        Called by a thread of its own as well as by the loop, while any other method is running.
        """


class PeerPilots(Protocol):
    """The other pilots of the site, of all users. Real: Slurm, by the comments of holder jobs and pilot jobs."""

    @property
    def own(self) -> PeerPilot:
        """This pilot by the user and the name that the others see, with its user's weight as of the last look."""

    def announce(
        self, hosts: tuple[str, ...], wants: int | None = None, is_short: bool = False, least: int = 1
    ) -> None:
        """Show the other pilots that these hosts are ours, how many nodes our trainers could use (at least and at most), and
        whether we lack nodes and find none idle (``wants`` None: all as before).
        """

    def has_news(self) -> bool:
        """Whether something may have changed since the last look, where that is known without a call; asked at every tick."""

    def look(self) -> tuple[PeerPilot, ...]:
        """The peer pilots whose jobs are visible. Raises SchedulerError or CommandError if they are unknown."""
