"""What a batch scheduler shows of its cluster, and what becomes of the nodes that are held there. Frozen, no I/O.

Times are seconds of the *scheduler's* epoch, so a pilot whose own clock is wrong still gets the lengths right: every
difference is taken against ``Observation.at_s``.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache

from bftrainer.domain.fragments import id_of, is_fragment_name, node_of
from bftrainer.errors import InvalidValueError, UnknownStateError


class NodeFlag(Enum):
    """A base state or flag of a node, by Slurm's names (slurm.h and the OpenAPI schemas v0.0.41 .. v0.0.45)."""

    IDLE = "IDLE"
    ALLOCATED = "ALLOCATED"
    MIXED = "MIXED"
    DOWN = "DOWN"
    ERROR = "ERROR"
    FUTURE = "FUTURE"
    EXTERNAL = "EXTERNAL"
    UNKNOWN = "UNKNOWN"
    INVALID = "INVALID"
    PLANNED = "PLANNED"
    COMPLETING = "COMPLETING"
    DRAIN = "DRAIN"
    UNDRAIN = "UNDRAIN"
    FAIL = "FAIL"
    MAINTENANCE = "MAINTENANCE"
    RESERVED = "RESERVED"
    NOT_RESPONDING = "NOT_RESPONDING"
    BLOCKED = "BLOCKED"
    CLOUD = "CLOUD"
    DYNAMIC_NORM = "DYNAMIC_NORM"
    DYNAMIC_FUTURE = "DYNAMIC_FUTURE"
    INVALID_REG = "INVALID_REG"
    PERFCTRS = "PERFCTRS"
    POWERED_DOWN = "POWERED_DOWN"
    POWERING_DOWN = "POWERING_DOWN"
    POWERING_UP = "POWERING_UP"
    POWER_DOWN = "POWER_DOWN"
    POWER_DOWN_ASAP = "POWER_DOWN_ASAP"
    POWER_DOWN_FORCE = "POWER_DOWN_FORCE"
    POWER_DRAIN = "POWER_DRAIN"
    POWER_UP = "POWER_UP"
    REBOOT_REQUESTED = "REBOOT_REQUESTED"
    REBOOT_ISSUED = "REBOOT_ISSUED"
    REBOOT_CANCELED = "REBOOT_CANCELED"
    RESUME = "RESUME"


# Other spellings of the same: sinfo's words for a state, and older versions' names.
_SPELLINGS = {
    "ALLOC": ("ALLOCATED",),
    "MIX": ("MIXED",),
    "COMP": ("COMPLETING",),
    "DRAINED": ("IDLE", "DRAIN"),
    "DRAINING": ("ALLOCATED", "DRAIN"),
    "DRNG": ("ALLOCATED", "DRAIN"),
    "MAINT": ("MAINTENANCE",),
    "RESV": ("RESERVED",),
    "PLND": ("PLANNED",),
    "FAILING": ("ALLOCATED", "FAIL"),
    "FAILG": ("ALLOCATED", "FAIL"),
    "FUTR": ("FUTURE",),
    "UNK": ("UNKNOWN",),
    "INVAL": ("INVALID_REG",),
    "BOOT": ("REBOOT_ISSUED",),
    "REBOOT": ("REBOOT_REQUESTED",),
    "REBOOT_CANCEL": ("REBOOT_CANCELED",),
    "NO_RESPOND": ("NOT_RESPONDING",),
    "POW_DN": ("POWERED_DOWN",),
    "POW_UP": ("POWERING_UP",),
    "BLOCK": ("BLOCKED",),
}
# What sinfo appends to a state (man sinfo, NODE STATE CODES).
_SUFFIXES = {
    "*": NodeFlag.NOT_RESPONDING,
    "~": NodeFlag.POWERED_DOWN,
    "#": NodeFlag.POWERING_UP,
    "!": NodeFlag.POWER_DOWN,
    "%": NodeFlag.POWERING_DOWN,
    "$": NodeFlag.MAINTENANCE,
    "@": NodeFlag.REBOOT_REQUESTED,
    "^": NodeFlag.REBOOT_ISSUED,
    "-": NodeFlag.PLANNED,
}


