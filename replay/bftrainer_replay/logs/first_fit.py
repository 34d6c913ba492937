"""Nodes for logs that name none: each job gets the lowest-numbered nodes that are free at its
start.

The number of idle nodes over time does not depend on the placement; which node is idle for how long
does. First-fit packs jobs at one end of the cluster, so fragments are longer than a real
scheduler's.
"""

from __future__ import annotations

import dataclasses
import heapq

import numpy as np

from bftrainer_replay.logs.jobs import JobTable

PREFIX = "firstfit-"
"""Prefix of the names of simulated nodes, which stays with the log in every file made from it."""
NOTE = (
    "nodes simulated by first-fit, since the log does not say which nodes a job had: how many "
    "nodes are idle is the log's "
    "figure if jobs share no nodes, how long a single node stays idle is an estimate"
)


_NodeNumbers = np.ndarray[tuple[int], np.dtype[np.int32]]


def place_jobs(table: JobTable, machine_nodes: int) -> tuple[JobTable, int]:
    """Return the table with a node for each place of a job, and the number of jobs that got too
    few.

    In order of their starts, jobs get the first free nodes of a cluster of ``machine_nodes``; one
    that needs more than are free gets the free ones.
    """
    ran = np.flatnonzero(table.has_run)
    order = ran[np.lexsort((ran, table.start_s[ran]))]
    is_free = np.ones(machine_nodes, dtype=np.bool_)
    running: list[tuple[float, int]] = []  # a heap of (end, job)
    no_nodes: _NodeNumbers = np.empty(0, dtype=np.int32)
    nodes_of: list[_NodeNumbers] = [no_nodes] * len(table.node_counts)
    n_short = 0
    starts_s = table.start_s[:].tolist()
    ends_s = table.end_s[:].tolist()
    node_counts = table.node_counts.tolist()
    for job in order.tolist():
        while running and running[0][0] <= starts_s[job]:
            _, ended_job = heapq.heappop(running)
            is_free[nodes_of[ended_job]] = True
        # astype() copies: a view of these nodes would keep the memory of all free ones.
        nodes = np.flatnonzero(is_free)[: node_counts[job]].astype(np.int32)
        n_short += len(nodes) < node_counts[job]
        is_free[nodes] = False
        nodes_of[job] = nodes
        heapq.heappush(running, (ends_s[job], job))
    offsets = np.concatenate(([0], np.cumsum([len(nodes) for nodes in nodes_of], dtype=np.int64)))
    members = np.concatenate(nodes_of) if nodes_of else no_nodes
    width = max(5, len(str(machine_nodes)))
    names = tuple(f"{PREFIX}{number:0{width}d}" for number in range(1, machine_nodes + 1))
    placed = dataclasses.replace(table, offsets=offsets, members=members, names=names)
    return placed, n_short


def most_at_once(table: JobTable) -> int:
    """Return the largest number of nodes busy at one time, if every job had as many as it asked
    for.
    """
    has_run = table.has_run
    times = np.concatenate((table.end_s[has_run], table.start_s[has_run]))
    steps = np.concatenate((-table.node_counts[has_run], table.node_counts[has_run]))
    order = np.argsort(times, kind="stable")  # ends before starts of the same instant
    return int(np.cumsum(steps[order]).max(initial=0))
