"""Policies side by side, in the order of the ranking: outcome, completion times, fairness, costs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter, StrMethodFormatter

from bftrainer_replay.comparison.compare import RankedPolicy, lost_share
from bftrainer_replay.figures.style import BLUE, DAY_S, FAINT, GREEN, INK, ORANGE, PURPLE, SKY, date_axis, sheet

_LINES = ((BLUE, "-"), (ORANGE, "--"), (GREEN, "-"), (PURPLE, ":"))


def outcome_figure(ranking: Sequence[RankedPolicy]) -> Figure:
    """One-node hours and samples."""
    hours = [p.summary.outcome_one_node_h for p in ranking]
    samples = [p.summary.outcome_samples / 1e6 for p in ranking]
    most = ranking[int(np.argmax(samples))].name
    figure, (above, below) = sheet(
        "Outcome",
        f"Read: {ranking[0].name} trains the most one-node hours, {_beside(hours[0], hours[-1])} {ranking[-1].name}; {most} "
        "trains the most samples. One-node hours weigh all models equally; samples favor policies that give nodes to models "
        "with cheap samples.",
        height_ratios=(1, 1),
    )
    _bars(above, hours, BLUE, "one-node hours", "{:,.0f}")
    _bars(below, samples, SKY, "million samples", "{:,.0f}")
    return _named(figure, below, ranking)


def frontier_figure(ranking: Sequence[RankedPolicy]) -> Figure:
    """Early results against an early last one: mean and last hours until trainers are done."""
    known = [(p.summary.done.mean_h or 0.0, p.summary.done.last_h or 0.0, p) for p in ranking]
    best = [at for at in known if not any(m <= at[0] and n <= at[1] and (m, n) != at[:2] for m, n, _ in known)]
    best.sort(key=lambda at: at[:2])
    open_ones = (
        " A hollow mark: some trainers are not done, so both are later."
        if any(p.summary.done.unfinished for p in ranking)
        else ""
    )
    figure, (axes,) = sheet(
        "Each result soon, or all of them",
        f"Read: no policy is earlier in both than {'; '.join(p.name for _, _, p in best)} (line). Hours from submission until "
        f"a trainer is done, on average, and until all are done.{open_ones}",
    )
    axes.plot([m for m, _, _ in best], [n for _, n, _ in best], color=FAINT, linewidth=1.2)
    for mean_h, last_h, p in known:
        color = BLUE if p.name.startswith("bftrainer") else ORANGE
        axes.plot(mean_h, last_h, "o", color=color, fillstyle="none" if p.summary.done.unfinished else "full")
        axes.annotate(p.name, (mean_h, last_h), (6, 4), textcoords="offset points", fontsize=8, color=INK)
    axes.margins(0.15)
    axes.set_xlabel("mean, h")
    axes.set_ylabel("last, h")
    return figure


def completion_figure(ranking: Sequence[RankedPolicy]) -> Figure:
    """Mean and 95th percentile of completion times, and the mean time until the first node."""
    rows = [(p.felt.mean_s / 3600, p.felt.p95_s / 3600, p.felt.queueing_s / 3600) for p in ranking]
    known = [(row[0], p) for row, p in zip(rows, ranking, strict=True) if not math.isnan(row[0])]
    reading = "no trainer completed under any policy"
    if known:
        quick_h, quick = min(known, key=lambda pair: pair[0])
        most = max(ranking, key=lambda p: p.felt.completed)
        reading = (
            f"{quick.name} has the shortest mean completion time, {quick_h:,.1f} h for {quick.felt.completed:,} completed "
            f"trainers; {most.name} completes the most, {most.felt.completed:,}"
        )
    figure, (above, below) = sheet(
        "Completion and queueing",
        f"Read: {reading}. Times are from submission to completion, of the trainers that completed before the end of the log; "
        "their number is on top of the bars. A policy that completes few may look fast. Queueing is the wait for a node.",
        height_ratios=(3, 2),
    )
    spots = np.arange(len(ranking))
    for i, (label, color, hatch) in enumerate((("mean", BLUE, ""), ("95th percentile", SKY, "///"))):
        values = [0.0 if math.isnan(row[i]) else row[i] for row in rows]
        above.bar(spots + 0.4 * i - 0.2, values, 0.4, color=color, hatch=hatch, edgecolor="white", label=label)
    for x, p in enumerate(ranking):
        top = max((0.0 if math.isnan(v) else v) for v in rows[x][:2])
        above.text(x, top, f"{p.felt.completed:,}", ha="center", va="bottom", fontsize=8, color=INK)
    above.margins(y=0.4)
    above.set_ylabel("completion, h")
    above.legend(loc="upper left", frameon=False, fontsize=9, ncols=2)
    _bars(below, [row[2] for row in rows], ORANGE, "queueing, h", "{:,.1f}")
    return _named(figure, below, ranking)


def fairness_figure(ranking: Sequence[RankedPolicy]) -> Figure:
    """Jain's index of the speeds, and the worst slowdown."""
    jain = [p.felt.jain for p in ranking]
    slow = [p.felt.worst_slowdown for p in ranking]
    known = [(p.felt.jain, p.felt.worst_slowdown, p.name) for p in ranking if not math.isnan(p.felt.jain)]
    reading = "no trainer completed under any policy"
    if known:
        fairest, kindest = max(known), min(known, key=lambda row: row[1])
        reading = (
            f"{fairest[2]} is fairest by Jain's index ({fairest[0]:.2f}); under {kindest[2]}, the worst slowdown is smallest "
            f"({kindest[1]:,.1f})"
        )
    figure, (above, below) = sheet(
        "Fairness",
        f"Read: {reading}. Slowdown is the completion time over the time that the trainer would take alone at its best size; "
        "Jain's index of the speeds is 1 if all trainers are slowed down equally. Completed trainers only.",
        height_ratios=(1, 1),
    )
    _bars(above, jain, GREEN, "Jain's index", "{:.2f}")
    above.set_ylim(0, 1.25)
    _bars(below, slow, PURPLE, "worst slowdown", "{:,.0f}")
    return _named(figure, below, ranking)


