"""Models side by side: runtimes of their trainers by objective (the paper's Fig. 12), and U (Fig.
15).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, PercentFormatter

from bftrainer_replay.figures.style import BLUE, GREEN, INK, ORANGE, sheet

_LOOKS = ((BLUE, ""), (ORANGE, "///"), (GREEN, "..."))


_INSIDE: dict[str, Any] = {
    "ha": "center",
    "va": "bottom",
    "fontsize": 8,
    "color": INK,
    "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1.2, "alpha": 0.85},
}
_FAVORS = {
    "relative-speed": "weighs models by their speed on an equal share of the nodes",
    "throughput": "gives nodes to models with cheap samples",
    "scaling-efficiency": "weighs models by their speedup over one node",
}
_LOG_FROM = 20.0  # times as long: lower bars could not be distinguished


def runtimes_figure(
    hours: Mapping[str, Mapping[str, float]],
    paper: Mapping[str, Mapping[str, float]] | None = None,
    setting: str = "",
) -> Figure:
    """Draw ``hours[objective][model]``, the mean hours of the completed trainers, as bars; a model
    without completed trainers has none.

    ``paper`` has the same shape and is shown as diamonds; ``setting`` ends the title.
    """
    models = sorted({model for hours_of_model in hours.values() for model in hours_of_model})
    figure, (axes,) = sheet(
        f"Mean runtime of each model's trainers{setting and f', {setting}'}",
        f"Read: {_reading_text(hours)}. {_purposes_text(hours)}Only "
        "trainers that completed before the end "
        "of the log count."
        f"{' Diamonds: the paper.' if paper else ''}",
    )
    spots, width = np.arange(len(models)), 0.8 / max(len(hours), 1)
    looks = zip(hours.items(), _LOOKS, strict=False)
    for i, ((objective, hours_of_model), (color, hatch)) in enumerate(looks):
        values = [hours_of_model.get(model, 0.0) for model in models]
        # The bars of a model stand side by side, around its place on the axis.
        left = spots + (i - (len(hours) - 1) / 2) * width
        axes.bar(left, values, width, color=color, hatch=hatch, edgecolor="white", label=objective)
        _label_bars(axes, left, values, inside=paper is not None)
        if paper is not None:
            axes.plot(
                left,
                [paper[objective].get(model, np.nan) for model in models],
                "D",
                color=INK,
                markersize=6,
                markeredgecolor="white",
                label=None if i else "paper",
            )
    heights = [value for values in hours.values() for value in values.values() if value > 0]
    if heights and max(heights) > _LOG_FROM * min(heights):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xticks(spots, models)
    axes.margins(y=0.18)
    axes.set_ylabel("hours (log scale)" if axes.get_yscale() == "log" else "hours")
    axes.legend(loc="upper right", frameon=False, fontsize=9, ncols=3)
    return figure


def _reading_text(hours: Mapping[str, Mapping[str, float]]) -> str:
    """Return a sentence on how much longer the slowest model takes than the fastest.

    It has a part for each objective.
    """
    phrases = []
    for objective, hours_of_model in hours.items():
        if not hours_of_model:
            continue
        slow = max(hours_of_model, key=hours_of_model.__getitem__)
        quick = min(hours_of_model, key=hours_of_model.__getitem__)
        ratio = 0.0
        if hours_of_model[quick]:
            ratio = hours_of_model[slow] / hours_of_model[quick]
        phrases.append(f"under {objective}, {slow} takes {ratio:.1f} times as long as {quick}")
    return "; ".join(phrases) or "no trainer completed"


def _label_bars(
    axes: Axes, left: Iterable[float], values: Sequence[float], *, inside: bool
) -> None:
    """Write its value on every bar: above it, or at its foot if its top is occupied."""
    for x, value in zip(left, values, strict=True):
        if not value:
            continue
        if inside:
            axes.text(x, 0.02, f"{value:.1f}", transform=axes.get_xaxis_transform(), **_INSIDE)
        else:
            axes.text(x, value, f"{value:.1f}", ha="center", va="bottom", fontsize=8, color=INK)


def _purposes_text(objectives: Iterable[str]) -> str:
    """What each objective of the legend favors, under the name that the legend has."""
    purposes = [f"{name} {_FAVORS[name]}" for name in objectives if name in _FAVORS]
    return f"The objective {'; '.join(purposes)}. " if purposes else ""


def efficiency_by_model_figure(
    shares: Mapping[str, float], setting: str, paper: Mapping[str, float]
) -> Figure:
    """Draw U by model, in the given order (the least scalable first)."""
    low, high = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
    figure, (axes,) = sheet(
        f"Efficiency by model, {setting}",
        f"Read: from {shares[low]:.1%} for {low} to {shares[high]:.1%} for {high}; the models "
        "are ordered by their speedup "
        f"on 64 nodes{'; diamonds: the paper' if paper else ''}.",
    )
    names = list(shares)
    axes.bar(range(len(names)), list(shares.values()), 0.6, color=BLUE)
    for x, share in enumerate(shares.values()):
        axes.text(
            x,
            0.02,
            f"{share:.1%}",
            ha="center",
            va="bottom",
            fontsize=9,
            fontweight="bold",
            color="white",
        )
    paper_points = [(x, paper[name]) for x, name in enumerate(names) if name in paper]
    axes.plot(
        [x for x, _ in paper_points],
        [y for _, y in paper_points],
        "D",
        color=INK,
        markersize=7,
        markeredgecolor="white",
    )
    axes.set_ylim(0, 1.12)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_ylabel("efficiency U")
    axes.set_xticks(range(len(names)), names)
    return figure
