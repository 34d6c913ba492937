"""Cores and devices in use over time, from what each job was allocated: on shared nodes, a busy
node is not fully used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bftrainer_replay.logs.jobs import JobTable

_EDGES = 4096
_MOST_KINDS = 8
CORES = "cores"


@dataclass(frozen=True, slots=True, eq=False)
class ResourceUse:
    """The use of cores and devices over the log: ``used_h[kind]`` is the use from the beginning of
    the log up to each time in ``edges_s``, in hours of one core or device.

    The use between two edges counts as even; a log has thousands of edges. ``outages`` are those of
    the whole cluster.
    """

    edges_s: NDArray[np.float64]
    used_h: dict[str, NDArray[np.float64]]
    outages: tuple[tuple[float, float], ...]

    def between(self, kind: str, start_s: float, end_s: float) -> float:
        """Return the hours of use between two times."""
        until_start_h, until_end_h = np.interp([start_s, end_s], self.edges_s, self.used_h[kind])
        return float(until_end_h - until_start_h)


def use_of(
    table: JobTable, start_s: float, end_s: float, outages: tuple[tuple[float, float], ...]
) -> ResourceUse | None:
    """Return the use of cores and devices over time between two times; None without allocations.

    None if the log does not say what jobs were allocated. A device type (``gpu:a100``) counts only
    if there is no total (``gpu``).
    """
    if len(table.all_uses) < 2:  # NO_USE alone
        return None
    devices = {device for use in table.all_uses for device, _ in use.devices}
    counted = sorted(name for name in devices if name.partition(":")[0] not in devices - {name})
    kinds = [CORES, *counted[:_MOST_KINDS]]
    edges_s = np.linspace(start_s, end_s, _EDGES + 1)
    # amounts_of_use[i, k]: how much of kind i a job with all_uses[k] uses on each of its nodes.
    amounts_of_use = np.array(
        [
            [use.cores, *(dict(use.devices).get(kind, 0.0) for kind in kinds[1:])]
            for use in table.all_uses
        ]
    ).T
    # The use up to an edge is the sum of amount * (edge - start) over all jobs that have started,
    # less the sum of amount * (edge - end) over those that have ended. Two sums per edge suffice:
    # that of the amounts, and that of the amounts times their starts or ends. Both are
    # accumulated from the changes since the edge before.
    changes = np.zeros((2, len(kinds), _EDGES + 1))
    for part in table.parts():
        begin_s, until_s = (
            np.clip(times[part], start_s, end_s) for times in (table.start_s, table.end_s)
        )
        has_run = table.end_s[part] > table.start_s[part]
        n_nodes = np.diff(table.offsets[part.start : part.stop + 1])
        amounts = amounts_of_use[:, table.use[part][has_run]] * n_nodes[has_run]
        for at_s, sign in ((begin_s[has_run], 1), (until_s[has_run], -1)):
            edge = np.searchsorted(edges_s, at_s)
            for kind, amount in enumerate(sign * amounts):
                changes[0, kind] += np.bincount(edge, amount, _EDGES + 1)
                changes[1, kind] += np.bincount(edge, amount * (at_s - start_s), _EDGES + 1)
    in_use, amount_times_start = np.cumsum(changes, axis=2)
    used_h = (in_use * (edges_s - start_s) - amount_times_start) / 3600
    used_by_kind = {
        kind: hours
        for kind, hours, amounts in zip(kinds, used_h, amounts_of_use, strict=True)
        if amounts.any()
    }
    return ResourceUse(edges_s, used_by_kind, outages) if used_by_kind else None
