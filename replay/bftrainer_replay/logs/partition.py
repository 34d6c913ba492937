"""One partition of a window: its nodes, and the jobs that wait for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bftrainer.errors import UserError
from bftrainer_replay.logs.logged_nodes import LoggedNodes
from bftrainer_replay.logs.model import LogWindow, Queue, of_nodes

_Values = TypeVar("_Values", NDArray[np.bool_], NDArray[np.float64])


def in_partition(window: LogWindow, name: str) -> LogWindow:
    """Return the window restricted to the nodes of one partition and the jobs that wait for it.

    Raises :class:`UserError` if no job ran in a partition of that name.
    """
    facts = window.site.nodes
    if facts is None or name not in facts.partitions:
        listed = ", ".join(sorted(facts.partitions)[:20]) if facts is not None else ""
        raise UserError(
            f"--partition {name:.60}: {window.source} has "
            + (
                f"jobs in the partitions {listed}"
                if listed
                else "no partitions with named nodes (sacct's column Partition)"
            )
        )
    nodes = np.flatnonzero(facts.partitions[name])
    new_index = np.full(len(facts.names), -1, dtype=np.int64)
    new_index[nodes] = np.arange(len(nodes))
    is_down_here = np.isin(window.site.down, nodes)
    partition_facts = _facts_of(facts, nodes.tolist())
    site = replace(
        window.site,
        nodes=partition_facts,
        use=None,  # recorded for the whole cluster only
        silent=None,  # as above
        down=new_index[window.site.down[is_down_here]],
        down_s=window.site.down_s[is_down_here],
        down_until_s=window.site.down_until_s[is_down_here],
    )
    return replace(
        of_nodes(window, partition_facts.names),
        source=f"{window.source}, partition {name}",
        queue=None if window.queue is None else _waiting_for(window.queue, name),
        site=site,
    )


def _facts_of(facts: LoggedNodes, nodes: list[int]) -> LoggedNodes:
    """Return the facts on these nodes only, which are indices into ``facts.names``."""

    def restricted(arrays: Mapping[str, _Values]) -> dict[str, _Values]:
        return {name: values[nodes] for name, values in arrays.items()}

    return replace(
        facts,
        names=tuple(facts.names[node] for node in nodes),
        partitions=restricted(facts.partitions),
        constraints=restricted(facts.constraints),
        cores=facts.cores[nodes],
        devices=restricted(facts.devices),
    )


def _waiting_for(queue: Queue, name: str) -> Queue:
    """Return the jobs that the partition may run; a job without a recorded partition is one."""
    may_run = [
        not needs.partition or name in needs.partition.split(",") for needs in queue.all_needs
    ]
    return queue.with_needs(np.array(may_run, dtype=np.bool_))
