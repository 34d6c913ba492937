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
    """The use of cores and devices over the log: ``used_h[kind]`` is the use from the beginning up
    to each of ``edges_s``, in hours of one core or device.

    Between two edges, of which a log has thousands, the use counts as even. ``outages`` are those
    of the whole cluster.
    """

    edges_s: NDArray[np.float64]
    used_h: dict[str, NDArray[np.float64]]
    outages: tuple[tuple[float, float], ...]

    def between(self, kind: str, start_s: float, end_s: float) -> float:
        """Hours of use in a part of the log."""
        at = np.interp([start_s, end_s], self.edges_s, self.used_h[kind])
        return float(at[1] - at[0])


def use_of(
    table: JobTable, start_s: float, end_s: float, outages: tuple[tuple[float, float], ...]
) -> ResourceUse | None:
    """Sum what jobs use of cores and devices; None if the log has no allocations. A device type
    (``gpu:a100``) counts only if there is no total (``gpu``).
    """
    if len(table.all_uses) < 2:  # NO_USE
        return None
    names = {device for use in table.all_uses for device, _ in use.devices}
    kinds = [
        CORES,
        *sorted(name for name in names if name.partition(":")[0] not in names - {name})[
            :_MOST_KINDS
        ],
    ]
    edges_s = np.linspace(start_s, end_s, _EDGES + 1)
    job_amounts = np.array(
        [
            [use.cores, *(dict(use.devices).get(kind, 0.0) for kind in kinds[1:])]
            for use in table.all_uses
        ]
    ).T
    since = np.zeros(
        (2, len(kinds), _EDGES + 1)
    )  # the amounts that began at an edge or right before it, and when
    for part in table.parts():
        begin, end = (
            np.clip(times[part], start_s, end_s) for times in (table.start_s, table.end_s)
        )
        ran = table.end_s[part] > table.start_s[part]
        amounts = (
            job_amounts[:, table.use[part][ran]]
            * np.diff(table.first[part.start : part.stop + 1])[ran]
        )
        for at_s, sign in ((begin[ran], 1), (end[ran], -1)):
            edge = np.searchsorted(edges_s, at_s)
            for kind, amount in enumerate(sign * amounts):
                since[0, kind] += np.bincount(edge, amount, _EDGES + 1)
                since[1, kind] += np.bincount(edge, amount * (at_s - start_s), _EDGES + 1)
    amounts, moments = np.cumsum(since, axis=2)
    used_h = (amounts * (edges_s - start_s) - moments) / 3600
    used_by_kind = {
        kind: hours
        for kind, hours, of_use in zip(kinds, used_h, job_amounts, strict=True)
        if of_use.any()
    }
    return ResourceUse(edges_s, used_by_kind, outages) if used_by_kind else None
