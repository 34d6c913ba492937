"""A cluster as any batch scheduler shows it, and the fragments that a pilot holds there. Frozen, no
I/O.

Times are seconds of the *scheduler's* epoch. Differences are taken against ``Observation.at_s``, so
a pilot whose own clock is wrong still gets lengths right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum

from bftrainer.decide.domain.node_stages import NodeStage
from bftrainer.decide.yielding.facts import ListedHolder, NodeWait
from bftrainer.errors import InvalidValueError
from bftrainer.fragment_names import id_of, is_fragment_name, node_of
from bftrainer.slots import Grain


class Availability(Enum):
    """State of a node in the scheduler, as far as the core has to know."""

    FREE = "free"
    """Idle, and not kept for any job."""
    PLANNED = "planned"
    """Idle, but kept for a larger job that cannot start yet: free until then, if the scheduler
    tells when that is.
    """
    ASLEEP = "asleep"
    """Powered down to save power; a job that gets it has it powered up."""
    FALLING_ASLEEP = "falling asleep"
    """Being powered down; no job starts there until that is done."""
    BUSY = "busy"
    """Jobs run on it."""
    SHARED = "shared"
    """Jobs run on it, and GPUs are idle beside them. Only where the scheduler was asked for single
    GPUs.
    """
    UNUSABLE = "unusable"
    """Down, drained, reserved, powered off ...: no job starts there now."""


@dataclass(frozen=True, slots=True)
class Device:
    """GPUs of one type in a node; ``kind`` may be empty."""

    kind: str
    count: int


@dataclass(frozen=True, slots=True)
class Idle:
    """The part of a node that no job has: GPUs, cores, MiB of memory. ``of_mib``: all memory of the
    node.
    """

    gpus: int
    cpus: int
    mib: int
    of_mib: int = 0


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node as the scheduler shows it.

    ``devices`` are its GPUs. ``window_end_s`` is when the scheduler wants the node, where it says
    so of the node itself and not of a job or a reservation. ``state`` is the scheduler's own text,
    for messages only. ``is_cloud``: it is paid for while it is powered up. ``last_busy_s`` is the
    end of the last job there; None if the scheduler does not say. ``is_withdrawn``: no further job
    starts there, and an administrator waits for the end of those that run (drain, reboot).
    ``idle``: None where the scheduler was not asked, or where the GPUs cannot be held one by one.
    ``is_planned``: it is kept for a job, also beside the jobs that run there. ``features``: what
    jobs may ask for by name; ``memory_mib``: 0 where the scheduler does not say. ``rest``: all else
    that jobs may ask for, as the scheduler shows it. These three are only known where a pilot may
    have to make way by itself, and make no other view of a node.
    """

    name: str
    availability: Availability
    partitions: tuple[str, ...] = ()
    devices: tuple[Device, ...] = ()
    cpus: int = 0
    window_end_s: float | None = None
    state: str = ""
    is_cloud: bool = False
    last_busy_s: float | None = None
    is_withdrawn: bool = False
    idle: Idle | None = None
    is_planned: bool = False
    features: frozenset[str] = field(default=frozenset(), compare=False)
    memory_mib: int = field(default=0, compare=False)
    rest: str = field(default="", compare=False)

    @property
    def gpu_count(self) -> int:
        return sum(device.count for device in self.devices)

    @property
    def node_class(self) -> str:
        """The class of the node's hardware: ``4 a100``, or ``32 cpus`` where there is no GPU. Nodes
        of one class are interchangeable for a trainer.
        """
        if not self.devices:
            return f"{self.cpus} cpus"
        return " + ".join(f"{device.count} {device.kind or 'gpu'}" for device in self.devices)

    def hardware_class(self, grain: Grain) -> str:
        """Return the class of the node's hardware: :attr:`node_class`, or only the GPU types where
        trainers get single GPUs, since their number does not matter then.
        """
        if grain.divides_nodes:  # empty for a node without GPUs
            return " + ".join(device.kind or "gpu" for device in self.devices)
        return self.node_class


@dataclass(frozen=True, slots=True)
class PendingJob:
    """A pending job. ``starts_s`` and ``nodes`` are the scheduler's plan for it; None and empty
    without a plan.

    ``partitions`` (queues) are those it may start in. A job that is held, depends on another job or
    has a begin time is not eligible: it would not start on an empty cluster either. Nothing here is
    free text of its user.
    """

    id: str
    user: str
    partitions: tuple[str, ...]
    size: int
    starts_s: float | None = None
    nodes: frozenset[str] = frozenset()
    is_eligible: bool = True


@dataclass(frozen=True, slots=True)
class NodeWaits:
    """Main jobs that wait for nodes, the running holders of all pilots, and the starts of main jobs
    that run (job, start in the scheduler's epoch). ``kinds``: sets of nodes that are alike for
    every job (none: unknown).
    """

    jobs: tuple[NodeWait, ...] = ()
    holders: tuple[ListedHolder, ...] = ()
    starts: tuple[tuple[str, float], ...] = ()
    kinds: tuple[frozenset[str], ...] = ()


