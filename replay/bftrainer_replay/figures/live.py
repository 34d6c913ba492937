"""A live pilot over time: the nodes that it held, the nodes in training, and the steps of each trainer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bftrainer_replay.figures.style import BLUE, GREEN, ORANGE, PURPLE, SKY, sheet

_COLORS = (GREEN, ORANGE, PURPLE)


def live_figure(
    idle: Sequence[tuple[float, int]],
    decisions: Sequence[tuple[float, int, int]],
    steps: Mapping[str, Sequence[tuple[float, int]]],
    caption: str,
) -> Figure:
    """``idle`` nodes of the log, (held, in training) after each decision, (seconds, step) per trainer."""
    figure, (nodes, progress) = sheet("A live pilot on the nodes of the log", caption, height_ratios=(3, 2))
    nodes.step(*zip(*idle, strict=True), where="post", color=SKY, linewidth=1.0, label="idle in the log")
    if decisions:
        at_s, held, used = zip(*decisions, strict=True)
        nodes.fill_between(at_s, held, step="post", color=SKY, linewidth=0, alpha=0.35, label="held")
        nodes.step(at_s, used, where="post", color=BLUE, linewidth=1.4, label="in training")
    nodes.set_ylabel("nodes")
    nodes.set_ylim(bottom=0)
    nodes.yaxis.set_major_locator(MaxNLocator(integer=True))
    nodes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.98), frameon=False, fontsize=9, ncols=3)
    for color, (name, points) in zip(_COLORS, steps.items(), strict=False):
        progress.plot(*zip(*points, strict=True), color=color, linewidth=1.4, label=name)
    progress.set_ylabel("step")
    progress.set_ylim(bottom=0)
    if steps:
        progress.legend(loc="upper left", frameon=False, fontsize=9)
    progress.set_xlabel("seconds since the pilot's start")
    return figure
