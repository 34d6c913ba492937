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


def place(table: JobTable, machine_nodes: int) -> tuple[JobTable, int]:
    """Place the jobs, in order of their starts, on the first free nodes of a cluster; return the
    table with these nodes, and the number of jobs that needed more than were free (they got the
    free ones).
    """
    ran = np.flatnonzero(table.ran)
    order = ran[np.lexsort((ran, table.start_s[ran]))]
    free = np.ones(machine_nodes, dtype=np.bool_)
    running: list[tuple[float, int]] = []
    nodes_of: dict[int, np.ndarray[tuple[int], np.dtype[np.int32]]] = {}
    placed: list[np.ndarray[tuple[int], np.dtype[np.int32]]] = [np.empty(0, dtype=np.int32)] * len(
        table.node_counts
    )
    short = 0
    starts, ends, node_counts = (
        table.start_s[:].tolist(),
        table.end_s[:].tolist(),
        table.node_counts.tolist(),
    )
    for job in order.tolist():
        while running and running[0][0] <= starts[job]:
            free[nodes_of.pop(heapq.heappop(running)[1])] = True
        taken = np.flatnonzero(free)[: node_counts[job]].astype(
            np.int32
        )  # a copy: a view would keep every free node
        short += len(taken) < node_counts[job]
        free[taken] = False
        placed[job] = nodes_of[job] = taken
        heapq.heappush(running, (ends[job], job))
    first = np.concatenate(([0], np.cumsum([len(nodes) for nodes in placed], dtype=np.int64)))
    members = np.concatenate(placed) if placed else np.empty(0, dtype=np.int32)
    width = max(5, len(str(machine_nodes)))
    names = tuple(f"{PREFIX}{number:0{width}d}" for number in range(1, machine_nodes + 1))
    return dataclasses.replace(table, first=first, members=members, names=names), short


def most_at_once(table: JobTable) -> int:
    """Return the largest number of nodes busy at one time, if every job had the nodes that it asked
    for.
    """
    ran = table.ran
    times = np.concatenate((table.end_s[ran], table.start_s[ran]))
    steps = np.concatenate((-table.node_counts[ran], table.node_counts[ran]))
    order = np.argsort(times, kind="stable")  # ends before starts of the same instant
    return int(np.cumsum(steps[order]).max(initial=0))
