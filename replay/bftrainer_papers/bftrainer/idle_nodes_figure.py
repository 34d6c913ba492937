"""The paper's Fig. 6: idle nodes over time, and their share of the machine in steps of six
hours.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from bftrainer_replay.analysis.characterize import characterize
from bftrainer_replay.analysis.window_fragments import PoolSizes, pool_sizes_of
from bftrainer_replay.figures.style import (
    BLUE,
    DAY_S,
    INK,
    SKY,
    date_axis,
    shade_spans,
    sheet,
    whole_numbers,
)
from bftrainer_replay.logs.event_log import format_time
from bftrainer_replay.logs.model import LogWindow

_BAR_HOURS = (6, 12, 24, 48, 168, 720)
_MOST_BARS = 32  # with more bars, the labels would touch


def idle_nodes_figure(window: LogWindow) -> Figure:
    """Draw |N| over time as a step area; below, the mean idle share of each six hours (longer bars
    in longer windows).
    """
    figures = characterize(window)
    sizes = pool_sizes_of(window)
    # The shortest bars that are not too many for their labels.
    hours = next((h for h in _BAR_HOURS if figures.span_h <= h * _MOST_BARS), _BAR_HOURS[-1])
    edges_s, shares = mean_shares(sizes, window, hours)
    # Sizes that last for no time are no peak.
    peak_s = float(sizes.start_s[np.argmax(np.where(sizes.duration_s > 0, sizes.nodes, -1))])
    span = f"{figures.span_h:.3g} h" if figures.span_h < 48 else f"{figures.span_h / 24:.3g} days"
    figure, (area, bars) = sheet(
        f"Idle nodes of {figures.machine_nodes:,}, {span} from "
        f"{format_time(window.start_s, window.zone)}",
        f"Read: on average, {_mean_text(figures.eq_nodes)} nodes "
        f"({figures.idle_share:.1%}) are idle; "
        "half of the time no more than "
        f"{figures.idle_nodes_median:,} are. The peak is {figures.idle_nodes_max:,} on "
        f"{format_time(peak_s, window.zone)[:16].replace('T', ' at ')}.{_shaded_text(window)}",
        height_ratios=(2, 1),
    )
    # The last size is drawn up to the window's end.
    at = np.append(sizes.start_s / DAY_S, window.end_s / DAY_S)
    area.fill_between(
        at, np.append(sizes.nodes, sizes.nodes[-1]), step="post", color=SKY, linewidth=0
    )
    area.step(at, np.append(sizes.nodes, sizes.nodes[-1]), where="post", color=BLUE, linewidth=0.6)
    area.axhline(figures.eq_nodes, color=INK, linewidth=1, linestyle=(0, (4, 2)))
    area.annotate(
        f"mean {_mean_text(figures.eq_nodes)}",
        (1, figures.eq_nodes),
        (-2, 3),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        ha="right",
        fontsize=9,
        fontweight="bold",
        color=INK,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1},
    )
    area.set_ylim(bottom=0)
    whole_numbers(area.yaxis)
    for panel in (area, bars):
        shade_spans(panel, (*window.outages, *window.gaps))
    area.set_ylabel("idle nodes")
    left, width = edges_s[:-1] / DAY_S, np.diff(edges_s) / DAY_S
    bars.bar(left, shares, width, align="edge", color=SKY, edgecolor="white", linewidth=0.8)
    digits = 0 if shares.max() >= 0.1 else 1
    for x, share in zip(left + width / 2, shares, strict=True):
        bars.annotate(
            f"{100 * share:.{digits}f}",
            (x, share),
            (0, 1.5),
            textcoords="offset points",
            ha="center",
            fontsize=8,
            color=INK,
        )
    bars.set_ylim(0, max(float(shares.max()) * 1.25, 0.01))
    bars.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g}%"))
    bars.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    bars.set_ylabel(f"mean of {hours} h")
    bars.set_xlabel(f"time ({window.clock_name})")
    bars.set_xlim(window.start_s / DAY_S, window.end_s / DAY_S)
    date_axis(bars, window.zone)
    return figure


def _shaded_text(window: LogWindow) -> str:
    """Return a sentence on what the shaded spans are; empty without any."""
    kinds = [
        name
        for name, spans in (("outages", window.outages), ("gaps in the record", window.gaps))
        if spans
    ]
    return f" Shaded: {' and '.join(kinds)}." if kinds else ""


def _mean_text(nodes: float) -> str:
    """A mean number of nodes, with one decimal if it is small."""
    return f"{nodes:,.0f}" if nodes >= 20 else f"{nodes:.1f}"


def mean_shares(
    sizes: PoolSizes, window: LogWindow, hours: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the edges (s) of consecutive bars, and the mean idle share of the cluster in each.

    Bars are ``hours`` long from the window's start; the last one is cut at its end.
    """
    edges_s = np.append(np.arange(window.start_s, window.end_s, hours * 3600), window.end_s)
    node_s = np.concatenate(([0.0], np.cumsum(sizes.nodes * sizes.duration_s)))
    # Idle node-seconds from the window's start to each edge.
    at_edges = np.interp(edges_s, np.append(sizes.start_s, window.end_s), node_s)
    return edges_s, np.diff(at_edges) / np.diff(edges_s) / window.machine_nodes
