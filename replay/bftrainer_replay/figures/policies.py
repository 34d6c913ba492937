"""Policies beside each other: what they train, what users feel, what it costs. Always in the order of the ranking."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, PercentFormatter, StrMethodFormatter

from bftrainer_replay.analysis.compare import RankedPolicy, lost_share
from bftrainer_replay.figures.style import BLUE, DAY_S, FAINT, GREEN, INK, ORANGE, PURPLE, SKY, date_axis, sheet

_LINES = ((BLUE, "-"), (ORANGE, "--"), (GREEN, "-"), (PURPLE, ":"))


def outcome_figure(places: Sequence[RankedPolicy]) -> Figure:
    """One-node hours and samples."""
    hours = [p.summary.outcome_one_node_h for p in places]
    samples = [p.summary.outcome_samples / 1e6 for p in places]
    most = places[int(np.argmax(samples))].name
    figure, (above, below) = sheet(
        "Outcome",
        f"Read: {places[0].name} trains most one-node hours, {_beside(hours[0], hours[-1])} {places[-1].name}; {most} "
        "trains most samples. One-node hours count every model alike; samples favour whoever gives nodes to models with "
        "cheap samples.",
        height_ratios=(1, 1),
    )
    _bars(above, hours, BLUE, "one-node hours", "{:,.0f}")
    _bars(below, samples, SKY, "million samples", "{:,.0f}")
    return _named(figure, below, places)


def efficiency_figure(places: Sequence[RankedPolicy]) -> Figure:
    """U with one denominator for all, and the no-cost bound."""
    shares = [p.summary.efficiency or 0.0 for p in places]
    best = places[int(np.argmax(shares))]
    bound = places[0].summary.no_cost_bound
    told = "" if bound is None else f" Without rescaling costs {bound:.0%} would be possible."
    figure, (axes,) = sheet(
        "Efficiency U",
        f"Read: {best.name} has the highest U, {best.summary.efficiency or 0:.1%}.{told} The denominator is the same for all: "
        f"equal share on {best.summary.eq_nodes:,.0f} constant nodes, without costs.",
    )
    _bars(axes, shares, BLUE, "efficiency U", "{:.0%}")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    if bound is not None:
        axes.axhline(bound, color=FAINT, linewidth=1.2, linestyle=(0, (4, 2)))
        axes.set_ylim(top=1.2 * max([*shares, bound]))
    return _named(figure, axes, places)


def completion_figure(places: Sequence[RankedPolicy]) -> Figure:
    """Mean and 95th percentile of completion times, and the mean time until the first node."""
    rows = [(p.felt.mean_s / 3600, p.felt.p95_s / 3600, p.felt.queueing_s / 3600) for p in places]
    known = [(row[0], p) for row, p in zip(rows, places, strict=True) if not math.isnan(row[0])]
    told = "no policy has finished a trainer"
    if known:
        quick_h, quick = min(known, key=lambda pair: pair[0])
        most = max(places, key=lambda p: p.felt.completed)
        told = (
            f"{quick.name} is quickest on average, {quick_h:,.1f} h for {quick.felt.completed:,} trainers done; {most.name} "
            f"finishes most, {most.felt.completed:,}"
        )
    figure, (above, below) = sheet(
        "Completion and queueing",
        f"Read: {told}. From submission to end, of those that were done when the log was over: a policy that finishes few may "
        "look quick (the number on top). Queueing is the wait for the first node.",
        height_ratios=(3, 2),
    )
    spots = np.arange(len(places))
    for i, (label, colour, hatch) in enumerate((("mean", BLUE, ""), ("95th percentile", SKY, "///"))):
        values = [0.0 if math.isnan(row[i]) else row[i] for row in rows]
        above.bar(spots + 0.4 * i - 0.2, values, 0.4, color=colour, hatch=hatch, edgecolor="white", label=label)
    for x, p in enumerate(places):
        top = max((0.0 if math.isnan(v) else v) for v in rows[x][:2])
        above.text(x, top, f"{p.felt.completed:,}", ha="center", va="bottom", fontsize=8, color=INK)
    above.margins(y=0.4)
    above.set_ylabel("completion, h")
    above.legend(loc="upper left", frameon=False, fontsize=9, ncols=2)
    _bars(below, [row[2] for row in rows], ORANGE, "queueing, h", "{:,.1f}")
    return _named(figure, below, places)


def fairness_figure(places: Sequence[RankedPolicy]) -> Figure:
    """Jain's index of the speeds, and the worst slowdown."""
    jain = [p.felt.jain for p in places]
    slow = [p.felt.worst_slowdown for p in places]
    known = [(p.felt.jain, p.felt.worst_slowdown, p.name) for p in places if not math.isnan(p.felt.jain)]
    told = "no policy has finished a trainer"
    if known:
        fairest, kindest = max(known), min(known, key=lambda row: row[1])
        told = (
            f"{fairest[2]} is fairest by Jain's index ({fairest[0]:.2f}); {kindest[2]} slows nobody down more than "
            f"{kindest[1]:,.1f} times"
        )
    figure, (above, below) = sheet(
        "Fairness",
        f"Read: {told}. Slowdown is completion over what a trainer would take alone at its best size; Jain's index of the "
        "speeds is 1 where all are slowed down alike. Of the trainers that were done.",
        height_ratios=(1, 1),
    )
    _bars(above, jain, GREEN, "Jain's index", "{:.2f}")
    above.set_ylim(0, 1.25)
    _bars(below, slow, PURPLE, "worst slowdown", "{:,.0f}")
    return _named(figure, below, places)


