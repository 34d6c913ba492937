"""The interfaces to a cluster, as Protocols: what a pilot observes, what it holds, and the pilots
beside it.
"""

from __future__ import annotations

from typing import Protocol

from bftrainer.cluster.model import Acquired, Fragment, NodeRequest, Observation, PeerPilot
from bftrainer.decide.yielding.facts import JobCounters


class Scheduler(Protocol):
    """Read access to a batch scheduler. Real: Slurm by its commands or by pyslurm, LSF by its
    commands.
    """

    def observe(self) -> Observation:
        """Nodes, pending jobs and reservations as of now, in one batch of calls.

        Raises :class:`~bftrainer.errors.SchedulerError` or ``CommandError``; a failed poll is not
        an empty cluster.
        """


class NodeHolder(Protocol):
    """Takes idle nodes and releases them, one fragment (``node#id``) per node. Real: ``slurm``,
    ``lsf``, ``trace``.
    """

    def acquire(self, claims: tuple[NodeRequest, ...]) -> Acquired:
        """Request nodes without waiting; fragments begin as PENDING.

        A request that the scheduler rejects, or that exceeds a limit, comes back as a refusal.
        While the scheduler is slow, the last ones are left for the next call: they come back as
        neither.
        """

    def poll(self) -> tuple[Fragment, ...]:
        """Return all fragments, sorted by name; one that is GONE is reported once. Cheap enough to
        call every 0.2 s.

        Without changes it may return the same object as before. The first call of a pilot finds the
        holders of its predecessor. While the scheduler does not answer, the last known state of a
        fragment stays: silence is not GONE.
        """

    def observed(self, without_a_job: frozenset[str]) -> None:
        """The scheduler was just observed, and shows no job on these nodes. A fragment there may be
        lost.
        """

    def release(self, names: frozenset[str]) -> None:
        """End these fragments: foreign processes, worker steps, then the holder. Unknown names are
        ignored.
        """

    def clear(self, names: frozenset[str]) -> None:
        """End all processes in these fragments, such as orphans of a dead pilot, and keep the
        fragments.

        Raises :class:`~bftrainer.errors.CommandError` or ``SchedulerError`` if it needs a scheduler
        that does not answer.
        """

    def renew(self) -> None:
        """Renew the lease of every fragment; a fragment ends by itself ``lease_s`` after the last
        renewal.

        Called by a thread of its own as well as by the loop, while any other method is running.
        """


class YieldPort(Protocol):
    """What a site brings besides whose pilots may make way for main jobs by themselves
    (:class:`~bftrainer.cluster.model.GiveWay`). Real: Slurm and LSF by their commands.
    """

    def glance(self) -> JobCounters:
        """Count jobs, in one cheap call: has anything happened? Raises
        :class:`~bftrainer.errors.SchedulerError` or ``CommandError``.
        """

    def shorten(self, names: frozenset[str], seconds: float) -> None:
        """Let the holders of these fragments end after so many seconds at the latest."""


class PeerPilots(Protocol):
    """The other pilots of the site, of all users. Real: Slurm, by the comments of holder jobs and
    pilot jobs.
    """

    @property
    def own(self) -> PeerPilot:
        """This pilot by the user and the name that the others see, with its user's weight as of the
        last look.
        """

    def announce(
        self,
        hosts: tuple[str, ...],
        wants: int | None = None,
        is_short: bool = False,
        least: int = 1,
    ) -> None:
        """Show the other pilots which hosts are ours, how many nodes our trainers could use
        (``least`` to ``wants``), and whether we lack nodes and find none idle. ``wants`` None: show
        only the hosts again, all else as before.
        """

    def has_news(self) -> bool:
        """Whether something may have changed since the last look, where that is known without a
        call; asked at every tick.
        """

    def look(self) -> tuple[PeerPilot, ...]:
        """The peer pilots whose jobs are visible. Raises SchedulerError or CommandError if they are
        unknown.
        """
