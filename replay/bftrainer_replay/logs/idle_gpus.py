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
from bftrainer_replay.logs.source import Source
from bftrainer_replay.logs.span import TrustedSpan

_ROUNDING = 1e-6
Floats = NDArray[np.float64]


def log_in_gpus(
    source: Source, table: JobTable, span: TrustedSpan, down: NodePeriods, log: EventLog
) -> EventLog:
    """Return the log of idle GPUs that belongs to ``log``, which is of idle nodes (--unit gpu).

    Raises :class:`UserError` if the log does not tell the GPUs of its jobs, or names no nodes.
    """
    facts, options = log.site.nodes, source.options
    if facts is None:
        raise UserError(
            f"{source.path}: names no nodes, so --unit gpu cannot be used; expected a log that "
            "names them"
        )
    gpus = _gpus_of_nodes(source, table, facts)
    has = gpus > 0
    per_node = {
        name: count for name, count in zip(table.names, gpus.tolist(), strict=True) if count
    }
    names = tuple(levels(per_node, per_node))
    share = np.divide(facts.cores, gpus, out=np.zeros(len(gpus)), where=has)
    every, usable = _spells(
        table, span, down, gpus, facts.cores, np.minimum(share, options.part_cpus)
    )
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
        idle_events(spells, names, span, options.debounce_s) for spells in (usable, every)
    )
    with_stranded = replace(in_gpus, events=all_events) if facts.cores.any() else None
    return replace(in_gpus, events=events, gpus=GpuFacts(per_node, log, with_stranded))


def _gpus_of_nodes(source: Source, table: JobTable, facts: LoggedNodes) -> Ints:
    """Return the number of GPUs of each node: from --gpus-per-node, --node-info, or the most that
    jobs used at once.
    """
    recorded = np.ceil(_sum(facts.devices.items(), np.zeros(len(facts.names))) - _ROUNDING).astype(
        np.int64
    )
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
    if (given := source.options.gpus_per_node) is None:
        source.remarks.append(
            "the GPUs of a node are those of --node-info"
            if facts.is_told
            else "the GPUs of a node are the most in use on it at once; specify them with "
            "--gpus-per-node or --node-info"
        )
        return recorded
    if recorded.max() > given:
        node = facts.names[int(recorded.argmax())]
        raise UserError(
            f"--gpus-per-node {given}: {source.path} has {recorded.max()} GPUs of node {node:.60} "
            "in use at once"
        )
    return np.where(recorded > 0, given, 0)


def _sum(devices: Iterable[tuple[str, Floats]], nothing: Floats) -> Floats:
    """Return the number of GPUs of all types: ``gpu``, or the sum of ``gpu:a100`` and the like
    where that is larger.
    """
    counts = dict(devices)
    typed = [count for name, count in counts.items() if name.startswith("gpu:")]
    return np.maximum(counts.get("gpu", nothing), sum(typed, nothing))


def _gpus_of(use: JobUse) -> float:
    return float(_sum(((name, np.array(count)) for name, count in use.devices), np.array(0.0)))


def _spells(
    table: JobTable,
    span: TrustedSpan,
    down: NodePeriods,
    gpus: Ints,
    cores: Floats,
    cores_each: Floats,
) -> tuple[NodePeriods, NodePeriods]:
    """Return the periods in which each GPU is idle, and those in which it is idle with
    ``cores_each`` cores of its node left beside it. GPUs are numbered node after node.
    """
    offset = np.cumsum(gpus) - gpus
    used, has = (
        np.array([(_gpus_of(use), use.cores) for use in table.all_uses]),
        np.stack((gpus, cores), axis=1),
    )
    by_level: tuple[list[NodePeriods], list[NodePeriods]] = ([], [])
    for taken, job in taken_periods(table, span, down):
        amount = np.concatenate((used[table.use[job]], has[taken.nodes[len(job) :]]))
        at, who = (
            np.concatenate((taken.since, taken.until)),
            np.concatenate((taken.nodes, taken.nodes)),
        )
        order = np.lexsort((at, who))
        at, who = at[order], who[order]
        sums = np.cumsum(np.concatenate((amount, -amount))[order], axis=0)
        is_last = np.append((np.diff(at) != 0) | (np.diff(who) != 0), True)
        at, who, sums = at[is_last], who[is_last], sums[is_last]
        idle = gpus[who] - np.ceil(sums[:, 0] - _ROUNDING).astype(np.int64)
        room = np.full(len(who), np.inf)
        np.divide(cores[who] - sums[:, 1], cores_each[who], out=room, where=cores_each[who] > 0)
        with_cores = np.minimum(idle, np.floor(np.clip(room, 0, 1e6) + _ROUNDING).astype(np.int64))
        for periods, free in zip(by_level, (idle, with_cores), strict=True):
            periods += _by_level(at, who, free, offset)
    return together(by_level[0]), together(by_level[1])


def _by_level(at: Ints, node: Ints, free: Ints, offset: Ints) -> list[NodePeriods]:
    """Turn the number of free GPUs of each node over time into idle periods of single GPUs: GPU
    ``k`` of a node is idle while more than ``k`` are free.

    ``free[j]`` holds on ``node[j]`` from ``at[j]`` to the node's next time; a node's last time is
    its end. ``offset`` is the number of a node's first GPU.
    """
    periods = []
    is_end = np.append(node[1:] != node[:-1], True)
    for level in range(int(free.max(initial=0))):
        idle = (free > level) & ~is_end
        before = np.concatenate(
            ([False], idle[:-1])
        )  # a node's last time is never idle, so no period goes on into the next node's times
        begins, ends = np.flatnonzero(idle & ~before), np.flatnonzero(before & ~idle)
        periods.append(NodePeriods(offset[node[begins]] + level, at[begins], at[ends]))
    return periods
