"""Interval efficiency (the paper's Fig. 10): the outcome of each bin over that of as many dedicated
nodes in the bin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import tzinfo

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from bftrainer_replay.figures.style import BLUE, DAY_S, GREEN, INK, ORANGE, PURPLE, date_axis, sheet

_LOOKS = ((BLUE, "-"), (ORANGE, (0, (5, 2))), (GREEN, "-"), (PURPLE, (0, (2, 1))))


def efficiency_over_time_figure(
    edges_s: Sequence[float], efficiency: Mapping[str, Sequence[float]], zone: tzinfo | None = None
) -> Figure:
    """Draw U between ``edges_s`` (seconds since 1970) as steps, a line for the first four policies
    each; the caption reads the first.
    """
    name, first_values = next(iter(efficiency.items()))
    reading = (
        f"Read: under {name}, the interval efficiency is between {min(first_values):.0%} and "
        f"{max(first_values):.0%}"
    )
    for other, values in list(efficiency.items())[1:2]:
        gains = np.array(first_values) - np.array(values)
        above = int((gains > 0).sum())
        reading += (
            f"; it is above {other} in {above} of {len(first_values)} intervals, by up to "
            f"{100 * gains.max():.0f} points"
        )
    hours = (edges_s[1] - edges_s[0]) / 3600
    figure, (axes,) = sheet(
        f"Interval efficiency: training in each {hours:g} h",
        f"{reading}. It compares the training of an interval with that of as many dedicated "
        "nodes as were idle in it, with the "
        "same limit of concurrent trainers: it says nothing of nodes that these cannot use. "
        "Efficiency U compares with one constant number of nodes over the whole time and is "
        "therefore not its mean.",
    )
    edges = np.array(edges_s) / DAY_S
    for (label, values), (color, dashes) in zip(efficiency.items(), _LOOKS, strict=False):
        axes.stairs(
            values, edges, color=color, linestyle=dashes, linewidth=1.8, label=label, baseline=None
        )
    axes.axhline(1.0, color=INK, linewidth=0.8, linestyle=(0, (1, 2)))
    axes.set_ylim(0, max(1.05, 1.15 * max(max(values) for values in efficiency.values())))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_ylabel("interval efficiency")
    axes.legend(loc="lower left", frameon=False, fontsize=9, ncols=4)
    axes.set_xlim(edges[0], edges[-1])
    date_axis(axes, zone)
    return figure
