"""When nodes are idle: by weekday and hour of the day, and by month."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from bftrainer_replay.analysis.calendar import DAYS, IdleHours
from bftrainer_replay.figures.style import BLUE, INK, SHADE, SKY, sheet
from bftrainer_replay.logs.model import LogWindow

_LEAST_DAYS = 4
"""Days of a weekday from which on their mean is shown: one long job moves the mean of two."""


def hours_figure(found: IdleHours, clock: str) -> Figure:
    """The idle share in each hour of the week, as colors; gray: not in the log.

    A log of so few weeks that a cell would stand for a day or two has the hours of the day only.
    """
    if found.days.max() < _LEAST_DAYS:
        return _day_figure(found, clock)
    by_hour, by_day = found.by_hour, found.by_day
    peak, low = int(np.nanargmax(by_hour)), int(np.nanargmin(by_hour))
    days = [day for day in range(7) if not np.isnan(by_day[day])]
    most = max(days, key=lambda day: by_day[day])
    least = min(days, key=lambda day: by_day[day])
    figure, (axes,) = sheet(
        "Idle share by weekday and hour of the day",
        f"Read: nodes are idle most between {peak}:00 and {peak + 1}:00 ({by_hour[peak]:.1%} of them), least between {low}:00 "
        f"and {low + 1}:00 ({by_hour[low]:.1%}); by day, most on {DAYS[most]} ({by_day[most]:.1%}), least on {DAYS[least]} "
        f"({by_day[least]:.1%}). Each field is the mean of {_counted(found)} days.",
    )
    shown = axes.pcolormesh(np.arange(25), np.arange(8), found.shares, cmap="Blues", vmin=0)
    axes.set_facecolor(SHADE)
    axes.set_yticks(np.arange(7) + 0.5, DAYS)
    axes.invert_yaxis()
    axes.set_xticks(range(0, 25, 3), [f"{hour}:00" for hour in range(0, 25, 3)])
    axes.grid(visible=False)
    axes.set_xlabel(f"hour of the day ({clock})")
    scale = axes.inset_axes((1.01, 0.0, 0.015, 1.0))
    figure.colorbar(shown, cax=scale, format=PercentFormatter(1.0, decimals=None))
    scale.tick_params(labelsize=8)
    return figure


def _counted(found: IdleHours) -> str:
    counts = found.days[found.days > 0]
    return f"{counts.min()}" if counts.min() == counts.max() else f"{counts.min()} to {counts.max()}"


def _day_figure(found: IdleHours, clock: str) -> Figure:
    """The mean of each hour of the day over all days, and the span of single days."""
    known = [hour[~np.isnan(hour)] for hour in found.by_date.T]
    hours = [place for place, each in enumerate(known) if len(each)]
    mean, low, high = (np.array([f(known[hour]) for hour in hours]) for f in (np.mean, np.min, np.max))
    most, least = int(np.argmax(mean)), int(np.argmin(mean))
    figure, (axes,) = sheet(
        "Idle share by hour of the day",
        f"Read: averaged over {len(found.by_date)} days, nodes are idle most between {hours[most]}:00 and "
        f"{hours[most] + 1}:00 ({mean[most]:.1%} of them), least between {hours[least]}:00 and {hours[least] + 1}:00 "
        f"({mean[least]:.1%}). Thin lines: from the lowest to the highest single day. The log is too short to tell weekdays "
        "apart.",
    )
    at = np.array(hours) + 0.5
    axes.bar(at, mean, 0.85, color=SKY, edgecolor=BLUE, linewidth=0.8)
    axes.vlines(at, low, high, color=INK, linewidth=0.8)
    axes.set_xlim(0, 24)
    axes.set_ylim(bottom=0)
    axes.set_xticks(range(0, 25, 3), [f"{hour}:00" for hour in range(0, 25, 3)])
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_xlabel(f"hour of the day ({clock})")
    axes.set_ylabel("idle share")
    return figure


def months_figure(months: Sequence[tuple[str, float]], window: LogWindow) -> Figure:
    """The idle share of each month; the first and the last may be parts of months."""
    highest, lowest = max(months, key=lambda month: month[1]), min(months, key=lambda month: month[1])
    figure, (axes,) = sheet(
        "Idle share by month",
        f"Read: between {lowest[1]:.1%} ({lowest[0]}) and {highest[1]:.1%} ({highest[0]}) of {window.machine_nodes:,} nodes "
        "are idle. The log may have only a part of the first and of the last month.",
    )
    axes.bar(range(len(months)), [share for _, share in months], color=SKY, edgecolor=BLUE, linewidth=0.8)
    step = -(-len(months) // 14)
    axes.set_xticks(range(0, len(months), step), [month for month, _ in months[::step]])
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_ylabel("idle share")
    return figure
