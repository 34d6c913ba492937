"""The paper's Fig. 1: lengths of fragments, by number and weighted by node-time."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, PercentFormatter

from bftrainer.counted import counted
from bftrainer_replay.analysis.characterize import SHORT_FRAGMENT_S
from bftrainer_replay.analysis.window_fragments import fragments_of
from bftrainer_replay.figures.style import BLUE, FAINT, INK, ORANGE, sheet
from bftrainer_replay.logs.model import LogWindow

_TICKS = (
    (1, "1 s"),
    (10, "10 s"),
    (60, "1 min"),
    (600, "10 min"),
    (3600, "1 h"),
    (6 * 3600, "6 h"),
    (86400, "1 day"),
    (7 * 86400, "1 week"),
    (30 * 86400, "30 days"),
    (365 * 86400, "1 year"),
)
_MAX_POINTS = 5000
_LOW = 0.12  # a label under a lower point would touch the axis


def fragments_figure(window: LogWindow) -> Figure:
    """Draw the cumulative distribution of fragment lengths on a logarithmic axis, as shares of the
    fragments and of the node-time.
    """
    length_s, counts = fragments_of(window).by_length()
    title = "Lengths of fragments (cumulative)"
    if not len(length_s):
        figure, (axes,) = sheet(title, "No node is idle in this window.")
        axes.text(0.5, 0.5, "no fragments", transform=axes.transAxes, ha="center", color=INK)
        return figure
    n_fragments = int(counts.sum())
    count = np.cumsum(counts) / n_fragments
    node_time = np.cumsum(length_s * counts)
    node_time /= node_time[-1]
    short_length_count = int(np.searchsorted(length_s, SHORT_FRAGMENT_S, side="left"))
    short, short_time = (
        float(share[short_length_count - 1]) if short_length_count else 0.0
        for share in (count, node_time)
    )
    figure, (axes,) = sheet(
        title,
        f"Read: {short:.0%} of the {counted(n_fragments, 'fragment is', 'fragments are')} "
        "shorter than "
        f"10 minutes; they contain "
        f"{short_time:.0%} of the idle node-time.",
    )
    axes.set_xscale("log")
    # Of a log with many different lengths, as many as a figure can show.
    drawn = np.unique(np.linspace(0, len(length_s) - 1, _MAX_POINTS).round().astype(np.int64))
    # Room beside the first and the last step; on a logarithmic axis, room is a factor.
    low, high = float(length_s[0]) / 1.3, float(length_s[-1]) * 1.3
    for shares, color, dashes, name in (
        (count, BLUE, "-", "share of fragments"),
        (node_time, ORANGE, (0, (5, 2)), "share of node-time"),
    ):
        at, up = np.append(low, length_s[drawn]), np.append(0.0, shares[drawn])
        axes.step(at, up, where="post", color=color, linestyle=dashes, linewidth=2, label=name)
    if low < SHORT_FRAGMENT_S < high:
        axes.axvline(SHORT_FRAGMENT_S, color=FAINT, linewidth=1)
        for share, color in ((short, BLUE), (short_time, ORANGE)):
            axes.plot([SHORT_FRAGMENT_S], [share], "o", color=color, markersize=6)
            axes.annotate(
                f"{share:.0%}",
                (SHORT_FRAGMENT_S, share),
                (7, -4) if share > _LOW else (7, 7),  # under the point, but not on the axis
                textcoords="offset points",
                va="top" if share > _LOW else "bottom",
                fontsize=10,
                fontweight="bold",
                color=color,
            )
    axes.set_xlim(low, high)
    axes.set_ylim(0, 1.02)
    ticks = [(at_s, name) for at_s, name in _TICKS if low <= at_s <= high]
    axes.set_xticks([at_s for at_s, _ in ticks], [name for _, name in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_xlabel("fragment length (log scale)")
    axes.set_ylabel("share of this length or shorter")
    axes.legend(loc="upper left", frameon=False, fontsize=10)
    return figure
