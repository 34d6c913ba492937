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
from bftrainer_replay.logs.node_groups import NodeGroups

_MOST_BYTES = 64_000_000
_MOST_SETS = 512
_ENOUGH = 1e-6
"""Shares of a job on its nodes are fractions; sums of them are off by their last bits."""
NodeMask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class LoggedNodes:
    """The nodes of a log; all arrays have one element per name in ``names``.

    ``partitions`` and ``constraints`` are masks of the nodes on which jobs with these words ran.
    ``cores`` and ``devices``: those of a node if ``is_told`` (by --node-info), else the most in use
    on it at once. ``jobs_per_busy_node`` is the number of jobs on a node, on average over the time
    in which it has any. ``left_out`` counts the rare partitions and constraints without a mask, for
    which every node counts.
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
        """Return the nodes of a partition, or of any partition in a list such as ``gpu,long``.

        It returns all nodes for an empty text, and where the log does not tell the nodes of the
        partition.
        """
        # A rare partition has no list of its nodes: any node may be in it.
        may_be_left_out = self.left_out > 0 and text not in self.partitions
        if not text or not self.partitions or may_be_left_out:
            return np.ones(len(self.names), dtype=np.bool_)
        nothing = np.zeros(len(self.names), dtype=np.bool_)
        node_sets = [self.partitions.get(name, nothing) for name in text.split(",")]
        union: NodeMask = np.logical_or.reduce(node_sets)
        return union

    def suited(self, needs: JobNeeds) -> NodeMask:
        """Return the nodes with the cores, devices and constraint that a job needs, in any
        partition. A kind of needs of which the log has no node facts excludes no node.
        """
        fit = np.ones(len(self.names), dtype=np.bool_)
        if self.cores.any():
            fit &= self.cores + _ENOUGH >= needs.cores
        for device, count in needs.devices:
            if device in self.devices:
                fit &= self.devices[device] + _ENOUGH >= count
            # The log knows devices, but no node has this one.
            elif self.devices:
                fit &= False
        if needs.constraint in self.constraints:
            fit &= self.constraints[needs.constraint]
        return fit

    def device_type(self) -> list[str]:
        """Return the devices of each node in words: ``gpu:a100 x4``, or ``no device``.

        Amounts are shares of jobs, which are rounded up to whole devices.
        """
        with_type = {name for name in self.devices if ":" in name}
        # A total ("gpu") is not listed beside the counts of its types ("gpu:a100").
        listed = {
            name: counts
            for name, counts in self.devices.items()
            if name in with_type or f"{name}:" not in " ".join(with_type)
        }
        columns = [
            (name, np.ceil(counts - _ENOUGH).astype(int).tolist())
            for name, counts in sorted(listed.items())
        ]
        return [
            ", ".join(f"{name} x{counts[node]}" for name, counts in columns if counts[node])
            or "no device"
            for node in range(len(self.names))
        ]


def nodes_from_jobs(
    table: JobTable, grouped: JobTable, groups: NodeGroups, finish_s: float
) -> LoggedNodes:
    """Return what each node has, derived from the jobs that ran on it.

    That is its partitions, its constraints, and the most cores and devices that jobs used at once.
    The table's jobs name their nodes; ``grouped`` are the same jobs on ``groups`` of nodes. Jobs
    that still run are taken to end at ``finish_s``.
    """
    max_sets = min(_MOST_SETS, max(1, _MOST_BYTES // max(len(table.names), 1)))
    partitions = _NodeSets.prepared([needs.partition for needs in table.all_needs], table, max_sets)
    constraints = _NodeSets.prepared(
        [needs.constraint for needs in table.all_needs], table, max_sets
    )
    devices = sorted({device for use in table.all_uses for device, _ in use.devices})[:16]
    # The first row of amounts (in use by a job) and of peaks (on a node) is cores; the others are
    # devices.
    amounts = [np.array([use.cores for use in table.all_uses])]
    amounts += [
        np.array([dict(use.devices).get(device, 0.0) for use in table.all_uses])
        for device in devices
    ]
    peaks = np.zeros((len(amounts), len(groups)))
    job_s = busy_s = 0.0
    for begin, end, places, job in grouped.node_groups():
        members = grouped.members[places]
        for node_sets in (partitions, constraints):
            node_sets.add(table.needs[job], groups.first[members])
        start_s = np.minimum(table.start_s[job], finish_s)
        end_s = np.minimum(table.end_s[job], finish_s)
        timeline = _NodeTimeline.from_places(members - begin, start_s, end_s)
        for amount, peak in zip(amounts, peaks, strict=True):
            if amount.any():
                peak[begin:end] = timeline.peaks(amount[table.use[job]], end - begin)
        group_job_s, group_busy_s = timeline.job_and_busy_s(groups.weights[begin:end])
        job_s += group_job_s
        busy_s += group_busy_s
    peaks = peaks[:, groups.of_node]
    nodes_of = partitions.named(groups)
    # A job that has run was in one partition, but older versions of sacct keep the list that it was
    # submitted to; a list counts as a partition only if the log has nothing else.
    single = {name: nodes for name, nodes in nodes_of.items() if "," not in name}
    return LoggedNodes(
        names=table.names,
        partitions=single or nodes_of,
        constraints=constraints.named(groups),
        cores=peaks[0],
        devices=dict(zip(devices, peaks[1:], strict=True)),
        jobs_per_busy_node=float(job_s / busy_s) if busy_s else 1.0,
        left_out=partitions.left_out + constraints.left_out,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _NodeSets:
    """For each text in the needs of jobs (a partition or a constraint), the nodes that jobs with
    that text ran on.

    ``masks[k]`` are the nodes of ``texts[k]``; the last mask collects those of all other texts.
    ``mask_index[i]`` is the mask of ``all_needs[i]`` of the table. ``left_out`` is the number of
    rare texts without a mask of their own.
    """

    texts: list[str]
    mask_index: NDArray[np.int64]
    masks: NodeMask
    left_out: int

    @classmethod
    def prepared(cls, texts: list[str], table: JobTable, max_sets: int) -> _NodeSets:
        """Return sets without nodes for the ``max_sets`` texts whose jobs held most nodes.

        ``texts[k]`` is that of ``table.all_needs[k]`` (empty: none).
        """
        text_index = {text: k for k, text in enumerate(dict.fromkeys(filter(None, texts)))}
        index_of_needs = np.array([text_index.get(text, len(text_index)) for text in texts])
        n_places = np.zeros(len(text_index) + 1)  # by text; the last is for needs without one
        for part in table.parts():
            places_of_job = np.diff(table.offsets[part.start : part.stop + 1])
            n_places += np.bincount(
                index_of_needs[table.needs[part]], weights=places_of_job, minlength=len(n_places)
            )
        chosen = np.argsort(-n_places[:-1], kind="stable")[:max_sets]
        mask_of_text = np.full(len(text_index) + 1, len(chosen))
        mask_of_text[chosen] = np.arange(len(chosen))
        names = list(text_index)
        return cls(
            texts=[names[k] for k in chosen.tolist()],
            mask_index=mask_of_text[index_of_needs],
            masks=np.zeros((len(chosen) + 1, len(table.names)), dtype=np.bool_),
            left_out=len(text_index) - len(chosen),
        )

    def add(self, needs: NDArray[np.int32], members: NDArray[np.int32]) -> None:
        """Record that a job with ``needs[k]`` ran on node ``members[k]``, for all k."""
        self.masks[self.mask_index[needs], members] = True

    def named(self, groups: NodeGroups) -> dict[str, NodeMask]:
        """Return the nodes by text, without texts of which no job ran on a node; of each of the
        ``groups``, the first node was added.
        """
        return {
            text: nodes[groups.first[groups.of_node]]
            for text, nodes in zip(self.texts, self.masks[:-1], strict=True)
            if nodes.any()
        }


@dataclass(frozen=True, slots=True, eq=False)
class _NodeTimeline:
    """The starts and ends of all places (a job on a node), by node and time; at equal times, ends
    come first.

    ``order`` are indices into the starts of all places, followed by their ends. ``at_s`` are the
    times in this order; those of node ``owners[i]`` begin at index ``edges[i]``.
    """

    order: NDArray[np.int64]
    at_s: NDArray[np.float64]
    edges: NDArray[np.int64]
    owners: NDArray[np.int64]

    @classmethod
    def from_places(
        cls, members: NDArray[np.int32], start_s: NDArray[np.float64], end_s: NDArray[np.float64]
    ) -> _NodeTimeline:
        """Return the starts and ends of places (a job on a node), sorted by node and time.

        ``members`` is the node of each place.
        """
        at_s = np.concatenate((start_s, end_s))
        node = np.concatenate((members, members))
        is_start = np.arange(len(at_s)) < len(start_s)
        order = np.lexsort((is_start, at_s, node))
        edges = np.flatnonzero(np.diff(node[order], prepend=-1))
        return cls(order, at_s[order], edges, node[order][edges].astype(np.int64))

    def sums(self, amounts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum the amounts of the jobs that are on a node, after each start and end; ``amounts`` has
        one per place.
        """
        # One running sum serves all nodes: it is 0 after the last end of each node.
        sums: NDArray[np.float64] = np.cumsum(np.concatenate((amounts, -amounts))[self.order])
        return sums

    def peaks(self, amounts: NDArray[np.float64], n_nodes: int) -> NDArray[np.float64]:
        """Return the largest sum of amounts at any time, by node; ``amounts`` has one per place."""
        peaks = np.zeros(n_nodes)
        if len(self.order):
            peaks[self.owners] = np.maximum.reduceat(self.sums(amounts), self.edges)
        return peaks

    def job_and_busy_s(self, weights: NDArray[np.int64]) -> tuple[float, float]:
        """Return the total seconds of all jobs on all nodes, and the seconds in which a node had
        any job.

        Their ratio is the mean number of jobs on a busy node. A node counts as often as its weight
        says, because it stands for a group.
        """
        if not len(self.order):
            return 0.0, 0.0
        n_running = self.sums(np.ones(len(self.order) // 2))
        length_s = np.diff(self.at_s, append=self.at_s[-1])
        length_s[self.edges[1:] - 1] = 0.0  # from a node's last end to the next node's first start
        length_s *= np.repeat(weights[self.owners], np.diff(self.edges, append=len(self.order)))
        return float(np.dot(n_running, length_s)), float(length_s[n_running > 0.5].sum())
