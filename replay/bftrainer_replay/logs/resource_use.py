"""Cores and devices in use over time, from what each job was allocated: on shared nodes, a busy node is not fully used."""

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
    """``used_h[kind]`` is the use from the beginning up to each of ``edges_s``, in hours of one core or device.

    Between two edges, of which a log has thousands, the use counts as even. ``outages`` are those of the whole cluster.
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
    """None if no job has an allocation in the log. A device type (``gpu:a100``) counts only if there is no total (``gpu``)."""
    if len(table.all_uses) < 2:  # NO_USE
        return None
    names = {device for use in table.all_uses for device, _ in use.devices}
    kinds = [CORES, *sorted(name for name in names if name.partition(":")[0] not in names - {name})[:_MOST_KINDS]]
    ran = table.ran
    begins, ends = np.clip(table.start_s[ran], start_s, end_s), np.clip(table.end_s[ran], start_s, end_s)
    nodes = np.diff(table.first)[ran]
    edges_s = np.linspace(start_s, end_s, _EDGES + 1)
    by_begin, by_end = np.argsort(begins, kind="stable"), np.argsort(ends, kind="stable")
    found = {}
    for kind in kinds:
        each = np.array([use.cores if kind == CORES else dict(use.devices).get(kind, 0.0) for use in table.all_uses])
        amount = each[table.use[ran]] * nodes
        if amount.any():
            since = _elapsed(begins[by_begin], amount[by_begin], edges_s)
            found[kind] = (since - _elapsed(ends[by_end], amount[by_end], edges_s)) / 3600
    return ResourceUse(edges_s, found, outages) if found else None


def _elapsed(
    times: NDArray[np.float64], amount: NDArray[np.float64], edges_s: NDArray[np.float64]
) -> NDArray[np.float64]:
    """At each edge: the sum of amounts times the seconds since their times, of those that are past."""
    past = np.searchsorted(times, edges_s, side="right")
    amounts = np.concatenate(([0.0], np.cumsum(amount)))
    weighted = np.concatenate(([0.0], np.cumsum(amount * (times - edges_s[0]))))
    found: NDArray[np.float64] = amounts[past] * (edges_s - edges_s[0]) - weighted[past]
    return found
