"""The cells of Tables 3 and 4, ours beside the paper's, and how alike their order is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bftrainer_papers.bftrainer.found import ExperimentResults
from bftrainer_papers.bftrainer.paper import PARALLEL, RUNTIMES
from bftrainer_replay.sweep.cell import Cell


def runtime_cells(
    found: ExperimentResults, objective: str, group: Mapping[str, Sequence[Cell]]
) -> list[tuple[str, int, float, float]]:
    """(model, P_jmax, paper's hours, our hours) of Table 3 or 4, for each P_jmax that was run."""
    cells = {cell.max_parallel: cell for cell in group[objective]}
    return [
        (model, p, paper, found.runtime_h(cells[p], model))
        for model, row in RUNTIMES[objective].items()
        for p, paper in zip(PARALLEL, row, strict=True)
        if p in cells
    ]


def rank_correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Spearman's, ties at their mean rank; NaN where a number is."""
    if np.isnan(first).any() or np.isnan(second).any():
        return float("nan")

    def ranks(values: np.ndarray) -> np.ndarray:
        _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
        means: np.ndarray = np.cumsum(counts) - (counts - 1) / 2
        return means[place]

    return float(np.corrcoef(ranks(first), ranks(second))[0, 1])
