"""The common style of all figures: safe for color-blind readers, readable at 800 pixels, with a
sentence as caption.

Figures use matplotlib's classes and never pyplot: no window, no global state, the same bytes from
any thread. ::

    figure, (axes,) = sheet("Idle nodes", "Read: 8 % of the machine is idle.")
    axes.plot(...)
    data = png(figure)
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Sequence
from datetime import UTC, tzinfo

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, num2date
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

# Palette of Okabe and Ito: distinct for every kind of color vision, and by lightness in gray.
BLUE = "#0072B2"
ORANGE = "#D55E00"
GREEN = "#009E73"
YELLOW = "#E69F00"
SKY = "#56B4E9"
PURPLE = "#CC79A7"
INK = "#222222"
FAINT = "#8A8A8A"
GRID = "#DDDDDD"
SHADE = "#E3E3E3"

WIDTH_PX, HEIGHT_PX, DPI = (
    1200,
    750,
    150,
)  # shown 800 wide, the smallest letters (8 pt) are 11 pixels high

DAY_S = 86400
"""matplotlib's dates count days since 1970: seconds since 1970 / DAY_S."""

_CAPTION_COLUMNS = 112


def sheet(
    title: str, caption: str, *, height_ratios: Sequence[float] = (1,)
) -> tuple[Figure, list[Axes]]:
    """Return a new figure with title and caption, and its panels, one below the other.

    There is one panel per height ratio; all have a common x axis.
    """
    figure = Figure(figsize=(WIDTH_PX / DPI, HEIGHT_PX / DPI), dpi=DPI, facecolor="white")
    lines = textwrap.wrap(caption, _CAPTION_COLUMNS, break_on_hyphens=False)
    below = 0.035 + 0.037 * len(lines)
    grid = figure.subplots(
        len(height_ratios),
        1,
        sharex=True,
        squeeze=False,
        gridspec_kw={
            "height_ratios": list(height_ratios),
            "left": 0.11,
            "right": 0.97,
            "top": 0.91,
            "bottom": below + 0.115,
            "hspace": 0.12,
        },
    )
    figure.text(0.02, 0.965, title, fontsize=12, fontweight="bold", color=INK, va="center")
    figure.text(0.02, 0.025, "\n".join(lines), fontsize=9, color=INK, va="bottom", linespacing=1.3)
    panels = [row[0] for row in grid]
    for axes in panels:
        _plain_axes(axes)
    figure.align_ylabels(panels)
    return figure, panels


class _Dates(ConciseDateFormatter):  # type: ignore[misc]  # matplotlib.dates has no types
    """Labels of a time axis; the text at its end adds what the ticks do not say: the year, and the
    day where no tick names one.
    """

    _ticks: Sequence[float] = ()

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        self._ticks = values
        texts: list[str] = super().format_ticks(values)
        return texts

    def get_offset(self) -> str:
        """The base class would repeat the day of a tick beside the year."""
        if not super().get_offset() or not len(self._ticks):
            return ""
        at = [num2date(tick, self._tz) for tick in self._ticks]
        names_a_day = any(moment.hour == moment.minute == 0 for moment in at)
        return f"{at[-1]:%Y}" if names_a_day else f"{at[-1]:%b %d, %Y}"


def date_axis(axes: Axes, zone: tzinfo | None = None) -> None:
    """Put concise ticks on an x axis in matplotlib dates (days since 1970).

    They are in the time zone, or as they are (the log's own clock).
    """
    tz = zone or UTC
    locator = AutoDateLocator(tz=tz, minticks=4, maxticks=10)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(
        _Dates(
            locator,
            tz=tz,
            formats=["%Y", "%b", "%b %d", "%H:%M", "%H:%M", "%S.%f"],
            zero_formats=["", "%Y", "%b %d", "%b %d", "%H:%M", "%H:%M"],
            offset_formats=["", "%Y", "%Y", "%Y-%m-%d", "%Y-%m-%d", "%Y-%m-%d %H:%M"],
        )
    )


def shade_spans(axes: Axes, spans: Iterable[tuple[float, float]], label: str = "") -> None:
    """Shade spans of time (seconds since 1970) in which nothing is known or the cluster is out of
    service.
    """
    for begin_s, end_s in spans:
        axes.axvspan(
            begin_s / DAY_S,
            end_s / DAY_S,
            facecolor=SHADE,
            edgecolor="none",
            zorder=0.5,
            label=label,
        )
        # Once in the legend is enough.
        label = ""


def whole_numbers(axis: Axis) -> None:
    """Ticks of an axis that counts: no half nodes or trainers."""
    axis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def png(figure: Figure) -> bytes:
    """The figure as PNG; equal figures give equal bytes."""
    FigureCanvasAgg(figure)
    out = io.BytesIO()
    figure.savefig(out, format="png", metadata={"Software": None})
    return out.getvalue()


def _plain_axes(axes: Axes) -> None:
    """Give axes two visible sides, a faint grid, and the sizes of text of all figures."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(FAINT)
    axes.tick_params(colors=INK, labelsize=9)
    axes.grid(visible=True, color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.xaxis.label.set_fontsize(10)
    axes.yaxis.label.set_fontsize(10)
