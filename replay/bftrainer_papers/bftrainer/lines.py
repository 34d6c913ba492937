"""One measure over one setting, a line per policy or objective: the paper's Figs. 7b, 8, 9, 13, 14
and 16 for any log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure
from matplotlib.ticker import (
    FuncFormatter,
    NullFormatter,
    NullLocator,
    PercentFormatter,
    StrMethodFormatter,
)

from bftrainer_replay.figures.style import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    YELLOW,
    sheet,
)

_LOOKS = (
    (BLUE, "o", "-"),
    (ORANGE, "s", "--"),
    (GREEN, "^", "-."),
    (PURPLE, "D", ":"),
    (YELLOW, "v", "-"),
    (SKY, "P", "--"),
    (INK, "X", "-."),
)


_NEAR = 0.06  # of the range of an axis: the height of a name beside a level


@dataclass(frozen=True, slots=True)
class Line:
    """A named line through points (x, y)."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Level:
    """A constant for comparison, such as a bound or another policy."""

    name: str
    y: float


def lines_figure(
    title: str,
    caption: str,
    lines: Sequence[Line],
    *,
    x: str,
    y: str,
    percent: bool = False,
    log_x: bool = False,
    levels: Sequence[Level] = (),
) -> Figure:
    """Draw lines with markers at the replayed values, without smoothing.

    ``x`` and ``y`` are the names of the axes; ``levels`` are horizontal lines for comparison.
    """
    figure, (axes,) = sheet(title, caption)
    for line, (color, marker, dashes) in zip(
        # Looks are repeated if there are more lines.
        lines,
        _LOOKS * (1 + len(lines) // len(_LOOKS)),
        strict=False,
    ):
        axes.plot(
            [at for at, _ in line.points],
            [value for _, value in line.points],
            color=color,
            marker=marker,
            linestyle=dashes,
            linewidth=1.8,
            markersize=6,
            label=line.name,
        )
    for name, height in _separated_labels(lines, levels):
        axes.axhline(height, color=FAINT, linewidth=1, linestyle=(0, (4, 2)))
        axes.annotate(
            name,
            (1, height),
            (-2, 3),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            ha="right",
            fontsize=9,
            color=INK,
        )
    if log_x:
        axes.set_xscale("log")
    seen = sorted({at for line in lines for at, _ in line.points})
    axes.set_xticks(seen, [f"{at:g}" for at in seen])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(PercentFormatter(1.0) if percent else _number_formatter(lines))
    axes.margins(x=0.04, y=0.15)
    if not percent and all(value >= 0 for line in lines for _, value in line.points):
        axes.set_ylim(bottom=0)  # amounts are compared by their height
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if len(lines) > 1:
        axes.legend(loc="best", frameon=False, fontsize=9)
    return figure


def _separated_labels(lines: Sequence[Line], levels: Sequence[Level]) -> list[tuple[str, float]]:
    """Return a name and a height for each level line, without names that would overlap.

    From the top down: a level closer than ``_NEAR`` of the axis to the one above it gets no line of
    its own; its name is appended to the upper one's.
    """
    heights = [y for line in lines for _, y in line.points] + [level.y for level in levels]
    least_distance = _NEAR * (max(heights, default=0.0) - min(heights, default=0.0))
    names: list[tuple[str, float]] = []
    for level in sorted(levels, key=lambda level: -level.y):
        if names and names[-1][1] - level.y <= least_distance:
            names[-1] = (f"{names[-1][0]}, {level.name}", names[-1][1])
        else:
            names.append((level.name, level.y))
    return names


def _number_formatter(lines: Sequence[Line]) -> FuncFormatter | StrMethodFormatter:
    values = [value for line in lines for _, value in line.points]
    largest = max(values, default=0)
    if largest >= 20:
        return StrMethodFormatter("{x:,.0f}")
    return FuncFormatter(lambda value, _: f"{value:g}" if abs(value) < 1e-9 else f"{value:.3g}")
