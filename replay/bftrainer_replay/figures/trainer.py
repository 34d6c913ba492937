"""One trainer's course: loss, nodes and speed, over time and over samples."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator
from numpy.typing import NDArray

from bftrainer.console.client.history import History, HistoryPoint
from bftrainer.counted import counted
from bftrainer_replay.figures.style import (
    BLUE,
    DAY_S,
    FAINT,
    GREEN,
    ORANGE,
    PURPLE,
    date_axis,
    sheet,
)

_BINS = 240
_MAX_JOINED = 400
"""Reports of the loss up to which a line joins them."""
_METRIC_RATIO: dict[bool, tuple[float, ...]] = {False: (), True: (1.2,)}
Values = NDArray[np.float64]


def rescale_times(history: History) -> tuple[float, ...]:
    """Return when the number of nodes changed after the first start."""
    steps = history.nodes
    started = next((i for i, step in enumerate(steps) if step.nodes), len(steps))
    return tuple(step.at_s for step in steps[started + 1 :])


def speeds(points: Sequence[HistoryPoint]) -> tuple[Values, Values, Values]:
    """Return the edges of equal intervals of time, and per interval the speed and the samples
    reached.

    The speed is the average of samples per second; the samples are those at the interval's end.
    Work that was done again after a loss of workers counts once: the speed of such an interval is
    lower, or 0.
    """
    at = np.array([point.at_s for point in points], float)
    samples = np.array([point.samples for point in points], float)
    furthest = np.maximum.accumulate(samples)
    edges = np.linspace(at[0], at[-1], min(_BINS, max(len(points) // 2, 1)) + 1)
    reached = np.interp(edges, at, furthest)
    return edges, np.diff(reached) / np.diff(edges), reached[1:]


def over_time_figure(name: str, history: History, metric: str | None = None) -> Figure:
    """Draw a trainer's loss (and a metric), nodes and speed over time, each in a panel."""
    points = history.points
    edges, speed, _ = speeds(points)
    changes = rescale_times(history)
    max_nodes = max((step.nodes for step in history.nodes), default=0)
    ratios = (2, *_METRIC_RATIO[metric is not None], 1, 1.2)
    figure, panels = sheet(
        f"{name}: over time",
        f"Read: {_loss_sentence(points)} The trainer had up to {counted(max_nodes, 'node')} and "
        f"{len(changes)} "
        f"changes of size (thin lines); "
        f"its mean speed was {_mean_speed(points):,.3g} samples/s. A stall is where the speed "
        "drops at a change.",
        height_ratios=ratios,
    )
    middle, bottom = panels[-2:]
    _draw_values(panels[:-2], points, [point.at_s / DAY_S for point in points], metric)
    if history.nodes:
        # The last number of nodes is drawn up to here.
        end_s = max(history.until_s, points[-1].at_s)
        middle.stairs(
            [step.nodes for step in history.nodes],
            np.array([*(step.at_s for step in history.nodes), end_s]) / DAY_S,
            color=GREEN,
            fill=True,
            alpha=0.85,
            baseline=0,
        )
    middle.set_ylabel("nodes")
    middle.set_ylim(0, max_nodes * 1.15 + 0.2)
    middle.yaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
    bottom.stairs(speed, edges / DAY_S, color=BLUE, linewidth=1.5)
    bottom.set_ylabel("samples/s")
    bottom.set_ylim(0, None)
    for axes in (*panels[:-2], bottom):
        _mark_places(axes, [at_s / DAY_S for at_s in changes])
    bottom.set_xlabel("time (UTC)")
    date_axis(bottom)
    return figure


