"""One replay: nodes over time."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from bftrainer_replay.figures.style import (
    BLUE,
    DAY_S,
    SKY,
    date_axis,
    shade_spans,
    sheet,
    whole_numbers,
)
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.sweep.detail import Detail


def nodes_figure(detail: Detail, name: str, window: LogWindow, shown: str = "") -> Figure:
    """Draw mean idle and training nodes over time; ``shown`` names the part of the log, if it is
    not all of it.
    """
    idle_h, used_h = (
        float(np.dot(node_counts, np.diff(detail.edges_s))) / 3600
        for node_counts in (detail.idle, detail.used)
    )
    share = used_h / idle_h if idle_h else 0.0
    figure, (axes,) = sheet(
        f"Nodes idle and nodes in training, {name}",
        f"Read: {share:.1%} of the {idle_h:,.0f} idle node-hours{shown and f' of {shown}'} "
        "went to trainers.",
    )
    edges = detail.edges_s / DAY_S
    axes.stairs(detail.idle, edges, fill=True, color=SKY, alpha=0.55, label="idle")
    axes.stairs(detail.used, edges, color=BLUE, linewidth=1.0, label="in training", baseline=None)
    axes.set_ylim(bottom=0)
    axes.set_xlim(edges[0], edges[-1])
    whole_numbers(axes.yaxis)
    shade_spans(axes, (*window.outages, *window.gaps), "out of service or not recorded")
    axes.set_ylabel("nodes")
    axes.legend(loc="upper left", frameon=False, fontsize=9, ncols=3)
    date_axis(axes, window.zone)
    return figure
