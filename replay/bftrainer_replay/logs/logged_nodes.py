"""What a job log tells about nodes: the partition, devices and features of a node are those of the
jobs that ran on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bftrainer_replay.logs.job_needs import JobNeeds
from bftrainer_replay.logs.jobs import JobTable

_MOST_BYTES = 64_000_000
_MOST_SETS = 512
_ENOUGH = 1e-6
"""Shares of a job on its nodes are fractions; sums of them are off by their last bits."""
NodeMask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class LoggedNodes:
    """Arrays over ``names``. ``cores`` and ``devices``: what a node has if ``is_told``, else the
    most in use on it at once.

    ``jobs_per_busy_node``: jobs on a node, on average over the time in which it has any.
    ``left_out`` counts partitions and constraints beyond the limit, for which every node counts.
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
        """Return the nodes of a partition, or of any partition in a list such as ``gpu,long``; all
        nodes if it is not known.
        """
        everyone = np.ones(len(self.names), dtype=np.bool_)
        if not text or not self.partitions or (self.left_out and text not in self.partitions):
            return everyone
        nothing = np.zeros(len(self.names), dtype=np.bool_)
        node_sets = [self.partitions.get(name, nothing) for name in text.split(",")]
        union: NodeMask = np.logical_or.reduce(node_sets)
        return union

    def suited(self, needs: JobNeeds) -> NodeMask:
        """Return the nodes with the cores, devices and constraint that a job needs, in any
        partition.
        """
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
        """Return the devices of each node in words: ``gpu:a100 x4``, or ``no device``."""
        typed = {name for name in self.devices if ":" in name}
        shown = {
            name: peak
            for name, peak in self.devices.items()
            if name in typed or f"{name}:" not in " ".join(typed)
        }
        columns = [
            (name, np.ceil(peak - _ENOUGH).astype(int).tolist())
            for name, peak in sorted(shown.items())
        ]
        return [
            ", ".join(f"{name} x{peak[node]}" for name, peak in columns if peak[node])
            or "no device"
            for node in range(len(self.names))
        ]


