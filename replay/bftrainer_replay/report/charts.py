"""Charts of a page as SVG that fits any width: shapes lie in an inner SVG that stretches, text in
the outer one, in percent.

Colors are classes of the template, so that one source serves screens, dark screens and paper.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

_HEIGHT = 1000.0  # units of the inner SVG from top to bottom
_MAX_TICKS = 4


@dataclass
class Chart:
    """A chart under construction: x from 0 to ``wide``, y from 0 to ``high``, both in the units of
    the data.
    """

    wide: float
    high: float
    shapes: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def x(self, at: float) -> float:
        """Return where a value is, in percent from the left."""
        return 100 * at / self.wide

    def y(self, value: float) -> float:
        """Return where a value is, in percent from the top."""
        return 100 * (1 - value / self.high)

    def band(self, begin: float, end: float, kind: str) -> None:
        """Draw a background from top to bottom; ``kind`` is a class of the template, here and
        below.
        """
        self.shapes.append(
            f'<rect class="{kind}" x="{begin:.2f}" y="0" width="{end - begin:.2f}" '
            f'height="{_HEIGHT:.0f}"/>'
        )

    def steps(self, edges: Sequence[float], values: NDArray[np.float64], kind: str) -> None:
        """Draw an area under steps; NaN is a hole. Steps of less than one unit are left out."""
        path = [f"M{edges[0]:.2f} {_HEIGHT:.0f}"]
        drawn_level = _HEIGHT
        for begin, value in zip(edges, np.nan_to_num(values).tolist(), strict=False):
            level = self._height_of(value)
            if abs(level - drawn_level) >= 1:
                path.append(f"H{begin:.2f}V{level:.0f}")
                drawn_level = level
        path.append(f"H{edges[len(values)]:.2f}V{_HEIGHT:.0f}Z")
        self.shapes.append(f'<path class="{kind}" d="{"".join(path)}"/>')

    def line(self, points: Iterable[tuple[float, float]], kind: str) -> None:
        path = " L".join(f"{x:.3f} {self._height_of(y):.1f}" for x, y in points)
        self.shapes.append(f'<path class="{kind}" d="M{path}"/>')

    def dots(self, points: Iterable[tuple[float, float]], kind: str) -> None:
        """A round mark at each point, as the cap of a line without length: stretching leaves it
        round.
        """
        path = " ".join(f"M{x:.3f} {self._height_of(y):.1f}h0" for x, y in points)
        self.shapes.append(f'<path class="dot {kind}" d="{path}"/>')

    def grid(self, values: Iterable[float], label: str = "{:,.0f}") -> None:
        """Draw a horizontal line at each value, with the value at its left."""
        for value in values:
            kind = "grid" if value else "axis"
            self.shapes.append(
                f'<path class="{kind}" d="M0 {self._height_of(value):.1f}H{self.wide:.2f}"/>'
            )
            self.text(label.format(value), 0, value, dx=-6, dy=4, anchor="end")

    def text(
        self,
        words: str,
        at: float,
        value: float,
        *,
        kind: str = "",
        dx: float = 0,
        dy: float = 0,
        anchor: str = "start",
    ) -> None:
        """Write words at a point of the data, moved by ``dx`` and ``dy`` pixels."""
        place = (
            f'x="{self.x(at):.2f}%" y="{self.y(value):.2f}%" dx="{dx:g}" dy="{dy:g}" '
            f'text-anchor="{anchor}"'
        )
        style = f' class="{kind}"' if kind else ""
        self.texts.append(f"<text{style} {place}>{html.escape(words)}</text>")

    def svg(self, label: str, kind: str = "") -> str:
        """Return the chart as SVG; ``label`` says what it shows, for readers that do not see it."""
        return (
            f'<svg class="chart {kind}" role="img" width="100%" aria-label="{html.escape(label)}">'
            f'<svg class="shapes" width="100%" height="100%" viewBox="0 0 {self.wide:.3f} '
            f'{_HEIGHT:.0f}" '
            'preserveAspectRatio="none" '
            f'aria-hidden="true">{"".join(self.shapes)}</svg>{"".join(self.texts)}</svg>'
        )

    def _height_of(self, value: float) -> float:
        """Return where a value is in the inner SVG, from the top; values off the chart at its
        edge.
        """
        return _HEIGHT * (1 - min(max(value / self.high, 0.0), 1.0))


def ticks(largest: float) -> list[float]:
    """Return values for an axis: from 0 up, in steps of 1, 2 or 5 times a power of ten (at least
    1), at most four above 0.
    """
    min_step = max(largest / _MAX_TICKS, 1.0)
    # The largest power of ten that is not above the smallest step.
    power_of_ten = 10.0 ** math.floor(math.log10(min_step))
    # The factors 0.999 and 1.001 allow for rounding.
    step = next(
        power_of_ten * factor
        for factor in (1, 2, 5, 10)
        if power_of_ten * factor >= min_step * 0.999
    )
    return [step * k for k in range(math.floor(largest / step * 1.001) + 1)]
