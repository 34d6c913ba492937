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


def idle_nodes(seen: Observation) -> frozenset[str]:
    """All idle nodes, whether or not the configuration allows them."""
    return frozenset(
        node.name
        for node in seen.nodes
        if node.availability in (Availability.FREE, Availability.PLANNED)
    )


def next_end_s(ends: Iterable[tuple[str, float]], seen: Observation, now_s: float) -> float:
    """Return when the next window or reservation ends, by this host's clock; infinite if none
    does.
    """
    all_ends_s = [end_s for _, end_s in ends]
    all_ends_s += [reservation.ends_s + now_s - seen.at_s for reservation in seen.reservations]
    return min((end_s for end_s in all_ends_s if end_s > now_s), default=math.inf)


def may_be_held(node: str, config: NodesConfig) -> bool:
    """Whether ``nodes.hosts`` and ``nodes.exclude`` allow a node."""
    if config.hosts and not matches(node, config.hosts):
        return False
    return not matches(node, config.exclude)


def asleep(seen: Observation, config: NodesConfig) -> frozenset[str]:
    """Nodes that the configuration allows and that are powered down, or are being powered down."""
    return frozenset(
        node.name
        for node in seen.nodes
        if node.availability in _ASLEEP and _is_allowed(node, config)
    )


def _is_allowed(node: NodeView, config: NodesConfig) -> bool:
    in_partitions = not config.partitions or not set(config.partitions).isdisjoint(node.partitions)
    return in_partitions and may_be_held(node.name, config)


def allowed(
    seen: Observation, ours: PilotJobs, config: NodesConfig, class_of: Callable[[str], str | None]
) -> list[str]:
    """Return the names of all nodes, idle or not, that the configuration allows and on which a
    holder could run, sorted.
    """
    return sorted(
        n.name for n in seen.nodes if ours.may_have(n) and _is_usable(n, config, class_of)
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


def offered(
    seen: Observation,
    pilot_jobs: PilotJobs,
    config: NodesConfig,
    class_of: Callable[[str], str | None] = lambda _: None,
) -> dict[str, float]:
    """Return the idle nodes that the configuration allows, each with the seconds that are left of
    its backfill window. Windows shorter than ``nodes.min_window_s`` are left out, and so are shared
    nodes with no GPU to hold.
    """
    return {
        free.node.name: free.window_s(seen.at_s)
        for free in free_nodes(seen, pilot_jobs, config.wake, config.unit.divides_nodes)
        if _is_usable(free.node, config, class_of)
        and free.window_s(seen.at_s) >= config.min_window_s
        and (
            free.node.availability is not Availability.SHARED or part_of(free.node, pilot_jobs).gpus
        )
    }


def part_of(node: NodeView, ours: PilotJobs) -> Idle:
    """Return the GPUs, cores and memory that a holder may take of a node that main jobs share: for
    each GPU a bounded amount of cores and memory, at most an equal share.

    Jobs that need no GPU keep the rest, and start beside it. GPUs without enough cores or memory
    are stranded.
    """
    if node.idle is None or not node.gpu_count or not ours.cpus_per_gpu:
        return Idle(0, 0, 0)
    cpus = max(min(ours.cpus_per_gpu, node.cpus // node.gpu_count), 1)
    mib = max(min(ours.mib_per_gpu, node.idle.of_mib // node.gpu_count), 1)
    gpus = min(node.idle.gpus, node.idle.cpus // cpus, node.idle.mib // mib)
    return Idle(gpus, gpus * cpus, gpus * mib)


def idle_gpus(node: NodeView, ours: PilotJobs) -> int:
    """How many GPUs a holder may take of an idle or shared node."""
    if node.availability is Availability.SHARED:
        return part_of(node, ours).gpus
    return 0 if node.idle is None else node.gpu_count


def idle_with_gpus(seen: Observation, ours: PilotJobs) -> tuple[tuple[str, frozenset[str]], ...]:
    """Return the nodes with GPUs that a main-queue job would get without a preemption, each with
    its partitions: powered down or not, allowed by the configuration or not.
    """
    idle = (Availability.FREE, Availability.PLANNED, *_ASLEEP)
    return tuple(
        (n.name, ours.main_partitions(n))
        for n in seen.nodes
        if n.gpu_count and n.availability in idle
    )


def in_use(seen: Observation, ours: PilotJobs) -> dict[str, int]:
    """Return how many GPUs jobs use on each shared node where a holder could have other GPUs. GPUs
    that a CPU-only job leaves without cores count as used.
    """
    shared = (n for n in seen.nodes if n.availability is Availability.SHARED)
    return {n.name: n.gpu_count - n.idle.gpus for n in shared if n.idle and part_of(n, ours).gpus}


def window_ends_here(seen: Observation, pilot_jobs: PilotJobs, now_s: float) -> dict[str, float]:
    """Return when the window of each node ends, by this host's clock; windows that do not end are
    left out.

    A job that is planned to start by now ends no window: the scheduler preempts the holders that it
    has chosen. Its plan may name others, as long as these take to end (22.05.8).
    """
    ends = window_ends(seen, pilot_jobs).items()
    return {
        node: now_s + end.at_s - seen.at_s
        for node, end in ends
        if end.at_s < math.inf and (end.at_s > seen.at_s or end.kind is not EndKind.PENDING_JOB)
    }
