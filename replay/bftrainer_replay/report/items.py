"""What a report is made of: pictures and tables, each with its sentence and its data."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bftrainer_replay.csv_tables import csv_bytes
from bftrainer_replay.figures.style import png

Cells = tuple[tuple[str, ...], ...]
_EDGE = 0.015  # of the picture, around all labels


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text; the first column names the row. ``main`` is the row to look at first."""

    name: str
    title: str
    sentence: str
    header: tuple[str, ...]
    rows: Cells
    main: int | None = None

    @property
    def csv(self) -> bytes:
        """The same as a file."""
        return csv_bytes(self.header, self.rows)


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure twice: wide, and for a screen of 400 pixels; the words stand beside it in the page, and inside the file.

    ``series`` lets the page's script draw it again, to be read off and zoomed: JSON of :func:`stepped`, or empty.
    """

    name: str
    title: str
    sentence: str
    wide: bytes
    narrow: bytes
    file: bytes
    csv: bytes
    series: str = ""

    @property
    def alt(self) -> str:
        """For those who do not see it."""
        return f"{self.title}. {self.sentence.removeprefix('Read: ')}"

    @property
    def sources(self) -> tuple[str, str]:
        """Wide and narrow as data: URLs."""
        head = "data:image/png;base64,"
        return head + base64.b64encode(self.wide).decode(), head + base64.b64encode(self.narrow).decode()


@dataclass(frozen=True, slots=True)
class Chapter:
    """A heading, a sentence or two, and what belongs to it; ``note`` explains what many get wrong."""

    title: str
    text: str
    items: tuple[Picture | Table, ...]
    note: str = ""


def picture(
    name: str, figure: Figure, header: Sequence[str], rows: Sequence[Sequence[object]], series: str = ""
) -> Picture:
    """A figure of ``style.sheet``, whose title and sentence move from the picture to the page."""
    title, sentence = (text.get_text() for text in figure.texts[:2])
    file = png(figure)
    for text in figure.texts[:2]:
        text.set_visible(False)
    _fit(figure, 8, 4)
    wide = png(figure)
    for axes in figure.axes:
        _narrow(axes)
    _fit(figure, 4, 3.6)
    narrow = png(figure)
    return Picture(name, title, sentence.replace("\n", " "), wide, narrow, file, csv_bytes(header, rows), series)


def stepped(
    edges_s: Sequence[float],
    values: Mapping[str, Sequence[float]],
    unit: str,
    y: str,
    *,
    area: bool = False,
    shown: int = 4,
) -> str:
    """Series over time, each constant between two edges (seconds since 1970), as JSON for the page's script.

    The first is an ``area``, the first ``shown`` are shown until others are asked for. Unit "%" means shares.
    """
    digits = 4 if unit == "%" else 1
    told = {name: [round(float(v), digits) for v in line] for name, line in values.items()}
    return json.dumps(
        {"edges": [round(at) for at in edges_s], "series": told, "unit": unit, "y": y, "area": area, "shown": shown}
    )


def _fit(figure: Figure, width: float, height: float) -> None:
    """Size in inches, and margins that hold all labels, however long; ``style.sheet`` sets them on the grid alone."""
    figure.set_size_inches(width, height)
    sides = {"left": 0.11, "right": 0.97, "top": 0.96, "bottom": 0.14}
    _margins(figure, sides)
    FigureCanvasAgg(figure).draw()
    boxes = [box for axes in figure.axes if (box := axes.get_tightbbox()) is not None]
    across, down = width * figure.dpi, height * figure.dpi
    sides["left"] += _EDGE - min(box.x0 for box in boxes) / across
    sides["right"] += min(1 - _EDGE - max(box.x1 for box in boxes) / across, 0.0)
    sides["bottom"] += _EDGE - min(box.y0 for box in boxes) / down
    sides["top"] += min(1 - _EDGE - max(box.y1 for box in boxes) / down, 0.0)
    _margins(figure, sides)


def _narrow(axes: Axes) -> None:
    """For half the width: slanted ticks, smaller words, and a long legend above the axes instead of on them."""
    axes.tick_params(axis="x", rotation=45)
    axes.xaxis.label.set_fontsize(8)
    for text in axes.texts:
        text.set_fontsize(min(text.get_fontsize(), 6 if len(axes.patches) > 7 else 10))
    legend = axes.get_legend()
    if legend is None:
        return
    entries = len(legend.get_texts())
    if entries > 3:
        legend = axes.legend(
            *axes.get_legend_handles_labels(), loc="lower left", bbox_to_anchor=(0.0, 1.0), frameon=False,
            ncols=3 if entries > 4 else 2, columnspacing=0.8,
        )  # fmt: skip
    for text in legend.get_texts():
        text.set_fontsize(8)


def _margins(figure: Figure, sides: Mapping[str, float]) -> None:
    for axes in figure.axes:
        place = axes.get_subplotspec()
        assert place is not None, "a sheet's axes are on its grid"
        place.get_gridspec().update(**sides)  # type: ignore[attr-defined]  # the stubs know the base only
        axes.set_position(place.get_position(figure))
