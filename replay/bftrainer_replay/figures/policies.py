"""Policies side by side: mean and last completion times."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from bftrainer_replay.comparison.compare import RankedPolicy
from bftrainer_replay.figures.style import BLUE, FAINT, INK, ORANGE, sheet


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
