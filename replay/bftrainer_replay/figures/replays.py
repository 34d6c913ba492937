"""One replay: nodes over time, samples lost over time, and the trainers as bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import tzinfo

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from bftrainer_replay.figures.style import (
    BLUE,
    DAY_S,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    YELLOW,
    date_axis,
    shade,
    sheet,
    whole_numbers,
)
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.simulation.bins import Bins
from bftrainer_replay.sweep.detail import Detail

_COLORS = (BLUE, ORANGE, GREEN, PURPLE, YELLOW, SKY, "#666666")


def nodes_figure(detail: Detail, name: str, efficiency: float | None, window: LogWindow, shown: str = "") -> Figure:
    """Mean idle and training nodes; ``shown`` names the part of the log, if it is not all of it."""
    idle_h, used_h = (float(np.dot(x, np.diff(detail.edges_s))) / 3600 for x in (detail.idle, detail.used))
    share = used_h / idle_h if idle_h else 0.0
    reading = (
        ""
        if efficiency is None
        else f" They trained {efficiency:.1%} of what dedicated nodes would have trained (efficiency U)."
    )
    figure, (axes,) = sheet(
        f"Nodes idle and nodes in training, {name}",
        f"Read: {share:.1%} of the {idle_h:,.0f} idle node-hours{shown and f' of {shown}'} went to trainers.{reading}",
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


def lost_figure(by_policy: Mapping[str, Bins], zone: tzinfo | None = None) -> Figure:
    """Share of the possible samples lost in each bin to preemption and to planned rescales, a panel per policy (Fig. 11)."""
    parts = []
    for name, d in by_policy.items():
        whole = float((d.samples + d.lost_to_preemption + d.lost_to_rescale).sum()) or 1.0
        parts.append(
            f"under {name}, {d.lost_to_preemption.sum() / whole:.1%} of the possible samples are lost to preemption and "
            f"{d.lost_to_rescale.sum() / whole:.1%} to planned rescales"
        )
    figure, panels = sheet(
        "Training lost to preemption and to rescaling",
        f"Read: {'; '.join(parts)}. The main queue causes the preemptions; the policy chooses the rescales.",
        height_ratios=(1,) * len(by_policy),
    )
    most = 0.01
    for axes, (name, d) in zip(panels, by_policy.items(), strict=True):
        possible = d.samples + d.lost_to_preemption + d.lost_to_rescale
        possible[possible <= 0] = np.inf
        preempted, rescaled = d.lost_to_preemption / possible, d.lost_to_rescale / possible
        left, width = d.edges_s[:-1] / DAY_S, np.diff(d.edges_s) / DAY_S
        axes.bar(left, preempted, width, align="edge", color=BLUE, edgecolor="white", label="preemption")
        axes.bar(
            left, rescaled, width, align="edge", bottom=preempted, color=ORANGE, hatch="///", edgecolor="white",
            label="planned rescales",
        )  # fmt: skip
        most = max(most, float((preempted + rescaled).max(initial=0.0)))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.set_ylabel(name if len(by_policy) > 1 else "share of possible samples lost")
        axes.set_xlim(d.edges_s[0] / DAY_S, d.edges_s[-1] / DAY_S)
    for axes in panels:
        axes.set_ylim(0, 1.35 * most)
    panels[0].legend(loc="upper right", frameon=False, fontsize=9, ncols=2)
    date_axis(panels[-1], zone)
    return figure


def trainers_figure(detail: Detail, name: str, zone: tzinfo | None = None) -> Figure:
    """A bar per trainer from its first start to its end, colored by model, in the lowest free lane."""
    rows = sorted(detail.trainers, key=lambda row: row[2])
    lanes = _lanes([(start, end) for _, _, start, end, _ in rows])
    ended = sum(done for *_, done in rows)
    figure, (axes,) = sheet(
        f"Trainers, {name}",
        f"Read: each bar is one trainer from its first start to its end, in a free lane. Of these {len(rows):,} trainers, "
        f"{ended:,} completed within the time shown. Long bars are trainers that wait for nodes or have few nodes.",
    )
    for model, color in zip(sorted({row[1] for row in rows}), _COLORS * 9, strict=False):
        mine = [(lane, row) for lane, row in zip(lanes, rows, strict=True) if row[1] == model]
        axes.barh(
            [lane for lane, _ in mine],
            [(end - start) / DAY_S for _, (_, _, start, end, _) in mine],
            left=[start / DAY_S for _, (_, _, start, _, _) in mine],
            height=0.8,
            color=color,
            edgecolor="white",
            linewidth=0.2,
            label=model,
        )
    axes.set_ylim(max(lanes, default=0) + 0.6, -0.14 * (max(lanes, default=0) + 1) - 0.6)
    axes.yaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.set_yticks([tick for tick in axes.get_yticks() if 0 <= tick <= max(lanes, default=0)])
    axes.set_xlim(detail.edges_s[0] / DAY_S, detail.edges_s[-1] / DAY_S)
    axes.set_ylabel("lane")
    axes.grid(visible=False, axis="y")
    axes.legend(
        loc="upper right", fontsize=8, frameon=False, ncols=7, columnspacing=0.8, handlelength=0.9, handletextpad=0.3
    )
    date_axis(axes, zone)
    return figure


def _lanes(spans: Sequence[tuple[float, float]]) -> list[int]:
    """For each (start, end), in order of start: the lowest lane whose last bar ends no later than this start."""
    free_s: list[float] = []
    lanes = []
    for start, end in spans:
        lane = next((i for i, at in enumerate(free_s) if at <= start), len(free_s))
        free_s[lane : lane + 1] = [end]
        lanes.append(lane)
    return lanes
