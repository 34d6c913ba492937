"""Slurm's node states and gres, and what they mean for the core. Pure.

Rule: a state that is not known here raises with its text. Unknown is not idle.
"""

from __future__ import annotations

import re
from dataclasses import replace
from enum import Enum
from functools import lru_cache

from bftrainer.cluster.model import Availability, Device, Idle, NodeView
from bftrainer.errors import SchedulerError, UnknownStateError

# A base state or flag of a node, by Slurm's names (slurm.h and the OpenAPI schemas v0.0.41 ..
# v0.0.45).
NodeFlag = Enum(
    "NodeFlag",
    "IDLE ALLOCATED MIXED DOWN ERROR FUTURE EXTERNAL UNKNOWN INVALID PLANNED COMPLETING DRAIN "
    "UNDRAIN FAIL "
    "MAINTENANCE RESERVED NOT_RESPONDING BLOCKED CLOUD DYNAMIC_NORM DYNAMIC_FUTURE INVALID_REG "
    "PERFCTRS "
    "POWERED_DOWN POWERING_DOWN POWERING_UP POWER_DOWN POWER_DOWN_ASAP POWER_DOWN_FORCE "
    "POWER_DRAIN POWER_UP "
    "REBOOT_REQUESTED REBOOT_ISSUED REBOOT_CANCELED RESUME",
)

