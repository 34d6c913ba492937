"""What preemption and rescaling cost over time (the paper's Fig. 11)."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from bftrainer_replay.figures.bins import bins_of
from bftrainer_replay.figures.style import BLUE, DAY_S, ORANGE, date_axis, sheet
from bftrainer_replay.simulation.play import ReplayOutcome, Scenario
from bftrainer_replay.simulation.summary import Summary


def costs_figure(scenario: Scenario, outcome: ReplayOutcome, summary: Summary) -> Figure:
    """Shares of the possible samples (done + lost) that preemption and planned rescales took, stacked per bin."""
    window = scenario.window
    bins = bins_of(window, outcome.entries, outcome.totals)
    possible = bins.samples + bins.lost_to_preemption + bins.lost_to_rescale
    possible[possible <= 0] = np.inf
    preempted, rescaled = bins.lost_to_preemption / possible, bins.lost_to_rescale / possible
    whole = summary.outcome_samples + summary.preemption_cost_samples + summary.rescale_cost_samples
    lost = (summary.preemption_cost_samples / whole, summary.rescale_cost_samples / whole) if whole else (0.0, 0.0)
    figure, (axes,) = sheet(
        f"Samples lost to preemption and to rescaling, policy {summary.policy}",
        f"Read: {summary.preemptions:,} preemptions took {lost[0]:.1%} of the samples that could have been trained, "
        f"{summary.rescales:,} planned rescales {lost[1]:.1%}. The first are not in our hand, the second are.",
    )
    left, width = bins.edges_s[:-1] / DAY_S, np.diff(bins.edges_s) / DAY_S
    style: dict[str, Any] = {"align": "edge", "edgecolor": "white", "linewidth": 0.8}
    axes.bar(left, preempted, width, color=BLUE, label="preemption", **style)
    axes.bar(left, rescaled, width, bottom=preempted, color=ORANGE, hatch="///", label="planned rescales", **style)
    axes.set_ylim(0, max(float((preempted + rescaled).max(initial=0.0)) * 1.25, 0.01))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_ylabel("share of possible samples lost")
    axes.set_xlabel(f"time ({window.clock}, {bins.hours:g} h a bar)")
    axes.legend(loc="upper right", frameon=False, fontsize=10, ncols=2)
    axes.set_xlim(window.start_s / DAY_S, window.end_s / DAY_S)
    date_axis(axes)
    return figure
