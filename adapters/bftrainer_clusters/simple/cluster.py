"""The port of a scheduler in five verbs, and the values that go through it."""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic

from bftrainer.cluster.model import GiveWay, Observation
from bftrainer.decide.yielding.facts import JobCounters
from bftrainer.errors import SchedulerError
from bftrainer_clusters.holding.holder_jobs import JobPhase, SettingsT


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A holder job to submit: all of one ``node``, for ``minutes`` at most, with all its ``gpus``.

    ``label`` is one word of letters, digits and ``_.:-``. The scheduler must keep it, as the job's
    name or in another field, because ``list`` has to report it. ``argv`` is the program to run on
    the node; its words hold no line break, and a scheduler that passes them to a shell must quote
    them. ``output_folder`` is a folder for what the scheduler writes of the job's output, where it
    cannot be discarded. ``beside`` are further nodes of the same job, where the scheduler takes
    several (:attr:`SimpleCluster.nodes_per_job`); the program starts on ``node``, and starts itself
    on the others.
    """

    node: str
    minutes: int
    label: str
    argv: tuple[str, ...]
    gpus: int = 0
    output_folder: str = ""
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job as the scheduler lists it. ``state`` is the scheduler's word, a key of
    :attr:`SimpleCluster.states`; ``ends_s`` the end of the time limit of a running job (scheduler's
    epoch, None: unknown); ``reason`` why it waits or has ended, for messages.

    ``nodes`` are those that a running job of several nodes has at present, that of its first
    process first.

    ``blocks`` says why main jobs would wait for this holder, where the site has changed it (another
    queue, another type of job), in a few words. Such a job ends, and no holder is submitted for ten
    minutes.
    """

    id: str
    label: str
    state: str
    ends_s: float | None = None
    reason: str = ""
    blocks: str = ""
    nodes: tuple[str, ...] = ()


class SimpleCluster(ABC, Generic[SettingsT]):
    """A batch scheduler in five verbs. Each asks the scheduler once and waits for the answer.

    A verb raises :class:`~bftrainer.errors.CommandError` or ``SchedulerError`` where the scheduler
    gives no answer, or one that is not understood: no answer is not an empty cluster.
    ``settings`` is the table of the configuration, and is replaced when the pilot reads it again.
    """

    name: ClassVar[str]
    """The scheduler's name in messages."""
    job_variable: ClassVar[str]
    """The environment variable in which the scheduler gives a job its id."""
    states: ClassVar[Mapping[str, JobPhase]]
    """What each job state of the scheduler means for the job's node. A state that is missing here
    is an error that quotes it.
    """
    kept_variables: ClassVar[tuple[str, ...]] = ()
    """Prefixes of further variables of a job that its workers need."""
    min_interval_s: ClassVar[float] = 2.0
    """The shortest time between two calls of ``list``, in seconds."""
    most_notice_s: ClassVar[float] = 60.0
    """The most time that a preempted holder may leave workers to save, in seconds. 0 for a
    scheduler that does nothing else while a preempted job ends.
    """
    cancels_ended: ClassVar[bool] = False
    """Whether a holder whose payload has ended is canceled once more, since the scheduler notices
    the end sooner then.
    """
    way: GiveWay = GiveWay.SITE
    """Who frees held nodes that a main job needs, as configured: one of :attr:`ways`. It changes
    when the pilot reads its configuration again.
    """
    asked_notice_s: float = 0.0
    """The time to save that the configuration asks for (``workers.notice_s``)."""

    def __init__(self, settings: SettingsT) -> None:
        self.settings = settings

    @abstractmethod
    def observe(self) -> Observation:
        """All nodes, the pending jobs of all users and the reservations, as of now."""

    @abstractmethod
    def submit(self, job: JobRequest) -> str:
        """Submit a job that is preempted by ending it, and that never starts again. Returns its id,
        of letters, digits, ``_`` and ``-``.
        """

    @abstractmethod
    def list(self) -> Iterable[JobRecord]:
        """All jobs of this user that are not over. Jobs that are over may be listed for a while:
        their states explain why nodes are gone. A job that three answers in a row lack is over.
        """

    @abstractmethod
    def cancel(self, ids: Sequence[str]) -> None:
        """End one or more jobs, pending or running. A job that is over is no error."""

    @abstractmethod
    def signal(self, ids: Sequence[str], number: signal.Signals) -> None:
        """Send a signal to the first process of one or more running jobs. A job that is over is no
        error.
        """

    def leave(self, ids: Sequence[str]) -> None:
        """Tell the payloads of running jobs to end, in whatever way frees their nodes soonest."""
        self.signal(ids, signal.SIGTERM)

    @property
    def nodes_per_job(self) -> int:
        """How many nodes a holder may have at most.

        Override it together with :meth:`release_nodes` where the scheduler can take a node from a
        running job, and a job's program can start others on the job's nodes (jobscripts/holder.sh).
        """
        return 1

    def release_nodes(self, job: str, nodes: Sequence[str]) -> None:
        """Give back some nodes of a running job, never that of its first process; the job keeps the
        others. A node that it no longer has is no error.
        """
        raise SchedulerError(f"{self.name} takes no node from a job")

    def unknown(self, ids: Sequence[str]) -> frozenset[str]:
        """Return those of the jobs that the scheduler does not know any more; asked after two lists
        without them.
        """
        return frozenset(ids) - {job.id for job in self.list()}

    def why_no_holder(self) -> str:
        """Return why no holder may run here, in one line; empty if holders may run. Asked every ten
        minutes.

        Override it: a site whose scheduler suspends preempted jobs, or lets main jobs wait for
        them, must be refused.
        """
        return ""

    @property
    def ways(self) -> frozenset[GiveWay]:
        """The modes of ``nodes.give_way`` that this scheduler can keep. A pilot that is configured
        for another one does not start, and ``auto`` is ``site`` here.

        Override it to return YIELD as well once the following is true: under :attr:`way` YIELD,
        ``observe`` reports ``node_waits``, :meth:`glance` and :meth:`shorten` work, and
        :meth:`why_no_holder` refuses only what a pilot that ends its holders itself does not cure.
        """
        return frozenset({GiveWay.SITE})

    def glance(self) -> JobCounters:
        """Return counts of jobs that change whenever a main job comes, starts or ends, by one call
        whose cost does not grow with the queue. Asked every ``nodes.yield_poll_s`` under YIELD.
        """
        raise SchedulerError(f"{self.name} shows no counts of jobs")

    def shorten(self, ids: Sequence[str], seconds: float) -> None:
        """Let one or more running jobs end after so many seconds at the latest, and return within
        two seconds: jobs that are left out are asked for again a minute later. A job that is over
        is no error. Where this raises, new holders last for ten minutes at most.
        """
        raise SchedulerError(f"{self.name} cannot shorten holders")

    def is_limit(self, reason: str) -> bool:
        """Return whether the words of a failed submission, or of a pending job, mean a limit on all
        jobs of the pilot and not a problem with the node.
        """
        return False

    @property
    def remarks(self) -> tuple[str, ...]:
        """Lines for the log of events on what holds here, by the latest answers; asks nothing."""
        return ()

    @property
    def holder_queues(self) -> frozenset[str]:
        """The queues (partitions) of holders. Jobs that wait there are no main jobs."""
        return frozenset()

    @property
    def worker_prefix(self) -> tuple[str, ...]:
        """Words before the command of a worker inside its job, such as ``blaunch {node}``."""
        return ()
