"""What a replay's ledger says per bin of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.simulation.ledger import LedgerRow
from bftrainer_replay.simulation.world import ReplayTotals

Array = npt.NDArray[np.float64]
_HOURS = (0.25, 1, 3, 6, 12, 24, 48, 168)
_MOST_BINS = 32


@dataclass(frozen=True, slots=True)
class Bins:
    """Samples done, lost to preemption and lost to rescales in each of the bins between ``edges_s``."""

    hours: float
    edges_s: Array
    samples: Array
    lost_to_preemption: Array
    lost_to_rescale: Array


def bin_edges(window: LogWindow) -> tuple[float, Array]:
    """Hours a bin, and the edges in seconds, the last cut at the window's end.

    Six hours a bin as in the paper's Figs. 10 and 11, shorter or longer where the window asks for it.
    """
    span_h = window.span_s / 3600
    hours = next((h for h in _HOURS if span_h <= h * _MOST_BINS), _HOURS[-1])
    return hours, np.append(np.arange(window.start_s, window.end_s, hours * 3600), window.end_s)


def bins_of(window: LogWindow, entries: Sequence[LedgerRow], final: ReplayTotals) -> Bins:
    """What was done and lost between the edges of :func:`bin_edges`."""
    hours, edges_s = bin_edges(window)
    at_s = [*(entry.at_s for entry in entries), window.end_s]
    totals = [*(entry.totals for entry in entries), final]

    def per_bin(values: list[float]) -> Array:
        return np.diff(np.interp(edges_s, at_s, values))

    return Bins(
        hours,
        edges_s,
        per_bin([t.samples for t in totals]),
        per_bin([t.lost_to_preemption for t in totals]),
        per_bin([t.lost_to_rescale for t in totals]),
    )