def costs_by_policy_figure(places: Sequence[RankedPolicy]) -> Figure:
    """Shares of the possible samples that preemptions and planned rescales took."""
    taken = [lost_share(p, p.summary.preemption_cost_samples) or 0.0 for p in places]
    spent = [lost_share(p, p.summary.rescale_cost_samples) or 0.0 for p in places]
    least, most = int(np.argmin(spent)), int(np.argmax(spent))
    hit = int(np.argmin(taken))
    figure, (axes,) = sheet(
        "What preemption and rescaling cost",
        f"Read: preemptions cost {places[hit].name} least, {taken[hit]:.1%} of what it could have trained; planned rescales "
        f"cost {places[least].name} {spent[least]:.1%} and {places[most].name} {spent[most]:.1%}. The first is the main "
        "queue's doing, the second the policy's choice.",
    )
    spots = np.arange(len(places))
    axes.bar(spots, taken, 0.7, color=BLUE, edgecolor="white", label="preemption")
    axes.bar(spots, spent, 0.7, bottom=taken, color=ORANGE, hatch="///", edgecolor="white", label="planned rescales")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.margins(y=0.25)
    axes.set_ylabel("share of possible samples")
    axes.legend(loc="upper right", frameon=False, fontsize=9, ncols=2)
    return _named(figure, axes, places)


def decision_time_figure(places: Sequence[RankedPolicy]) -> Figure:
    """Median and 99th percentile of a decision, on a log scale."""
    p50 = [max(1e3 * p.summary.decision_s.p50, 1e-3) for p in places]
    p99 = [max(1e3 * p.summary.decision_s.p99, 1e-3) for p in places]
    slow = int(np.argmax(p99))
    figure, (axes,) = sheet(
        "Time for a decision",
        f"Read: in 99 of 100 cases {places[slow].name}, the slowest, decides within {p99[slow]:,.1f} ms; events come seconds "
        "apart. On the machine that made this page.",
    )
    spots = np.arange(len(places))
    axes.vlines(spots, p50, p99, color=FAINT, linewidth=2)
    axes.plot(spots, p50, "o", color=BLUE, markersize=8, label="median")
    axes.plot(spots, p99, "s", color=ORANGE, markersize=8, label="99 of 100")
    axes.set_yscale("log")
    axes.set_ylim(min(p50) / 2, max(p99) * 5)
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.set_ylabel("ms (log scale)")
    axes.legend(loc="upper right", frameon=False, fontsize=9, ncols=2)
    return _named(figure, axes, places)


def nodes_by_policy_figure(places: Sequence[RankedPolicy]) -> Figure:
    """Mean nodes in training over time under the first four, and the idle nodes."""
    idle = places[0].detail
    integral = float(np.dot(idle.idle, np.diff(idle.edges_s))) or 1.0
    shares = [(float(np.dot(p.detail.used, np.diff(p.detail.edges_s))) / integral, p.name) for p in places]
    figure, (axes,) = sheet(
        "Nodes in training",
        f"Read: {max(shares)[1]} puts most of the idle node-time to use, {max(shares)[0]:.0%}, {min(shares)[1]} least, "
        f"{min(shares)[0]:.0%}. To use more nodes is not yet to train more: large trainers waste them.",
    )
    edges = idle.edges_s / DAY_S
    axes.stairs(idle.idle, edges, fill=True, color=SKY, alpha=0.45, label="idle")
    for p, (colour, dashes) in zip(places, _LINES, strict=False):
        axes.stairs(p.detail.used, edges, color=colour, linestyle=dashes, linewidth=0.9, label=p.name, baseline=None)
    axes.set_ylim(bottom=0)
    axes.margins(y=0.2)
    axes.set_xlim(edges[0], edges[-1])
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.set_ylabel("nodes")
    axes.legend(loc="upper right", frameon=False, fontsize=8, ncols=3)
    date_axis(axes)
    return figure


def _bars(axes: Axes, values: Sequence[float], colour: str, label: str, text: str) -> None:
    """A bar and its number for each; none where there is no value (NaN)."""
    known = [0.0 if math.isnan(value) else value for value in values]
    axes.bar(range(len(known)), known, 0.7, color=colour, edgecolor="white")
    for x, (value, height) in enumerate(zip(values, known, strict=True)):
        said = "none" if math.isnan(value) else text.format(value)
        axes.text(x, height, said, ha="center", va="bottom", fontsize=8, color=INK)
    axes.set_ylim(0, max([*known, 1e-9]) * 1.25)
    axes.set_ylabel(label)


def _named(figure: Figure, axes: Axes, places: Sequence[RankedPolicy]) -> Figure:
    axes.set_xticks(range(len(places)), [p.name for p in places], rotation=25, ha="right", fontsize=8)
    axes.set_xlim(-0.6, len(places) - 0.4)
    return figure


def _beside(most: float, least: float) -> str:
    """How much more, in words."""
    if least <= 0:
        return "against nothing under"
    return f"{most / least:.1f} times as many as" if most >= 2 * least else f"{most / least - 1:.1%} more than"
