"""One figure per setting, over replays: T_fwd (the paper's Figs. 7-9, 13), P_jmax (Fig. 14),
rescale cost (Fig. 16).

``levels`` are constants for comparison, such as the paper's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from bftrainer_papers.bftrainer.lines import Level, Line, lines_figure
from bftrainer_replay.figures.style import BLUE, GREEN, INK, ORANGE, SKY, sheet

Points = Sequence[tuple[float, float]]
FLAT = 0.005
"""A share of the best value: smaller differences do not matter for a choice."""


def preempted_figure(
    lines: Sequence[Line], levels: Sequence[Level] = (), what: str = "the departure of a node"
) -> Figure:
    """Draw the share of the events that ``what`` follows within T_fwd (Fig. 7a), a line per
    reading.

    The caption reads the first line at about 120 s.
    """
    points = lines[0].points
    near, share = min(points, key=lambda point: abs(point[0] - 120.0))
    span_90_s = next((at for at, value in points if value >= 0.9), None)
    reading = "in no span shown are 90 %"
    if span_90_s is not None:
        reading = f"within {span_90_s:,g} s, at least 90 % are"
    return lines_figure(
        "Preemption before the forecast is over",
        f"Read: {share:.0%} of the events are followed by {what} within {near:g} s; {reading}.",
        lines,
        x="T_fwd, s",
        y="share of events",
        percent=True,
        log_x=True,
        levels=levels,
    )


def rescale_cost_figure(points: Points, per: str = "", levels: Sequence[Level] = ()) -> Figure:
    """Draw the million samples lost to planned rescales over T_fwd (Fig. 7b), in total or ``per``
    something.
    """
    (first, low), (last, high) = points[0], points[-1]
    digits = ",.0f" if max(low, high) >= 20 else ",.3g"
    return lines_figure(
        "Rescale cost over forward-looking time",
        f"Read: planned rescales cost {low:{digits}} million samples{per} at {first:g} s and "
        f"{high:{digits}} at "
        f"{last:g} s, {high / low if low else 0:.1f} times as many.",
        [Line("cost", tuple(points))],
        x="T_fwd, s",
        y=f"million samples{per}",
        log_x=True,
        levels=levels,
    )


def return_figure(
    back: Points, outcome: Points, spread: Mapping[float, Sequence[float]] | None = None
) -> Figure:
    """Draw the samples trained per sample spent on planned rescales over T_fwd, and the outcome in
    million samples (Fig. 8).

    ``spread`` has, per T_fwd, the 10th, 25th, 50th, 75th and 90th percentile over single events.
    """
    (first, first_return), (last, last_return) = back[0], back[-1]
    spread_sentence = ""
    if spread:
        at, (low, _, half, _, high) = next(iter(spread.items()))
        spread_sentence = (
            f" At {at:g} s, half of the single events return more than {half:,.0f}, one in ten "
            f"{low:,.1f} or less, one in ten "
            f"{high:,.0f} or more."
        )
    figure, (above, below) = sheet(
        "Return on rescaling",
        f"Read: for each sample lost to a planned rescale, {first_return:,.0f} are trained at "
        f"{first:g} s and {last_return:,.0f} at "
        f"{last:g} s, while the outcome goes from {outcome[0][1]:,.0f} to "
        f"{outcome[-1][1]:,.0f} million: a longer T_fwd "
        f"invests more for a small change of the outcome.{spread_sentence}",
        height_ratios=(3, 2),
    )
    for axes, points, color, label in (
        (above, back, ORANGE, "trained / lost"),
        (below, outcome, GREEN, "million samples"),
    ):
        axes.plot(
            [at for at, _ in points],
            [y for _, y in points],
            "o-",
            color=color,
            linewidth=1.8,
            markersize=6,
        )
        axes.set_ylabel(label)
        axes.set_ylim(0, 1.15 * max(y for _, y in points) or 1)
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    if spread:
        _draw_spread(above, spread)
    below.set_xscale("log")
    below.set_xticks([at for at, _ in back], [f"{at:g}" for at, _ in back])
    below.set_xticks([], minor=True)
    below.set_xlabel("T_fwd, s")
    return figure


def _draw_spread(axes: Axes, spread: Mapping[float, Sequence[float]]) -> None:
    """Draw the spread of single events: a thin line from the 10th to the 90th percentile, a thick
    one between the quartiles, and a mark at the median.
    """
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.lines[0].set_label("of all events")
    at = list(spread)
    low, first, half, third, high = zip(*spread.values(), strict=True)
    axes.vlines(at, low, high, color=BLUE, linewidth=1.2, label="single events, 10 to 90 %")
    axes.vlines(at, first, third, color=SKY, linewidth=7, label="25 to 75 %")
    axes.plot(at, half, "_", color=INK, markersize=14, label="median")
    positive = [value for value in low if value > 0]
    bottom = min(positive) / 2 if any(low) else 0.1
    axes.set_ylim(bottom, 8 * max(*high, 1.0))
    axes.legend(loc="upper right", frameon=False, fontsize=8, ncols=4)


def efficiency_over_forward_figure(lines: Sequence[Line], levels: Sequence[Level] = ()) -> Figure:
    """Draw U over T_fwd (Figs. 9 and 13), a line per objective."""
    reading = []
    for line in lines:
        at, best = max(line.points, key=lambda point: point[1])
        enough = next(x for x, value in line.points if value >= (1 - FLAT) * best)
        name = f"under {line.name}, " if len(lines) > 1 else ""
        sooner = f", and {enough:g} s is already within {FLAT:.1%} of that" if enough < at else ""
        reading.append(f"{name}the best is {best:.1%} at {at:g} s{sooner}")
    return lines_figure(
        "Efficiency U over forward-looking time",
        f"Read: {'; '.join(reading)}.",
        lines,
        x="T_fwd, s",
        y="efficiency U",
        percent=True,
        log_x=True,
        levels=levels,
    )


def efficiency_over_parallel_figure(lines: Sequence[Line], unused: Points) -> Figure:
    """Draw U over P_jmax (Fig. 14c), a line per objective, and the share of the idle node-hours
    that is left over.
    """
    first, last = lines[0].points[0], lines[0].points[-1]
    return lines_figure(
        "Efficiency U and idle node-hours left over, by P_jmax",
        f"Read: with {first[0]:g} concurrent trainers, {unused[0][1]:.1%} of the idle "
        "node-hours are left over, with "
        f"{last[0]:g} {unused[-1][1]:.1%}. Efficiency U is {first[1]:.1%} and {last[1]:.1%}: "
        "it compares with constant nodes "
        "under the same number of trainers, so it says nothing about what is left over.",
        [*lines, Line("idle node-hours left over", tuple(unused))],
        x="P_jmax",
        y="share",
        percent=True,
    )


def runtime_figure(lines: Sequence[Line], since: str = "start") -> Figure:
    """Draw the mean runtime of the completed trainers over P_jmax (Fig. 14b), a line per
    objective.
    """
    first, last = lines[0].points[0], lines[0].points[-1]
    return lines_figure(
        "Mean runtime of a trainer over P_jmax",
        f"Read: a completed trainer took {first[1]:.1f} h on average with {first[0]:g} "
        f"concurrent trainers and {last[1]:.1f} h "
        f"with {last[0]:g}: more of them train more in total, and each takes longer.",
        lines,
        x="P_jmax",
        y=f"hours from {since} to end",
    )


def integral_figure(lines: Sequence[Line]) -> Figure:
    """Draw the node-hours until the queue is empty over P_jmax (Fig. 14a), a line per objective."""
    first, last = lines[0].points[0], lines[0].points[-1]
    return lines_figure(
        "Resource integral over P_jmax",
        f"Read: completing all trainers takes {first[1]:,.0f} node-hours of idle nodes with "
        f"{first[0]:g} concurrent trainers "
        f"and {last[1]:,.0f} with {last[0]:g}, "
        f"{last[1] / first[1] - 1 if first[1] else 0:+.0%}: a trainer on n "
        "nodes is less than n times as fast as on one.",
        lines,
        x="P_jmax",
        y="node-hours until all trainers are complete",
    )


def efficiency_over_cost_figure(lines: Sequence[Line]) -> Figure:
    """Draw U over the cost of rescaling (Fig. 16); the caption reads the first line."""
    points = lines[0].points
    at, last = points[-1]
    return lines_figure(
        "Efficiency U over rescale cost",
        f"Read: if rescaling takes {at:g} times as long as assumed, U is {last:.1%} instead of "
        f"{dict(points).get(1.0, points[0][1]):.1%}.",
        lines,
        x="R_up and R_dw, relative to the workload",
        y="efficiency U",
        percent=True,
        log_x=True,
    )
