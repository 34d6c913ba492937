"""Policies side by side, in the order of the ranking: outcome and completion times."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bftrainer_replay.comparison.compare import RankedPolicy
from bftrainer_replay.figures.style import BLUE, FAINT, INK, ORANGE, SKY, sheet


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
