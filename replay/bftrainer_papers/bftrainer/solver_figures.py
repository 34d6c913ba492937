"""The paper's Fig. 5: the time to solve one allocation, over trainers and nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from bftrainer_replay.figures.style import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    YELLOW,
    sheet,
)

_LOOKS = ((BLUE, "o"), (ORANGE, "s"), (GREEN, "^"), (PURPLE, "D"), (YELLOW, "v"), (SKY, "P"))

Times = Mapping[tuple[int, int], Sequence[float]]
"""Seconds of each solve, by (trainers, nodes)."""


def solver_times_figure(by_solver: Mapping[str, Times]) -> Figure:
    """Draw a panel per solver: median seconds with the range of the middle 80 %, a line per number
    of trainers.
    """
    medians = []
    for name, times in by_solver.items():
        largest = max(times)
        trainer_count, node_count = largest
        medians.append(
            f"{name} takes {np.median(times[largest]):.2g} s for {trainer_count} trainers on "
            f"{node_count:,} nodes"
        )
    reading = "; ".join(medians)
    figure, panels = sheet(
        "Time to solve one allocation",
        f"Read: in the median, {reading}. Bars: the middle 80 % of the random maps. Dashed "
        "line: one second, which the paper's "
        "Gurobi model (a variable per trainer and node) typically stays below.",
        height_ratios=(1,) * len(by_solver),
    )
    nodes = sorted({n for times in by_solver.values() for _, n in times})
    for axes, (name, times) in zip(panels, by_solver.items(), strict=True):
        trainer_counts = sorted({trainer_count for trainer_count, _ in times})
        looks = _LOOKS * len(trainer_counts)
        for i, (j, (color, marker)) in enumerate(zip(trainer_counts, looks, strict=False)):
            solved_nodes = [n for n in nodes if (j, n) in times]
            low, middle, high = (
                np.percentile([times[j, n] for n in solved_nodes], q, axis=1) for q in (10, 50, 90)
            )
            # The lines of one panel have the same node counts: shift each by 2.5 % of its x, so
            # that their bars stand side by side, around the true count.
            shift = 0.025 * (i - (len(trainer_counts) - 1) / 2)
            axes.errorbar(
                np.array(solved_nodes) * (1 + shift),
                middle,
                (middle - low, high - middle),
                color=color,
                marker=marker,
                markersize=5,
                linewidth=1.4,
                capsize=2.5,
                label=f"{j} trainers",
            )
        axes.axhline(1.0, color=FAINT, linewidth=1, linestyle=(0, (4, 2)))
        axes.set_yscale("log")
        axes.set_xscale("log")
        axes.set_xticks(nodes, [f"{n:,}" for n in nodes])
        axes.set_xticks([], minor=True)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_ylabel(f"{name}, s")
        axes.margins(y=0.12)
    panels[0].legend(
        loc="lower right",
        bbox_to_anchor=(1.0, 0.98),
        frameon=False,
        fontsize=8,
        ncols=6,
        labelcolor=INK,
    )
    panels[-1].set_xlabel("nodes")
    return figure