def over_samples_figure(name: str, history: History, metric: str | None = None) -> Figure:
    """Draw a trainer's loss (and a metric) and speed over its samples.

    This shows what a rescale does to the training itself, without the waiting.
    """
    points = history.points
    _, speed, reached = speeds(points)
    changes = _samples_at(points, rescale_times(history))
    figure, panels = sheet(
        f"{name}: over samples",
        f"Read: {_loss_sentence(points)} Time without nodes does not show here: a loss that "
        "jumps at a thin line (a change of "
        "size) would mean that the change disturbs the training.",
        height_ratios=(2, *_METRIC_RATIO[metric is not None], 1.2),
    )
    bottom = panels[-1]
    _draw_values(panels[:-1], points, [point.samples for point in points], metric)
    bottom.plot(reached, speed, color=BLUE, linewidth=1.2, drawstyle="steps-pre")
    bottom.set_ylabel("samples/s")
    bottom.set_ylim(0, None)
    bottom.set_xlabel("samples")
    bottom.xaxis.set_major_formatter(EngFormatter(sep=""))
    for axes in panels:
        _mark_places(axes, changes)
    return figure


def _draw_values(
    panels: Sequence[Axes], points: Sequence[HistoryPoint], x: Sequence[float], metric: str | None
) -> None:
    """Draw the loss in the first panel, the metric in the second."""
    axes = panels[0]
    axes.set_ylabel("loss")
    losses = [
        (at, point.loss) for at, point in zip(x, points, strict=True) if point.loss is not None
    ]
    if losses:
        at, values = (np.array(column) for column in zip(*losses, strict=True))
        if (
            len(values) > _MAX_JOINED
        ):  # the reports scatter; the mean of each part shows where they go
            axes.plot(at, values, ".", color=ORANGE, alpha=0.5, markersize=1.5, label="each report")
            axes.plot(*_means_of_parts(at, values), color=ORANGE, linewidth=1.8, label="mean")
            axes.legend(loc="upper right", frameon=False, fontsize=9, ncols=2)
        else:
            marker = "." if len(values) < 40 else None
            axes.plot(at, values, color=ORANGE, linewidth=1.5, marker=marker)
        # A loss that falls to less than a twentieth is drawn on a logarithmic axis.
        if values.min() > 0 and values.max() / values.min() > 20:
            axes.set_yscale("log")
    if metric is not None:
        reports = [
            (at, point.metrics[metric])
            for at, point in zip(x, points, strict=True)
            if metric in point.metrics
        ]
        panels[1].plot(
            *zip(*reports, strict=True), color=PURPLE, linewidth=1.5, marker="o", markersize=3
        )
        panels[1].set_ylabel(metric if len(metric) <= 14 else f"{metric[:12]}..")


def _means_of_parts(at: Values, values: Values) -> tuple[Values, Values]:
    """The mean of each of equal parts; a part without reports breaks the line."""
    edges = np.linspace(at[0], at[-1], 121)
    counts, _ = np.histogram(at, edges)
    sums, _ = np.histogram(at, edges, weights=values)
    return (edges[1:] + edges[:-1]) / 2, np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _mark_places(axes: Axes, places: Sequence[float]) -> None:
    """Draw a thin line at every place."""
    for place in places:
        axes.axvline(place, color=FAINT, linewidth=0.7, zorder=0.5)


def _samples_at(points: Sequence[HistoryPoint], times_s: Sequence[float]) -> list[float]:
    """The samples that were done at these times."""
    if not times_s:
        return []
    samples = [point.samples for point in points]
    interpolated = np.interp(times_s, [point.at_s for point in points], samples)
    return [float(value) for value in interpolated]


def _mean_speed(points: Sequence[HistoryPoint]) -> float:
    """Samples per second over the whole time; 0 if no time has passed."""
    gained = sum(max(b.samples - a.samples, 0.0) for a, b in pairwise(points))
    passed_s = points[-1].at_s - points[0].at_s
    return gained / passed_s if passed_s > 0 else 0.0


def _loss_sentence(points: Sequence[HistoryPoint]) -> str:
    """Return a sentence on how the loss went from the first report to the last."""
    losses = [(point.loss, point.samples) for point in points if point.loss is not None]
    if not losses:
        return f"no loss was reported over {counted(points[-1].samples, 'sample')}."
    least, at = min(losses)
    ends = f"the loss went from {losses[0][0]:.3g} to {losses[-1][0]:.3g}"
    return f"{ends}; its smallest report, {least:.3g}, came at {counted(at, 'sample')}."
