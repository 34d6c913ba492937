"""The ledger of a replay, summed per bin of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.simulation.ledger import LedgerRow
from bftrainer_replay.simulation.replay_world import ReplayTotals

Array = npt.NDArray[np.float64]
_HOURS = (0.25, 1, 3, 6, 12, 24, 48, 168)
_MOST_BINS = 32


@dataclass(frozen=True, slots=True)
class Bins:
    """Samples trained, lost to preemption and lost to rescales in each bin between ``edges_s``."""

    edges_s: Array
    samples: Array
    lost_to_preemption: Array
    lost_to_rescale: Array

    @property
    def hours(self) -> float:
        """Hours per bin (the last may be shorter)."""
        return float(self.edges_s[1] - self.edges_s[0]) / 3600


def bin_edges(window: LogWindow) -> Array:
    """Return the edges of the bins in seconds; the last bin is cut at the window's end.

    Six hours a bin as in the paper's Figs. 10 and 11; shorter in short windows, longer in long
    ones.
    """
    span_h = window.span_s / 3600
    hours = next((h for h in _HOURS if span_h <= h * _MOST_BINS), _HOURS[-1])
    return np.append(np.arange(window.start_s, window.end_s, hours * 3600), window.end_s)


def bins_of(window: LogWindow, entries: Sequence[LedgerRow], final: ReplayTotals) -> Bins:
    """Return the samples trained and lost between the edges of :func:`bin_edges`.

    The ledger has running totals at each decision; totals at the edges are interpolated linearly
    between two decisions, and a bin has the difference of its two edges.
    """
    edges_s = bin_edges(window)
    at_s = [*(entry.at_s for entry in entries), window.end_s]
    totals = [*(entry.totals for entry in entries), final]

    def per_bin(values: list[float]) -> Array:
        return np.diff(np.interp(edges_s, at_s, values))

    return Bins(
        edges_s,
        per_bin([t.samples for t in totals]),
        per_bin([t.lost_to_preemption for t in totals]),
        per_bin([t.lost_to_rescale for t in totals]),
    )