# Other spellings of the same: sinfo's words for a state, and older versions' names.
_SPELLINGS = {
    "ALLOC": "ALLOCATED",
    "MIX": "MIXED",
    "COMP": "COMPLETING",
    "DRAINED": "IDLE+DRAIN",
    "DRAINING": "ALLOCATED+DRAIN",
    "DRNG": "ALLOCATED+DRAIN",
    "MAINT": "MAINTENANCE",
    "RESV": "RESERVED",
    "PLND": "PLANNED",
    "FAILING": "ALLOCATED+FAIL",
    "FAILG": "ALLOCATED+FAIL",
    "FUTR": "FUTURE",
    "UNK": "UNKNOWN",
    "INVAL": "INVALID_REG",
    "BOOT": "REBOOT_ISSUED",
    "REBOOT": "REBOOT_REQUESTED",
    "REBOOT_CANCEL": "REBOOT_CANCELED",
    "NO_RESPOND": "NOT_RESPONDING",
    "POW_DN": "POWERED_DOWN",
    "POW_UP": "POWERING_UP",
    "BLOCK": "BLOCKED",
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
    """Return all flags of a state as Slurm writes it: ``IDLE+DRAIN``, ``idle*``, ``mixed-``.

    Raises :class:`~bftrainer.errors.UnknownStateError` with the text for a word that is no flag:
    unknown is not idle.
    """
    flags: set[NodeFlag] = set()
    for part in state.split("+"):
        word = part.strip()
        name = word.rstrip("".join(_SUFFIXES))
        suffixes = word[len(name) :]
        flags.update(_SUFFIXES[suffix] for suffix in suffixes)
        # One spelling may stand for two flags: DRAINED is IDLE+DRAIN.
        for flag_name in _SPELLINGS.get(name.upper(), name.upper()).split("+"):
            if flag_name not in NodeFlag.__members__:
                raise UnknownStateError("node", state)
            flags.add(NodeFlag[flag_name])
    return frozenset(flags)


LATEST_S = 1e11
"""Slurm's larger numbers are no times."""
# Flags that say how a node came to be, not what it may be used for.
_HARMLESS = frozenset({NodeFlag.CLOUD, NodeFlag.DYNAMIC_NORM})
_ASLEEP = frozenset({NodeFlag.POWERED_DOWN, NodeFlag.POWERING_UP})
_FALLING_ASLEEP = frozenset({NodeFlag.POWERING_DOWN, NodeFlag.POWER_DOWN})
_RUNS_JOBS = frozenset({NodeFlag.ALLOCATED, NodeFlag.MIXED})
# Once the jobs there have ended, the node is out of service, reboots or is powered down.
_WITHDRAWN = frozenset(
    {
        NodeFlag.DRAIN,
        NodeFlag.FAIL,
        NodeFlag.REBOOT_REQUESTED,
        NodeFlag.POWER_DOWN,
        NodeFlag.POWER_DOWN_ASAP,
        NodeFlag.POWER_DRAIN,
    }
)


@lru_cache(maxsize=1024)
def availability_of(state: str) -> Availability:
    """Return what a node's state means for holders. Raises
    :class:`~bftrainer.errors.UnknownStateError` with its text.

    A node is free if its only flags are IDLE and such that do not matter (``sinfo -t idle`` also
    lists drained, reserved and maintenance nodes; measured with 22.05.8). IDLE+PLANNED: backfill
    keeps it for a job that cannot start yet. The flag disappears once a holder is on the node, so
    the end of the window comes from that job's plan, never from the flag.
    """
    flags = flags_of(state) - _HARMLESS
    if flags == {NodeFlag.IDLE}:
        return Availability.FREE
    if flags == {NodeFlag.IDLE, NodeFlag.PLANNED}:
        return Availability.PLANNED
    if flags & _RUNS_JOBS:
        return Availability.BUSY
    idle_or_asleep = (
        NodeFlag.IDLE in flags
        and flags <= {NodeFlag.IDLE, NodeFlag.PLANNED} | _ASLEEP | _FALLING_ASLEEP
    )
    if idle_or_asleep and flags & _FALLING_ASLEEP:
        return Availability.FALLING_ASLEEP
    return Availability.ASLEEP if idle_or_asleep and flags & _ASLEEP else Availability.UNUSABLE


@lru_cache(maxsize=1024)
def gpus_of(gres: str) -> tuple[Device, ...]:
    """Return the GPUs in a list of gres: ``gpu:a100:4(S:0-3),nvme:1`` -> 4 of kind ``a100``."""
    devices = []
    for entry in re.sub(r"\([^)]*\)", "", gres).split(","):
        name, *rest = (word for word in entry.strip().split(":") if word != "no_consume")
        if name == "gpu":
            count = int(rest.pop()) if rest and rest[-1].isdecimal() else 1
            devices.append(Device(":".join(rest), count))
    return tuple(devices)


def node_view(
    name: str,
    state: str,
    partitions: tuple[str, ...],
    gres: str,
    cpus: int,
    last_busy_s: float = 0.0,
) -> NodeView:
    """Build the view of a node from the values that Slurm's commands or pyslurm show.
    ``last_busy_s`` is the end of its latest job in seconds since 1970, 0 where Slurm has not seen a
    job there. Raises :class:`~bftrainer.errors.UnknownStateError`.
    """
    flags = flags_of(state)
    return NodeView(
        name,
        availability_of(state),
        partitions=partitions,
        devices=gpus_of(gres),
        cpus=cpus,
        state=state,
        is_cloud=NodeFlag.CLOUD in flags,
        last_busy_s=last_busy_s if 0 < last_busy_s < LATEST_S else None,
        is_withdrawn=bool(flags & _WITHDRAWN),
    )


_PART = re.compile(r"[^,()]+(?:\([^)]*\))?")
_GPUS_USED = re.compile(r"gpu(?::[^:,()]*)?:(\d+)(?:\(IDX:([\d,-]+|N/A)\))?", re.ASCII)
_MIG = re.compile(r"\d+g\.\d+gb", re.ASCII)


def idle_gpus(gres: str, used: str, drained: str) -> int | None:
    """Return how many GPUs of a node no job has, from its Gres, GresUsed and GresDrain (``scontrol
    -d``, the same text on 22.05.8 and 26.05.5).

    None where they cannot be held one by one: none, several types, shards, MPS or MIG (a GPU with
    shards in use counts as not used), no File= in gres.conf (then used GPUs have no index), or
    drained ones. Raises :class:`~bftrainer.errors.SchedulerError` with text that is not understood.
    """
    names = {part.partition(":")[0] for part in _PART.findall(gres)}
    devices = gpus_of(gres)
    if len(devices) != 1 or names & {"shard", "mps"}:
        return None
    if _MIG.search(devices[0].kind) or drained != "N/A":
        return None
    n_gpus = devices[0].count
    parts = _PART.findall(used.replace("(null)", ""))
    used_gpus = [part for part in parts if part.partition(":")[0] == "gpu"]
    match = _GPUS_USED.fullmatch(used_gpus[0]) if len(used_gpus) == 1 else None
    if match is None or int(match[1]) > n_gpus:
        raise SchedulerError(
            f"cannot tell which GPUs of {gres[:40]!r} are used from GresUsed={used[:80]!r}"
        )
    n_used = int(match[1])
    if n_used == 0:
        return n_gpus
    # IDX:0-1,3, or N/A where used GPUs have no index.
    index_ranges = [part.partition("-") for part in (match[2] or "N/A").split(",")]
    if not index_ranges[0][0].isdecimal():
        return None
    n_listed = sum(int(last or first) - int(first) + 1 for first, _, last in index_ranges)
    if n_listed != n_used:
        raise SchedulerError(f"GresUsed={used[:80]!r} lists other GPUs than it counts")
    return n_gpus - n_used


def with_idle(node: NodeView, idle: Idle | None) -> NodeView:
    """Return the node with its idle part. The node counts as shared if its idle part has GPUs, it
    runs jobs, and no flag of its state forbids that further jobs start there.
    """
    flags = flags_of(node.state) - _HARMLESS
    takes_jobs_beside = flags - {NodeFlag.PLANNED} == {NodeFlag.MIXED}
    is_shared = idle is not None and idle.gpus > 0 and takes_jobs_beside
    availability = Availability.SHARED if is_shared else node.availability
    return replace(node, idle=idle, availability=availability, is_planned=NodeFlag.PLANNED in flags)