@lru_cache(maxsize=1024)
def flags_of(state: str) -> frozenset[NodeFlag]:
    """All flags of a state as Slurm writes it: ``IDLE+DRAIN``, ``idle*``, ``mixed-``.

    Raises :class:`~bftrainer.errors.UnknownStateError` with the text: what nobody knows is not idle.
    """
    flags: set[NodeFlag] = set()
    for word in state.split("+"):
        name = word.strip().rstrip("".join(_SUFFIXES))
        flags.update(_SUFFIXES[suffix] for suffix in word.strip()[len(name) :])
        for spelling in _SPELLINGS.get(name.upper(), (name.upper(),)):
            if spelling not in NodeFlag.__members__:
                raise UnknownStateError("node", state)
            flags.add(NodeFlag[spelling])
    return frozenset(flags)


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node as the scheduler shows it. ``state`` is its text, whole; ``gres`` too, such as ``gpu:a100:4(S:0-3)``."""

    name: str
    state: str
    partitions: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    gres: str = ""
    cpus: int = 0

    @property
    def flags(self) -> frozenset[NodeFlag]:
        """Raises :class:`~bftrainer.errors.UnknownStateError`."""
        return flags_of(self.state)

    @property
    def gpus(self) -> tuple[tuple[str, int], ...]:
        """(type, how many) of its GPUs, in the order of ``gres``; the type may be empty."""
        found = []
        for entry in re.sub(r"\([^)]*\)", "", self.gres).split(","):
            name, *rest = (word for word in entry.strip().split(":") if word != "no_consume")
            if name == "gpu":
                count = int(rest.pop()) if rest and rest[-1].isdecimal() else 1
                found.append((":".join(rest), count))
        return tuple(found)

    @property
    def gpu_count(self) -> int:
        """All its GPUs."""
        return sum(count for _, count in self.gpus)

    @property
    def node_class(self) -> str:
        """Nodes of one class are interchangeable for a trainer: ``4 a100``, or ``32 cpus`` where there is no GPU."""
        if not self.gpus:
            return f"{self.cpus} cpus"
        return " + ".join(f"{count} {kind or 'gpu'}" for kind, count in self.gpus)


@dataclass(frozen=True, slots=True)
class PendingJob:
    """A job that waits. ``starts_s`` and ``nodes`` are the scheduler's plan for it; None and empty where it has none.

    ``partitions`` are those it may start in. One that is held, or waits for another job or for a time that was set, is
    not eligible: it would not start on an empty machine either.
    """

    id: str
    user: str
    partitions: tuple[str, ...]
    size: int
    starts_s: float | None = None
    nodes: frozenset[str] = frozenset()
    name: str = ""
    is_eligible: bool = True


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes that are set aside from ``starts_s`` to ``ends_s``."""

    id: str
    starts_s: float
    ends_s: float
    nodes: frozenset[str]


class Hidden(Enum):
    """What a site keeps from ordinary users (Slurm's PrivateData) and windows depend on."""

    JOBS = "jobs"
    NODES = "nodes"
    RESERVATIONS = "reservations"


@dataclass(frozen=True, slots=True)
class Observation:
    """One look at the scheduler. ``at_s`` is its time, ``planned_s`` when its plans were last made (None: not known)."""

    at_s: float
    nodes: tuple[NodeView, ...]
    pending: tuple[PendingJob, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    hidden: frozenset[Hidden] = frozenset()
    planned_s: float | None = None


@dataclass(frozen=True, slots=True)
class PeerPilot:
    """Another pilot of the site, as its jobs show it. ``hosts`` is the list it claims, ``holders`` its holders' job ids.

    ``job`` is one of its jobs. But for ``user`` and the ids all of it is what that user wrote.
    """

    pilot: str
    user: str
    hosts: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()
    job: str = ""


@dataclass(frozen=True, slots=True)
class NodeRequest:
    """A node that is wanted, for ``window_s`` seconds at most (infinite: nobody has plans for it), with all its ``gpus``."""

    node: str
    window_s: float = math.inf
    gpus: int = 0

    def __post_init__(self) -> None:
        if not self.node or is_fragment_name(self.node):
            raise InvalidValueError(f"a claim needs the name of a node, got {self.node!r}")


class FragmentPhase(Enum):
    """What a fragment is."""

    PENDING = "pending"
    """Asked for; it may never come."""
    READY = "ready"
    """Workers may start in it."""
    LEAVING = "leaving"
    """Asked back or released; whatever runs in it dies."""
    GONE = "gone"
    """Over. Reported once."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """One holder's time on one node. ``name`` is ``node#id``, so a node that comes back is another fragment.

    ``ends_s`` is when its time limit ends (scheduler's epoch; None while it is not known); ``why`` says, for leaving and
    gone, what ended it.
    """

    name: str
    phase: FragmentPhase
    ends_s: float | None = None
    why: str = ""

    @property
    def node(self) -> str:
        """The part before ``#``."""
        return node_of(self.name)

    @property
    def id(self) -> str:
        """The holder's job id, the part after ``#``."""
        return id_of(self.name)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A claim that was not carried out. ``retry_s``: claims for this node are refused unasked for so many seconds more."""

    node: str
    reason: str
    retry_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Acquired:
    """The answer to claims: fragments on their way, and refusals."""

    fragments: tuple[Fragment, ...] = ()
    refusals: tuple[Refusal, ...] = field(default=())
