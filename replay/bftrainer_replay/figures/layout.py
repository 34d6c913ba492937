"""A figure of ``style.sheet`` for a page: without its title and caption, once for a wide screen and
once for a narrow one.
"""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bftrainer_replay.figures.style import png

_EDGE = 0.015  # share of the image that stays free around all labels
_MOST_TICKS = 8  # of a narrow logarithmic axis, whose labels crowd at its end


def screens(figure: Figure) -> tuple[bytes, bytes]:
    """Return the figure as PNGs for a wide screen and for one of 400 pixels.

    Title and caption are left out, because the page has them as text. The figure itself is changed.
    """
    # The first two texts of a sheet are its title and its caption.
    for text in figure.texts[:2]:
        text.set_visible(False)
    _fit_size(figure, 8, 4)
    wide = png(figure)
    for axes in figure.axes:
        _narrow_axes(axes)
    _fit_size(figure, 4, 3.6)
    return wide, png(figure)


def _fit_size(figure: Figure, width: float, height: float) -> None:
    """Set the figure's size in inches, and margins in which all labels fit.

    It is drawn once with usual margins, to measure how far its labels reach.
    """
    figure.set_size_inches(width, height)
    sides = {"left": 0.11, "right": 0.97, "top": 0.96, "bottom": 0.14}
    _side_margins(figure, sides)
    FigureCanvasAgg(figure).draw()
    boxes = [box for axes in figure.axes if (box := axes.get_tightbbox()) is not None]
    across, down = width * figure.dpi, height * figure.dpi
    sides["left"] += _EDGE - min(box.x0 for box in boxes) / across
    sides["right"] += min(1 - _EDGE - max(box.x1 for box in boxes) / across, 0.0)
    sides["bottom"] += _EDGE - min(box.y0 for box in boxes) / down
    sides["top"] += min(1 - _EDGE - max(box.y1 for box in boxes) / down, 0.0)
    _side_margins(figure, sides)


def _narrow_axes(axes: Axes) -> None:
    """Change axes for half the width: slanted and fewer ticks, smaller text, and a legend above the
    axes instead of on them.
    """
    labels = axes.get_xticklabels()
    if axes.get_xscale() == "log" and len(labels) > _MOST_TICKS:
        # Every second tick.
        axes.set_xticks(axes.get_xticks()[::2], [label.get_text() for label in labels[::2]])
    axes.tick_params(axis="x", rotation=45)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set_fontsize(8)
    for text in axes.texts:
        # Numbers on many bars need smaller letters.
        text.set_fontsize(min(text.get_fontsize(), 6 if len(axes.patches) > 7 else 10))
    legend = axes.get_legend()
    if legend is None:
        return
    handles, names = axes.get_legend_handles_labels()
    if len(names) > 1:  # from the right: there is room above the labels of the y axis
        legend = axes.legend(
            handles,
            names,
            loc="lower right",
            bbox_to_anchor=(1.0, 1.0),
            frameon=False,
            ncols=3 if len(names) > 4 else 2,
            columnspacing=0.8,
            handlelength=1.5,
        )
    for text in legend.get_texts():
        text.set_fontsize(8)


def _side_margins(figure: Figure, sides: Mapping[str, float]) -> None:
    for axes in figure.axes:
        place = axes.get_subplotspec()
        assert place is not None, "a sheet's axes are on its grid"
        place.get_gridspec().update(**sides)  # type: ignore[attr-defined]  # the stubs know the base only
        axes.set_position(place.get_position(figure))
