"""Nodes that every job takes together are idle at the same times: a log counts them as one group,
with a weight.

Of Mira's 49,152 nodes, jobs take blocks of 512 and more, so that ten days have less than a hundred
groups. Where jobs take single nodes, each is a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bftrainer_replay.logs.jobs import JobTable

_MOST_GROUPS = 0.5
"""With more groups than this share of the nodes, groups save nothing, and each node is alone."""
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class NodeGroups:
    """The groups of a log's nodes. ``of_node[i]`` is the group of the node ``names[i]``.

    ``members`` are the nodes of each group, ``weights`` their numbers, and ``first`` the index of
    the first node of each.
    """

    names: tuple[str, ...]
    of_node: Ints
    members: tuple[frozenset[str], ...]
    weights: Ints
    first: Ints

    @classmethod
    def alone(cls, names: Sequence[str]) -> NodeGroups:
        """Return groups of one node each."""
        every = np.arange(len(names), dtype=np.int64)
        members = tuple(frozenset((name,)) for name in names)
        return cls(tuple(names), every, members, np.ones(len(names), dtype=np.int64), every)

    @classmethod
    def from_keys(cls, names: tuple[str, ...], keys: NDArray[Any]) -> NodeGroups:
        """Return groups of the nodes with equal ``keys`` (one per name), in order of their first
        nodes.
        """
        _, firsts, group, weights = np.unique(
            keys, return_index=True, return_inverse=True, return_counts=True
        )
        order = np.argsort(firsts, kind="stable")
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        of_node, weights = rank[group], weights[order].astype(np.int64)
        in_order = np.array(names, dtype=object)[np.argsort(of_node, kind="stable")]
        parts = np.split(in_order, np.cumsum(weights)[:-1])
        members = tuple(frozenset(part.tolist()) for part in parts)
        return cls(names, of_node, members, weights, firsts[order].astype(np.int64))

    def __len__(self) -> int:
        return len(self.members)

    @property
    def are_single(self) -> bool:
        """Whether every group has one node."""
        return len(self.members) == len(self.names)

    def nodes_of(self, groups: Ints) -> frozenset[str]:
        """Return the names of the nodes of these groups."""
        indices = groups.tolist()
        if self.are_single:
            return frozenset([self.names[index] for index in indices])
        return frozenset().union(*[self.members[index] for index in indices])


def grouped(table: JobTable, unlike: Ints) -> tuple[JobTable, NodeGroups]:
    """Return the table with a group of nodes in place of each node, and the groups.

    A group are nodes that the same jobs ran on. The nodes ``unlike`` differ from all others by
    something that the table does not tell, and are alone. ``node_counts`` and the number of a job's
    uses remain those of nodes.
    """
    keys = _node_keys(table)
    # A key that no other node has.
    keys[unlike, 0] = unlike + 1
    keys[unlike, 1] = 0
    groups = NodeGroups.from_keys(table.names, keys.view([("", keys.dtype)] * 2).ravel())
    if len(groups) > _MOST_GROUPS * len(table.names):
        return table, NodeGroups.alone(table.names)
    is_first = np.zeros(len(table.names), dtype=np.bool_)
    is_first[groups.first] = True
    keeps = is_first[table.members]
    kept_until = np.concatenate(([0], np.cumsum(keeps, dtype=np.uint32)))
    members = groups.of_node[table.members[keeps]].astype(table.members.dtype)
    names = tuple(table.names[index] for index in groups.first.tolist())
    offsets = kept_until[table.offsets].astype(np.uint32)
    return replace(table, offsets=offsets, members=members, names=names), groups


def _node_keys(table: JobTable) -> NDArray[np.uint64]:
    """Return a key of 128 bits for each node, which is equal for nodes that the same jobs ran on.

    It is the sum, over these jobs, of a number that looks like chance. Nodes with different jobs
    have different keys, but for a chance of less than 1e-24 in a log of a million nodes.
    """
    keys = np.zeros((len(table.names), 2), dtype=np.uint64)
    for part in table.parts():
        offsets = table.offsets[part.start : part.stop + 1].astype(np.int64)
        members = table.members[offsets[0] : offsets[-1]]
        jobs = np.arange(part.start, part.start + len(offsets) - 1, dtype=np.uint64)
        for column, seed in enumerate((0, 1 << 63)):
            mixed = _mixed_numbers(jobs + np.uint64(seed))
            np.add.at(keys[:, column], members, np.repeat(mixed, np.diff(offsets)))
    return keys


def _mixed_numbers(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the numbers mixed by the finalizer of SplitMix64 (Steele, Lea and Flood 2014)."""
    mixed = (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
