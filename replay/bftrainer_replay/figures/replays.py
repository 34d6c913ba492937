"""One replay: nodes over time."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from bftrainer_replay.figures.style import (
    BLUE,
    DAY_S,
    GREEN,
    INK,
    SKY,
    date_axis,
    shade,
    sheet,
    whole_numbers,
)
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.simulation.bins import bins_of
from bftrainer_replay.simulation.play import ReplayOutcome, Scenario
from bftrainer_replay.simulation.summary import Summary
from bftrainer_replay.sweep.detail import Detail


def nodes_figure(detail: Detail, name: str, window: LogWindow, shown: str = "") -> Figure:
    """Mean idle and training nodes; ``shown`` names the part of the log, if it is not all of it."""
    idle_h, used_h = (float(np.dot(x, np.diff(detail.edges_s))) / 3600 for x in (detail.idle, detail.used))
    share = used_h / idle_h if idle_h else 0.0
    figure, (axes,) = sheet(
        f"Nodes idle and nodes in training, {name}",
        f"Read: {share:.1%} of the {idle_h:,.0f} idle node-hours{shown and f' of {shown}'} went to trainers.",
    )
    edges = detail.edges_s / DAY_S
    axes.stairs(detail.idle, edges, fill=True, color=SKY, alpha=0.55, label="idle")
    axes.stairs(detail.used, edges, color=BLUE, linewidth=1.0, label="in training", baseline=None)
    axes.set_ylim(bottom=0)
    axes.set_xlim(edges[0], edges[-1])
    whole_numbers(axes.yaxis)
    shade(axes, (*window.outages, *window.gaps), "out of service or not recorded")
    axes.set_ylabel("nodes")
    axes.legend(loc="upper left", frameon=False, fontsize=9, ncols=3)
    date_axis(axes, window.zone)
    return figure


def timeline_figure(scenario: Scenario, outcome: ReplayOutcome, summary: Summary) -> Figure:
    """Idle nodes and nodes in training as steps; below, training throughput per bin of time."""
    window = scenario.window
    bins = bins_of(window, outcome.entries, outcome.totals)
    used_h = summary.resource_integral_node_h - summary.unused_node_h
    share = used_h / summary.resource_integral_node_h if summary.resource_integral_node_h else 0.0
    efficiency = (
        ""
        if summary.efficiency is None
        else f" They trained {summary.efficiency:.1%} of what {summary.eq_nodes:,.0f} dedicated nodes would have trained."
    )
    figure, (nodes, rate) = sheet(
        f"Nodes idle and nodes in training, policy {summary.policy}",
        f"Read: {share:.1%} of the idle node-hours went to trainers "
        f"({used_h:,.0f} of {summary.resource_integral_node_h:,.0f}).{efficiency}",
        height_ratios=(2, 1),
    )
    at = np.array([*(e.at_s for e in outcome.entries), window.end_s]) / DAY_S
    idle = [e.pool_nodes for e in outcome.entries]
    used = [e.used_nodes for e in outcome.entries]
    if idle:
        nodes.fill_between(at, [*idle, idle[-1]], step="post", color=SKY, linewidth=0, alpha=0.55, label="idle")
        nodes.step(at, [*used, used[-1]], where="post", color=BLUE, linewidth=0.7, label="in training")
        nodes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.98), frameon=False, fontsize=9, ncols=2)
    nodes.set_ylim(bottom=0)
    whole_numbers(nodes.yaxis)
    shade(nodes, (*window.outages, *window.gaps))
    nodes.set_ylabel("nodes")
    width_s = np.diff(bins.edges_s)
    rate.stairs(bins.samples / width_s / 1000, bins.edges_s / DAY_S, color=GREEN, linewidth=1.6)
    rate.axhline(summary.outcome_samples / window.span_s / 1000, color=INK, linewidth=0.8, linestyle=(0, (4, 2)))
    rate.set_ylim(bottom=0)
    rate.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    rate.set_ylabel("thousand\nsamples/s")
    rate.set_xlabel(f"time ({window.clock_name}; throughput is the mean of {bins.hours:g} h; dashed: of the whole log)")
    rate.set_xlim(window.start_s / DAY_S, window.end_s / DAY_S)
    date_axis(rate, window.zone)
    return figure
