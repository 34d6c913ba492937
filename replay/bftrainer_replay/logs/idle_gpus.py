"""From jobs on nodes to idle GPUs over time: the j-th GPU of a node is idle while its jobs leave
more than j.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bftrainer.counted import counted
from bftrainer.errors import UserError
from bftrainer_replay.logs.dialect import SACCT
from bftrainer_replay.logs.idle import Ints, NodePeriods, idle_events, taken_periods, together
from bftrainer_replay.logs.job_needs import JobUse
from bftrainer_replay.logs.jobs import JobTable
from bftrainer_replay.logs.logged_nodes import LoggedNodes
from bftrainer_replay.logs.model import NO_FACTS, EventLog, GpuFacts, levels
from bftrainer_replay.logs.node_groups import NodeGroups
from bftrainer_replay.logs.source import Source
from bftrainer_replay.logs.span import TrustedSpan

_ROUNDING = 1e-6
Floats = NDArray[np.float64]


def log_in_gpus(
    source: Source, table: JobTable, span: TrustedSpan, down: NodePeriods, log: EventLog
) -> EventLog:
    """Return the log of idle GPUs that belongs to ``log``, which is of idle nodes (--unit gpu).

    Its events leave out idle GPUs without enough idle cores on their node (--part-cpus); the log
    ``gpus.every`` has them as well. Adds a remark. Raises :class:`UserError` if the log does not
    tell the GPUs of its jobs, or names no nodes.
    """
    facts, options = log.site.nodes, source.options
    if facts is None:
        raise UserError(
            f"{source.path}: names no nodes, so --unit gpu cannot be used; expected a log that "
            "names them"
        )
    gpus = _gpus_of_nodes(source, table, facts)
    per_node = {
        name: count for name, count in zip(table.names, gpus.tolist(), strict=True) if count
    }
    names = tuple(levels(per_node, per_node))
    equal_share = np.divide(facts.cores, gpus, out=np.zeros(len(gpus)), where=gpus > 0)
    cores_per_gpu = np.minimum(equal_share, options.part_cpus)
    every, usable = _idle_gpu_periods(table, span, down, gpus, facts.cores, cores_per_gpu)
    left_out = every.length_h.sum() - usable.length_h.sum()
    source.remarks.append(
        f"{counted(gpus.sum(), 'GPU')} on {counted(len(per_node), 'node')}; "
        f"{every.length_h.sum():,.0f} "
        "GPU-hours are idle, "
        + (
            f"{left_out:,.0f} of them without {options.part_cpus:g} cores or an equal share "
            "(--part-cpus)"
            if facts.cores.any()
            else "and the log does not tell whether cores are left beside them"
        )
    )
    in_gpus = replace(log, queue=None, site=NO_FACTS, machine_nodes=len(names))
    events, all_events = (
        idle_events(periods, NodeGroups.alone(names), span, options.debounce_s)
        for periods in (usable, every)
    )
    with_stranded = replace(in_gpus, events=all_events) if facts.cores.any() else None
    return replace(in_gpus, events=events, gpus=GpuFacts(per_node, log, with_stranded))


def _gpus_of_nodes(source: Source, table: JobTable, facts: LoggedNodes) -> Ints:
    """Return the number of GPUs of each node: as specified, or the most that jobs used at once.

    They are specified by --gpus-per-node or --node-info; a remark tells of a guess. --gpus-per-node
    holds only for nodes on which the log has any GPU. Raises :class:`UserError` if it has none at
    all, or more on a node than the option says.
    """
    # The margin keeps rounding errors of sums from adding a GPU.
    recorded = np.ceil(
        _gpu_total(facts.devices.items(), np.zeros(len(facts.names))) - _ROUNDING
    ).astype(np.int64)
    if not recorded.any():
        if source.dialect is not SACCT:
            raise UserError(
                f"{source.path}: does not tell the GPUs of its jobs; --unit gpu needs sacct's "
                "AllocTRES"
            )
        raise UserError(
            f"{source.path}: no job has gres/gpu in AllocTRES; set "
            "AccountingStorageTRES=gres/gpu in slurm.conf (for the "
            "jobs from then on)"
        )
    specified = source.options.gpus_per_node
    if specified is None:
        source.remarks.append(
            "the GPUs of a node are those of --node-info"
            if facts.is_told
            else "the GPUs of a node are the most in use on it at once; specify them with "
            "--gpus-per-node or --node-info"
        )
        return recorded
    if recorded.max() > specified:
        node = facts.names[int(recorded.argmax())]
        raise UserError(
            f"--gpus-per-node {specified}: {source.path} has {recorded.max()} GPUs of node "
            f"{node:.60} in use at once"
        )
    return np.where(recorded > 0, specified, 0)


def _gpu_total(devices: Iterable[tuple[str, Floats]], nothing: Floats) -> Floats:
    """Return the number of GPUs of all types: the count of ``gpu``, or the sum of those of
    ``gpu:a100`` and the like where that is larger. ``nothing`` is a 0 of the counts' shape.
    """
    counts = dict(devices)
    typed = [count for name, count in counts.items() if name.startswith("gpu:")]
    return np.maximum(counts.get("gpu", nothing), sum(typed, nothing))


def _gpus_of(use: JobUse) -> float:
    return float(
        _gpu_total(((name, np.array(count)) for name, count in use.devices), np.array(0.0))
    )


def _idle_gpu_periods(
    table: JobTable,
    span: TrustedSpan,
    down: NodePeriods,
    gpus: Ints,
    cores: Floats,
    cores_per_gpu: Floats,
) -> tuple[NodePeriods, NodePeriods]:
    """Return when each GPU is idle, and when it is idle with enough cores left beside it.

    ``gpus`` and ``cores`` are those of each node, and ``cores_per_gpu`` are the cores that a GPU
    needs there. GPUs are numbered node after node.
    """
    first_gpu = np.cumsum(gpus) - gpus
    # Amounts are rows of (GPUs, cores): used by a job on each of its nodes, or all of a node.
    amounts_of_use = np.array([(_gpus_of(use), use.cores) for use in table.all_uses])
    amounts_of_node = np.stack((gpus, cores), axis=1)
    idle_periods: list[NodePeriods] = []
    usable_periods: list[NodePeriods] = []
    for taken, jobs in taken_periods(table, span, down):
        amounts = np.concatenate(
            (amounts_of_use[table.use[jobs]], amounts_of_node[taken.nodes[len(jobs) :]])
        )
        at_ms, node, in_use = _running_sums(taken, amounts)
        n_idle = gpus[node] - np.ceil(in_use[:, 0] - _ROUNDING).astype(np.int64)
        # The number of GPUs for which the idle cores suffice; no limit where no cores are needed.
        enough_for = np.full(len(node), np.inf)
        idle_cores = cores[node] - in_use[:, 1]
        np.divide(idle_cores, cores_per_gpu[node], out=enough_for, where=cores_per_gpu[node] > 0)
        enough_for = np.floor(np.clip(enough_for, 0, 1e6) + _ROUNDING)
        n_usable = np.minimum(n_idle, enough_for.astype(np.int64))
        idle_periods += _periods_by_gpu(at_ms, node, n_idle, first_gpu)
        usable_periods += _periods_by_gpu(at_ms, node, n_usable, first_gpu)
    return together(idle_periods), together(usable_periods)


def _running_sums(taken: NodePeriods, amounts: Floats) -> tuple[Ints, Ints, Floats]:
    """Return (time, node, sum of the amounts in use on the node from then on), by node and time.

    There is one for each time at which a period of the node begins or ends. ``amounts[k]`` is in
    use in period k.
    """
    at_ms = np.concatenate((taken.since, taken.until))
    node = np.concatenate((taken.nodes, taken.nodes))
    order = np.lexsort((at_ms, node))
    at_ms, node = at_ms[order], node[order]
    # One running sum serves all nodes: it is 0 after the last time of each.
    sums = np.cumsum(np.concatenate((amounts, -amounts))[order], axis=0)
    is_last_of_time = np.append((np.diff(at_ms) != 0) | (np.diff(node) != 0), True)
    return at_ms[is_last_of_time], node[is_last_of_time], sums[is_last_of_time]


def _periods_by_gpu(at_ms: Ints, node: Ints, n_free: Ints, first_gpu: Ints) -> list[NodePeriods]:
    """Return the idle periods of single GPUs, from the number of free GPUs of each node over time.

    GPU ``k`` of a node is idle while more than ``k`` are free. ``n_free[j]`` holds on ``node[j]``
    from ``at_ms[j]`` to the node's next time; a node's last time is its end. ``first_gpu`` is the
    number of each node's first GPU.
    """
    periods = []
    is_end = np.append(node[1:] != node[:-1], True)
    for index in range(int(n_free.max(initial=0))):
        # A node's last time is never idle, so no period extends into the next node's times.
        is_idle = (n_free > index) & ~is_end
        was_idle = np.concatenate(([False], is_idle[:-1]))
        begins = np.flatnonzero(is_idle & ~was_idle)
        ends = np.flatnonzero(was_idle & ~is_idle)
        periods.append(NodePeriods(first_gpu[node[begins]] + index, at_ms[begins], at_ms[ends]))
    return periods