@dataclass(frozen=True, slots=True)
class LimitWait:
    """A main-queue job that waits for a limit for which holders count as well. It needs the nodes
    of ``size`` holders.
    """

    job: str
    size: int
    reason: str


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes that are set aside from ``starts_s`` to ``ends_s``."""

    id: str
    starts_s: float
    ends_s: float
    nodes: frozenset[str]


class Hidden(Enum):
    """Facts that a site may hide from ordinary users, although the ends of windows depend on
    them.
    """

    JOBS = "jobs"
    NODES = "nodes"
    RESERVATIONS = "reservations"


@dataclass(frozen=True, slots=True)
class Observation:
    """The cluster at one moment. ``at_s`` is the scheduler's time, ``planned_s`` the time of its
    latest plans (None: unknown).

    ``lists_pending``: the scheduler was asked for pending jobs, or can have none. ``node_waits``:
    None where no pilot has to make way for main jobs (:class:`GiveWay`). ``evidence_s``:
    when the scheduler showed it, by the pilot's monotonic clock, if another process asked (None:
    now); ``remark``: why that one's answer did not count.
    """

    at_s: float
    nodes: tuple[NodeView, ...]
    pending: tuple[PendingJob, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    hidden: frozenset[Hidden] = frozenset()
    planned_s: float | None = None
    limit_waits: tuple[LimitWait, ...] = ()
    lists_pending: bool = True
    node_waits: NodeWaits | None = None
    evidence_s: float | None = None
    remark: str = ""


@dataclass(frozen=True, slots=True)
class PeerPilot:
    """Another pilot of the site, as its jobs show it. ``hosts`` is the list it claims, ``holders``
    are its holders' job ids, ``wants`` the nodes that its trainers could use (None: it does not
    say), ``is_short`` that it finds none idle, ``held`` the number of nodes that its holders have,
    ``asks`` that one of them is pending, ``least`` the smallest number of use to it.

    ``job`` is one of its jobs, ``weight`` the user's in the split of nodes. Only ``user``,
    ``held``, ``asks``, ``weight`` and the ids come from the scheduler; the rest is text that the
    user wrote.
    """

    pilot: str
    user: str
    hosts: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()
    job: str = ""
    wants: int | None = None
    is_short: bool = False
    held: int = 0
    asks: bool = False
    least: int = 1
    weight: int = 1


UNKNOWN_PILOT = PeerPilot("", "")


@dataclass(frozen=True, slots=True)
class NodeRequest:
    """A request to hold a node, with all its ``gpus``, for ``window_s`` seconds at most (infinite:
    no plan is known).

    ``useful_s`` is the shortest window that trainers can use: one rescale. With ``cpus`` and
    ``mib``, a part is requested: these GPUs, with no more than these cores and this memory, beside
    other jobs.
    """

    node: str
    window_s: float = math.inf
    gpus: int = 0
    node_class: str = ""
    useful_s: float = 0.0
    cpus: int = 0
    mib: int = 0

    def __post_init__(self) -> None:
        if not self.node or is_fragment_name(self.node):
            raise InvalidValueError(f"a node request needs the name of a node, got {self.node!r}")


class FragmentPhase(Enum):
    """The life of a fragment."""

    PENDING = "pending"
    """Requested; it may never start."""
    READY = "ready"
    """Workers may start in it."""
    LEAVING = "leaving"
    """Preempted or released; its processes are being killed."""
    GONE = "gone"
    """Over. Reported once."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """One node for as long as one holder has it. ``name`` is ``node#id``, so a node that returns is
    a new fragment.

    ``ends_s`` is the end of its time limit (scheduler's epoch; None while unknown); ``why`` is the
    reason of its end. ``release_s``: measured seconds from the release of nodes of its class until
    they are idle, an Epilog included. ``reached`` are instants of its start that its holder knows,
    by this host's clock. ``gpus``: the indices of its GPUs in CUDA_VISIBLE_DEVICES, of which only
    the number is known while it is pending. ``is_part``: other jobs may run on its node.
    ``is_separable``: its holder has other nodes as well, and can give back this one alone.
    """

    name: str
    phase: FragmentPhase
    ends_s: float | None = None
    why: str = ""
    release_s: float = 0.0
    reached: tuple[tuple[NodeStage, float], ...] = ()
    gpus: tuple[int, ...] = ()
    is_part: bool = False
    is_separable: bool = False

    @property
    def node(self) -> str:
        """The part before ``#``."""
        return node_of(self.name)

    @property
    def id(self) -> str:
        """The part after ``#``: the holder's job id, and the node where the job has several."""
        return id_of(self.name)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that was refused. For ``retry_s`` seconds further requests for the node are refused
    without asking.
    """

    node: str
    reason: str
    retry_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Acquired:
    """The answer to requests: new fragments, and refusals."""

    fragments: tuple[Fragment, ...] = ()
    refusals: tuple[Refusal, ...] = field(default=())


class GiveWay(Enum):
    """Who frees held nodes that a main job needs."""

    SITE = "site"
    """The scheduler: it ends holders."""
    YIELD = "yield"
    """The pilot: it looks at the jobs that wait, and releases the nodes that they can use."""
    BLIND = "blind"
    """The pilot, where the site hides jobs: it releases nodes when the scheduler's counters say
    that a job waits, until one starts.
    """


def glances_per_s(way: GiveWay, yield_poll_s: float) -> float:
    """Return how many glances at the scheduler's counters a pilot makes each second; 0 where the
    scheduler frees nodes.
    """
    return 0.0 if way is GiveWay.SITE else 1.0 / yield_poll_s


@dataclass(frozen=True, slots=True)
class HoldingPermit:
    """Whether the site allows nodes to be held at all, and who frees them for main jobs.

    ``refusal`` is why not, in one line; empty if they may be held. ``releases``: nodes that are
    held are released as well. ``remarks`` are what the user has accepted of the site, for the log
    of events. ``why``: what keeps the scheduler from freeing them, unless ``give_way`` is SITE.
    """

    refusal: str = ""
    releases: bool = False
    remarks: tuple[str, ...] = ()
    give_way: GiveWay = GiveWay.SITE
    why: str = ""
