"""Models side by side: runtimes of their trainers by objective (the paper's Fig. 12), and U (Fig.
15).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
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
    """``hours[objective][model]``: mean hours of the completed trainers; a model without completed
    trainers has no bar.

    ``paper`` has the same shape and is shown as diamonds; ``setting`` ends the title.
    """
    models = sorted({model for each in hours.values() for model in each})
    reading = []
    for objective, each in hours.items():
        if each:
            slow, quick = max(each, key=lambda m: each[m]), min(each, key=lambda m: each[m])
            ratio = each[slow] / each[quick] if each[quick] else 0.0
            reading.append(f"under {objective}, {slow} takes {ratio:.1f} times as long as {quick}")
    figure, (axes,) = sheet(
        f"Mean runtime of each model's trainers{setting and f', {setting}'}",
        f"Read: {'; '.join(reading) or 'no trainer completed'}. {_purposes(hours)}Only "
        "trainers that completed before the end "
        "of the log count."
        f"{' Diamonds: the paper.' if paper else ''}",
    )
    spots, width = np.arange(len(models)), 0.8 / max(len(hours), 1)
    for i, ((objective, each), (color, hatch)) in enumerate(
        zip(hours.items(), _LOOKS, strict=False)
    ):
        values = [each.get(model, 0.0) for model in models]
        left = spots + (i - (len(hours) - 1) / 2) * width
        axes.bar(left, values, width, color=color, hatch=hatch, edgecolor="white", label=objective)
        for x, value in zip(left, values, strict=True):
            if value and paper is None:
                axes.text(x, value, f"{value:.1f}", ha="center", va="bottom", fontsize=8, color=INK)
            elif value:  # the diamonds are at the tops of the bars
                axes.text(x, 0.02, f"{value:.1f}", transform=axes.get_xaxis_transform(), **_INSIDE)
        if paper is not None:
            said = [paper[objective].get(model, np.nan) for model in models]
            axes.plot(
                left,
                said,
                "D",
                color=INK,
                markersize=6,
                markeredgecolor="white",
                label=None if i else "paper",
            )
    there = [value for each in hours.values() for value in each.values() if value > 0]
    if there and max(there) > _LOG_FROM * min(there):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xticks(spots, models)
    axes.margins(y=0.18)
    axes.set_ylabel("hours (log scale)" if axes.get_yscale() == "log" else "hours")
    axes.legend(loc="upper right", frameon=False, fontsize=9, ncols=3)
    return figure


def _purposes(objectives: Iterable[str]) -> str:
    """What each objective of the legend favors, under the name that the legend has."""
    known = [f"{name} {_FAVORS[name]}" for name in objectives if name in _FAVORS]
    return f"The objective {'; '.join(known)}. " if known else ""


def efficiency_by_model_figure(
    shares: Mapping[str, float], setting: str, paper: Mapping[str, float]
) -> Figure:
    """U by model, in the given order (the least scalable first)."""
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
    known = [(x, paper[name]) for x, name in enumerate(names) if name in paper]
    axes.plot(
        [x for x, _ in known],
        [y for _, y in known],
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
