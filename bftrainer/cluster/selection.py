"""Which nodes of an observation the configuration lets the pilot request, and for how long.
Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from bftrainer.cluster.model import Availability, Idle, NodeView, Observation
from bftrainer.cluster.windows import EndKind, PilotJobs, free_nodes, window_ends
from bftrainer.config.host_lists import matches
from bftrainer.config.pilot import NodesConfig

_ASLEEP = (Availability.ASLEEP, Availability.FALLING_ASLEEP)


def idle_nodes(observation: Observation) -> frozenset[str]:
    """Return the names of all idle nodes, whether or not the configuration allows them."""
    return frozenset(
        node.name
        for node in observation.nodes
        if node.availability in (Availability.FREE, Availability.PLANNED)
    )


def next_end_s(ends: Iterable[tuple[str, float]], observation: Observation, now_s: float) -> float:
    """Return when the next window or reservation ends, by this host's clock; infinite if none
    does.

    ``ends`` has (node, end of its window by this host's clock), and ``now_s`` is the time of the
    observation by that clock.
    """
    all_ends_s = [end_s for _, end_s in ends]
    all_ends_s += [
        reservation.ends_s + now_s - observation.at_s for reservation in observation.reservations
    ]
    return min((end_s for end_s in all_ends_s if end_s > now_s), default=math.inf)


def may_be_held(node: str, config: NodesConfig) -> bool:
    """Whether ``nodes.hosts`` and ``nodes.exclude`` allow a node."""
    if config.hosts and not matches(node, config.hosts):
        return False
    return not matches(node, config.exclude)


def asleep_nodes(observation: Observation, config: NodesConfig) -> frozenset[str]:
    """Return the names of the nodes that the configuration allows and that are powered down, or are
    being powered down.
    """
    return frozenset(
        node.name
        for node in observation.nodes
        if node.availability in _ASLEEP and _is_allowed(node, config)
    )


def _is_allowed(node: NodeView, config: NodesConfig) -> bool:
    """Whether the configuration allows a node by partition and name."""
    if config.partitions and set(config.partitions).isdisjoint(node.partitions):
        return False
    return may_be_held(node.name, config)


def allowed_nodes(
    observation: Observation,
    ours: PilotJobs,
    config: NodesConfig,
    class_of: Callable[[str], str | None],
) -> list[str]:
    """Return the names of all nodes, idle or not, that the configuration allows and on which a
    holder could run, sorted.

    ``class_of`` gives the class of a node by its name, if the configuration has one for it.
    """
    return sorted(
        node.name
        for node in observation.nodes
        if ours.may_have(node) and _is_usable(node, config, class_of)
    )


def _is_usable(node: NodeView, config: NodesConfig, class_of: Callable[[str], str | None]) -> bool:
    """Whether the configuration lets the pilot request a node: by partition, name, class and cloud,
    and, where trainers get single GPUs, only if its GPUs can be held one by one.
    """
    return (
        _is_allowed(node, config)
        and (config.cloud or not node.is_cloud)
        and config.node_class in (None, class_of(node.name) or node.node_class)
        and (node.idle is not None or not config.unit.divides_nodes)
    )


def offered_windows(
    observation: Observation,
    pilot_jobs: PilotJobs,
    config: NodesConfig,
    class_of: Callable[[str], str | None] = lambda _: None,
) -> dict[str, float]:
    """Return the idle nodes that the configuration allows, each with the seconds that are left of
    its backfill window. Windows shorter than ``nodes.min_window_s`` are left out, and so are shared
    nodes with no GPU to hold.
    """
    windows_s = {}
    for free in free_nodes(observation, pilot_jobs, config.wake, config.unit.divides_nodes):
        node = free.node
        window_s = free.window_s(observation.at_s)
        if window_s < config.min_window_s or not _is_usable(node, config, class_of):
            continue
        if node.availability is Availability.SHARED and not part_of(node, pilot_jobs).gpus:
            continue
        windows_s[node.name] = window_s
    return windows_s


def part_of(node: NodeView, ours: PilotJobs) -> Idle:
    """Return the GPUs, cores and memory that a holder may take of a node that main jobs share: for
    each GPU a bounded amount of cores and memory, at most an equal share.

    Jobs that need no GPU keep the rest, and start beside it. GPUs without enough cores or memory
    are stranded. Nothing may be taken where GPUs cannot be held one by one.
    """
    if node.idle is None or not node.gpu_count or not ours.cpus_per_gpu:
        return Idle(gpus=0, cpus=0, mib=0)
    cpus_per_gpu = max(min(ours.cpus_per_gpu, node.cpus // node.gpu_count), 1)
    mib_per_gpu = max(min(ours.mib_per_gpu, node.idle.of_mib // node.gpu_count), 1)
    gpus = min(node.idle.gpus, node.idle.cpus // cpus_per_gpu, node.idle.mib // mib_per_gpu)
    return Idle(gpus=gpus, cpus=gpus * cpus_per_gpu, mib=gpus * mib_per_gpu)


def idle_gpus(node: NodeView, ours: PilotJobs) -> int:
    """Return how many GPUs a holder may take of an idle or shared node; 0 where GPUs cannot be held
    one by one.
    """
    if node.availability is Availability.SHARED:
        return part_of(node, ours).gpus
    return 0 if node.idle is None else node.gpu_count


def idle_gpu_nodes(
    observation: Observation, ours: PilotJobs
) -> tuple[tuple[str, frozenset[str]], ...]:
    """Return the nodes with GPUs that a main-queue job would get without a preemption, each with
    its partitions: powered down or not, allowed by the configuration or not.
    """
    idle = (Availability.FREE, Availability.PLANNED, *_ASLEEP)
    return tuple(
        (node.name, ours.main_partitions(node))
        for node in observation.nodes
        if node.gpu_count and node.availability in idle
    )


def used_gpu_counts(observation: Observation, ours: PilotJobs) -> dict[str, int]:
    """Return how many GPUs jobs use on each shared node where a holder could have other GPUs. GPUs
    that a CPU-only job leaves without cores count as used.
    """
    counts = {}
    for node in observation.nodes:
        is_shared = node.availability is Availability.SHARED
        if is_shared and node.idle is not None and part_of(node, ours).gpus:
            counts[node.name] = node.gpu_count - node.idle.gpus
    return counts


def window_ends_by_host_clock(
    observation: Observation, pilot_jobs: PilotJobs, now_s: float
) -> dict[str, float]:
    """Return when the window of each node ends, by this host's clock; windows that do not end are
    left out.

    ``now_s`` is the time of the observation by that clock. A pending job whose planned start has
    passed ends no window. The scheduler has already chosen the holders that it preempts for the
    job, and until these have ended, its plan may name other nodes (seen with 22.05.8).
    """
    ends_s = {}
    for node, end in window_ends(observation, pilot_jobs).items():
        is_due_job = end.kind is EndKind.PENDING_JOB and end.at_s <= observation.at_s
        if end.at_s < math.inf and not is_due_job:
            ends_s[node] = now_s + end.at_s - observation.at_s
    return ends_s