def costs_by_policy_figure(ranking: Sequence[RankedPolicy]) -> Figure:
    """Shares of the possible samples that were lost to preemptions and to planned rescales."""
    taken = [lost_share(p, p.summary.preemption_cost_samples) or 0.0 for p in ranking]
    spent = [lost_share(p, p.summary.rescale_cost_samples) or 0.0 for p in ranking]
    least, most = int(np.argmin(spent)), int(np.argmax(spent))
    hit = int(np.argmin(taken))
    figure, (axes,) = sheet(
        "Costs of preemption and rescaling",
        f"Read: {ranking[hit].name} loses the least to preemptions, {taken[hit]:.1%} of the samples that were possible. "
        f"Planned rescales cost {spent[least]:.1%} under {ranking[least].name} and {spent[most]:.1%} under "
        f"{ranking[most].name}. The main queue causes the preemptions; the policy chooses the rescales.",
    )
    spots = np.arange(len(ranking))
    axes.bar(spots, taken, 0.7, color=BLUE, edgecolor="white", label="preemption")
    axes.bar(spots, spent, 0.7, bottom=taken, color=ORANGE, hatch="///", edgecolor="white", label="planned rescales")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.margins(y=0.25)
    axes.set_ylabel("share of possible samples")
    axes.legend(loc="upper right", frameon=False, fontsize=9, ncols=2)
    return _named(figure, axes, ranking)


def nodes_by_policy_figure(ranking: Sequence[RankedPolicy]) -> Figure:
    """Mean nodes in training over time under the first four, and the idle nodes."""
    idle = ranking[0].detail
    integral = float(np.dot(idle.idle, np.diff(idle.edges_s))) or 1.0
    shares = [(float(np.dot(p.detail.used, np.diff(p.detail.edges_s))) / integral, p.name) for p in ranking]
    figure, (axes,) = sheet(
        "Nodes in training",
        f"Read: {max(shares)[1]} uses the most of the idle node-time, {max(shares)[0]:.0%}; {min(shares)[1]} uses the least, "
        f"{min(shares)[0]:.0%}. More nodes in use do not always mean more training: large trainers use them less efficiently.",
    )
    edges = idle.edges_s / DAY_S
    axes.stairs(idle.idle, edges, fill=True, color=SKY, alpha=0.45, label="idle")
    for p, (color, dashes) in zip(ranking, _LINES, strict=False):
        axes.stairs(p.detail.used, edges, color=color, linestyle=dashes, linewidth=0.9, label=p.name, baseline=None)
    axes.set_ylim(bottom=0)
    axes.margins(y=0.2)
    axes.set_xlim(edges[0], edges[-1])
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.set_ylabel("nodes")
    axes.legend(loc="upper right", frameon=False, fontsize=8, ncols=3)
    date_axis(axes)
    return figure


def _bars(axes: Axes, values: Sequence[float], color: str, label: str, text: str) -> None:
    """A bar with its number for each value; no bar for NaN."""
    known = [0.0 if math.isnan(value) else value for value in values]
    axes.bar(range(len(known)), known, 0.7, color=color, edgecolor="white")
    for x, (value, height) in enumerate(zip(values, known, strict=True)):
        said = "none" if math.isnan(value) else text.format(value)
        axes.text(x, height, said, ha="center", va="bottom", fontsize=8, color=INK)
    axes.set_ylim(0, max([*known, 1e-9]) * 1.25)
    axes.set_ylabel(label)


def _named(figure: Figure, axes: Axes, ranking: Sequence[RankedPolicy]) -> Figure:
    axes.set_xticks(range(len(ranking)), [p.name for p in ranking], rotation=25, ha="right", fontsize=8)
    axes.set_xlim(-0.6, len(ranking) - 0.4)
    return figure


def _beside(most: float, least: float) -> str:
    """The ratio of two outcomes in words."""
    if least <= 0:
        return "compared with none under"
    return f"{most / least:.1f} times as many as" if most >= 2 * least else f"{most / least - 1:.1%} more than"