def nodes_from_jobs(table: JobTable, finish_s: float) -> LoggedNodes:
    """Derive what each node has from the jobs that ran on it: its partitions, its constraints, and
    the most cores and devices that jobs used at once.

    The table's jobs name their nodes. Jobs that still run are taken to end at ``finish_s``.
    """
    names = len(table.names)
    max_sets = min(_MOST_SETS, max(1, _MOST_BYTES // max(names, 1)))
    # A job that has run was in one partition; older versions of sacct keep the list that it was
    # submitted to.
    partitions = _NodeSets.of([amount.partition for amount in table.all_needs], table, max_sets)
    constraints = _NodeSets.of([amount.constraint for amount in table.all_needs], table, max_sets)
    kinds = sorted({device for use in table.all_uses for device, _ in use.devices})[:16]
    # The amounts in use are those of cores, then of each kind of device; so are the peaks.
    amounts = [np.array([use.cores for use in table.all_uses])]
    amounts += [
        np.array([dict(use.devices).get(kind, 0.0) for use in table.all_uses]) for kind in kinds
    ]
    peaks = np.zeros((len(amounts), names))
    job_s = busy_s = 0.0
    for first, last, places, job in table.by_nodes():
        members = table.members[places]
        for sets in (partitions, constraints):
            sets.add(table.needs[job], members)
        start, end = (
            np.minimum(table.start_s[job], finish_s),
            np.minimum(table.end_s[job], finish_s),
        )
        timeline = _NodeTimeline.of(members - first, start, end)
        for amount, peak in zip(amounts, peaks, strict=True):
            if amount.any():
                peak[first:last] = timeline.peaks(amount[table.use[job]], last - first)
        job_s, busy_s = np.add((job_s, busy_s), timeline.job_and_busy_s())
    named = partitions.named()
    alone = {name: nodes for name, nodes in named.items() if "," not in name}
    return LoggedNodes(
        table.names,
        alone or named,
        constraints.named(),
        peaks[0],
        dict(zip(kinds, peaks[1:], strict=True)),
        float(job_s / busy_s) if busy_s else 1.0,
        partitions.left_out + constraints.left_out,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _NodeSets:
    """For each text in the needs of jobs (a partition or a constraint), the nodes that jobs with it
    ran on. ``left_out`` is the number of rare texts for which no nodes are kept.
    """

    texts: list[str]
    place: NDArray[np.int64]
    nodes: NodeMask
    left_out: int

    @classmethod
    def of(cls, texts: list[str], table: JobTable, max_sets: int) -> _NodeSets:
        """Prepare sets without nodes for the ``max_sets`` texts whose jobs held most nodes;
        ``texts[k]`` is that of ``table.all_needs[k]``.
        """
        number = {text: k for k, text in enumerate(dict.fromkeys(filter(None, texts)))}
        of_needs = np.array([number.get(text, len(number)) for text in texts])
        ran = np.zeros(len(number) + 1)
        for part in table.parts():
            held = np.diff(table.first[part.start : part.stop + 1])
            ran += np.bincount(of_needs[table.needs[part]], weights=held, minlength=len(ran))
        chosen = np.argsort(-ran[:-1], kind="stable")[:max_sets]
        place = np.full(len(number) + 1, len(chosen))
        place[chosen] = np.arange(len(chosen))
        nodes = np.zeros((len(chosen) + 1, len(table.names)), dtype=np.bool_)
        names = list(number)
        return cls(
            [names[k] for k in chosen.tolist()], place[of_needs], nodes, len(number) - len(chosen)
        )

    def add(self, needs: NDArray[np.int32], members: NDArray[np.int32]) -> None:
        """Note that jobs with these needs ran on these nodes."""
        self.nodes[self.place[needs], members] = True

    def named(self) -> dict[str, NodeMask]:
        """Return the nodes by text, without texts of which no job ran on a node."""
        return {
            text: nodes
            for text, nodes in zip(self.texts, self.nodes[:-1], strict=True)
            if nodes.any()
        }


@dataclass(frozen=True, slots=True, eq=False)
class _NodeTimeline:
    """Starts and ends of all places (a job on a node) by node and time, ends first. ``order``
    counts starts, then ends; ``edges`` is where a node's begin, ``owners`` whose they are.
    """

    order: NDArray[np.int64]
    at_s: NDArray[np.float64]
    edges: NDArray[np.int64]
    owners: NDArray[np.int64]

    @classmethod
    def of(
        cls, members: NDArray[np.int32], start: NDArray[np.float64], end: NDArray[np.float64]
    ) -> _NodeTimeline:
        """Sort the starts and ends of places by node and time; ``members`` is the node of each
        place.
        """
        at, who = np.concatenate((start, end)), np.concatenate((members, members))
        is_start = np.arange(len(at)) < len(start)
        order = np.lexsort((is_start, at, who))
        edges = np.flatnonzero(np.diff(who[order], prepend=-1))
        return cls(order, at[order], edges, who[order][edges].astype(np.int64))

    def sums(self, amounts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum the amounts of the jobs that are on a node, after each start and end; ``amounts`` has
        one per place.
        """
        sums: NDArray[np.float64] = np.cumsum(np.concatenate((amounts, -amounts))[self.order])
        return sums

    def peaks(self, amounts: NDArray[np.float64], names: int) -> NDArray[np.float64]:
        """Return the largest sum of amounts at any time, by node."""
        peaks = np.zeros(names)
        if len(self.order):
            peaks[self.owners] = np.maximum.reduceat(self.sums(amounts), self.edges)
        return peaks

    def job_and_busy_s(self) -> tuple[float, float]:
        """Return the total seconds of all jobs on all nodes, and the seconds in which a node had
        any job: their ratio is the mean number of jobs on a busy node.
        """
        if not len(self.order):
            return 0.0, 0.0
        running = self.sums(np.ones(len(self.order) // 2))
        length_s = np.diff(self.at_s, append=self.at_s[-1])
        length_s[self.edges[1:] - 1] = 0.0  # from a node's last end to the next node's first start
        return float(np.dot(running, length_s)), float(length_s[running > 0.5].sum())
