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
    """Restrict a window to the nodes of one partition and the jobs that wait for it.

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
    places = np.flatnonzero(facts.partitions[name])
    is_down_here = np.isin(window.site.down, places)
    number = np.full(len(facts.names), -1, dtype=np.int64)
    number[places] = np.arange(len(places))
    site = replace(
        window.site,
        nodes=_only(facts, places.tolist()),
        use=None,  # of the whole cluster
        silent=None,
        down=number[window.site.down[is_down_here]],
        down_s=window.site.down_s[is_down_here],
        down_until_s=window.site.down_until_s[is_down_here],
    )
    return replace(
        of_nodes(window, [facts.names[place] for place in places.tolist()]),
        source=f"{window.source}, partition {name}",
        queue=None if window.queue is None else _waiting_for(window.queue, name),
        site=site,
    )


def _only(facts: LoggedNodes, places: list[int]) -> LoggedNodes:
    """Restrict what is known of nodes to those at these places of ``facts.names``."""

    def these(sets: Mapping[str, _Values]) -> dict[str, _Values]:
        return {name: nodes[places] for name, nodes in sets.items()}

    return replace(
        facts,
        names=tuple(facts.names[place] for place in places),
        partitions=these(facts.partitions),
        constraints=these(facts.constraints),
        cores=facts.cores[places],
        devices=these(facts.devices),
    )


def _waiting_for(queue: Queue, name: str) -> Queue:
    fits = [not needs.partition or name in needs.partition.split(",") for needs in queue.all_needs]
    return queue.of_needs(np.array(fits, dtype=np.bool_))
