"""What a job log tells about nodes: the partition, devices and features of a node are those of the jobs that ran on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bftrainer_replay.logs.jobs import JobTable
from bftrainer_replay.logs.needs import JobNeeds

_MOST_BYTES = 64_000_000
_MOST_SETS = 512
_ENOUGH = 1e-6
"""Shares of a job on its nodes are fractions; sums of them are off by their last bits."""
NodeMask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class LoggedNodes:
    """Arrays over ``names``. ``cores`` and ``devices``: what a node has if ``is_told``, else the most in use on it at once.

    ``jobs_per_busy_node``: jobs on a node, on average over the time in which it has any. ``left_out`` counts partitions and
    constraints beyond the limit, for which every node counts.
    """

    names: tuple[str, ...]
    partitions: Mapping[str, NodeMask]
    constraints: Mapping[str, NodeMask]
    cores: NDArray[np.float64]
    devices: Mapping[str, NDArray[np.float64]]
    jobs_per_busy_node: float = 1.0
    left_out: int = 0
    is_told: bool = False

    def of_partition(self, text: str) -> NodeMask:
        """The nodes of a partition, or of any in a list."""
        everyone = np.ones(len(self.names), dtype=np.bool_)
        if not text or not self.partitions or (self.left_out and text not in self.partitions):
            return everyone
        nothing = np.zeros(len(self.names), dtype=np.bool_)
        found = [self.partitions.get(name, nothing) for name in text.split(",")]
        union: NodeMask = np.logical_or.reduce(found)
        return union

    def suited(self, needs: JobNeeds) -> NodeMask:
        """The nodes that have what a job needs, in any partition."""
        fit = np.ones(len(self.names), dtype=np.bool_)
        if self.cores.any():
            fit &= self.cores + _ENOUGH >= needs.cores
        for device, count in needs.devices:
            if device in self.devices:
                fit &= self.devices[device] + _ENOUGH >= count
            elif self.devices:
                fit &= False
        if needs.constraint in self.constraints:
            fit &= self.constraints[needs.constraint]
        return fit

    def device_type(self) -> list[str]:
        """Of each node, in words: ``gpu:a100 x4``, or ``no device``."""
        typed = {name for name in self.devices if ":" in name}
        shown = {
            name: most for name, most in self.devices.items() if name in typed or f"{name}:" not in " ".join(typed)
        }
        columns = [(name, np.ceil(most - _ENOUGH).astype(int).tolist()) for name, most in sorted(shown.items())]
        return [
            ", ".join(f"{name} x{most[node]}" for name, most in columns if most[node]) or "no device"
            for node in range(len(self.names))
        ]


def facts_of(table: JobTable, finish_s: float) -> LoggedNodes:
    """Derive the facts of a table with named nodes; running jobs run to ``finish_s``."""
    counts = np.diff(table.first)
    names = len(table.names)
    job = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    needs = table.needs[job]
    most = min(_MOST_SETS, max(1, _MOST_BYTES // max(names, 1)))
    # A job that has run was in one partition; older versions of sacct keep the list that it was submitted to.
    partitions, more = _sets([each.partition for each in table.all_needs], needs, table.members, names, most)
    constraints, others = _sets([each.constraint for each in table.all_needs], needs, table.members, names, most)
    alone = {name: nodes for name, nodes in partitions.items() if "," not in name}
    start, end = np.minimum(table.start_s[job], finish_s), np.minimum(table.end_s[job], finish_s)
    timeline = _Timeline.of(table.members, start, end)
    cores = np.array([use.cores for use in table.all_uses])
    kinds = sorted({device for use in table.all_uses for device, _ in use.devices})[:16]
    use = table.use[job]

    def peak(each: NDArray[np.float64]) -> NDArray[np.float64]:
        return timeline.peaks(each[use], names)

    devices = {kind: peak(np.array([dict(each.devices).get(kind, 0.0) for each in table.all_uses])) for kind in kinds}
    peaks = peak(cores) if cores.any() else np.zeros(names)
    shared = timeline.jobs_per_busy_node()
    return LoggedNodes(table.names, alone or partitions, constraints, peaks, devices, shared, more + others)


def _sets(
    texts: list[str], needs: NDArray[np.int32], members: NDArray[np.int32], names: int, most: int
) -> tuple[dict[str, NodeMask], int]:
    """The nodes that jobs with each text ran on, and how many texts are beyond ``most``."""
    number: dict[str, int] = {}
    of_needs = np.array([number.setdefault(text, len(number)) if text else -1 for text in texts], dtype=np.int32)
    text_of = of_needs[needs]
    ran = np.bincount(text_of[text_of >= 0], minlength=len(number)) if len(number) else np.empty(0, dtype=np.int64)
    chosen = np.argsort(-ran, kind="stable")[:most]
    place = np.full(len(number) + 1, -1, dtype=np.int32)
    place[chosen] = np.arange(len(chosen), dtype=np.int32)
    where = place[text_of]
    inside = where >= 0
    nodes = np.zeros((len(chosen), names), dtype=np.bool_)
    nodes[where[inside], members[inside]] = True
    known = list(number)
    return {known[each]: nodes[k] for k, each in enumerate(chosen.tolist()) if nodes[k].any()}, len(number) - len(
        chosen
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Timeline:
    """Starts and ends of all places (a job on a node) by node and time, ends first. ``order`` counts starts, then ends;
    ``edges`` is where a node's begin, ``owners`` whose they are.
    """

    order: NDArray[np.int64]
    at_s: NDArray[np.float64]
    edges: NDArray[np.int64]
    owners: NDArray[np.int64]

    @classmethod
    def of(cls, members: NDArray[np.int32], start: NDArray[np.float64], end: NDArray[np.float64]) -> _Timeline:
        at, who = np.concatenate((start, end)), np.concatenate((members, members))
        is_start = np.arange(len(at)) < len(start)
        order = np.lexsort((is_start, at, who))
        edges = np.flatnonzero(np.diff(who[order], prepend=-1))
        return cls(order, at[order], edges, who[order][edges].astype(np.int64))

    def sums(self, each: NDArray[np.float64]) -> NDArray[np.float64]:
        """What the places of a node add up to after each start and end."""
        found: NDArray[np.float64] = np.cumsum(np.concatenate((each, -each))[self.order])
        return found

    def peaks(self, each: NDArray[np.float64], names: int) -> NDArray[np.float64]:
        """The largest sum at any time, by node."""
        found = np.zeros(names)
        if len(self.order):
            found[self.owners] = np.maximum.reduceat(self.sums(each), self.edges)
        return found

    def jobs_per_busy_node(self) -> float:
        """Places on a node, on average over the time in which it has any."""
        if not len(self.order):
            return 1.0
        running = self.sums(np.ones(len(self.order) // 2))
        length_s = np.diff(self.at_s, append=self.at_s[-1])
        length_s[self.edges[1:] - 1] = 0.0  # from a node's last end to the next node's first start
        busy_s = float(length_s[running > 0.5].sum())
        return float(np.dot(running, length_s)) / busy_s if busy_s else 1.0
