"""The training that preemptions and rescales cost (the paper's Fig. 11)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import tzinfo

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from bftrainer_papers.bftrainer.bins import Bins
from bftrainer_replay.figures.style import BLUE, DAY_S, ORANGE, date_axis, sheet


def lost_figure(by_policy: Mapping[str, Bins], zone: tzinfo | None = None) -> Figure:
    """Draw the share of the possible samples lost in each bin to preemption and to planned
    rescales, a panel per policy (Fig. 11).
    """
    parts = []
    for name, d in by_policy.items():
        whole = float((d.samples + d.lost_to_preemption + d.lost_to_rescale).sum()) or 1.0
        parts.append(
            f"under {name}, {d.lost_to_preemption.sum() / whole:.1%} of the possible samples "
            "are lost to preemption and "
            f"{d.lost_to_rescale.sum() / whole:.1%} to planned rescales"
        )
    figure, panels = sheet(
        "Training lost to preemption and to rescaling",
        f"Read: {'; '.join(parts)}. The main queue causes the preemptions; the policy chooses "
        "the rescales.",
        height_ratios=(1,) * len(by_policy),
    )
    largest = 0.01
    for axes, (name, d) in zip(panels, by_policy.items(), strict=True):
        possible = d.samples + d.lost_to_preemption + d.lost_to_rescale
        # A bin without training gets shares of 0.
        possible[possible <= 0] = np.inf
        preempted, rescaled = d.lost_to_preemption / possible, d.lost_to_rescale / possible
        left, width = d.edges_s[:-1] / DAY_S, np.diff(d.edges_s) / DAY_S
        axes.bar(
            left, preempted, width, align="edge", color=BLUE, edgecolor="white", label="preemption"
        )
        axes.bar(
            left,
            rescaled,
            width,
            align="edge",
            bottom=preempted,
            color=ORANGE,
            hatch="///",
            edgecolor="white",
            label="planned rescales",
        )
        largest = max(largest, float((preempted + rescaled).max(initial=0.0)))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.set_ylabel(name if len(by_policy) > 1 else "share of possible samples lost")
        axes.set_xlim(d.edges_s[0] / DAY_S, d.edges_s[-1] / DAY_S)
    for axes in panels:
        axes.set_ylim(0, 1.35 * largest)
    panels[0].legend(loc="upper right", frameon=False, fontsize=9, ncols=2)
    date_axis(panels[-1], zone)
    return figure
