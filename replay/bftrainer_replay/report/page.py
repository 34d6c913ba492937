"""The page of ``report`` and ``compare``: chapters of pictures and tables, one HTML file, and the
same as files.
"""

from __future__ import annotations

import base64
import html
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import cached_property
from pathlib import Path

import jinja2
import numpy as np
from matplotlib.figure import Figure

from bftrainer import __version__
from bftrainer.system.files import write_atomically
from bftrainer_replay.csv_tables import csv_bytes
from bftrainer_replay.figures.layout import screens
from bftrainer_replay.figures.style import png
from bftrainer_replay.logs.model import LogWindow


@dataclass(frozen=True, slots=True)
class PageTable:
    """Rows of text; the first column names the row. ``main`` is the row to look at first.
    ``prose``: cells are sentences.

    In the CSV, columns of numbers are plain, with their unit in the header.
    """

    name: str
    title: str
    sentence: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    main: int | None = None
    prose: bool = False

    @property
    def csv(self) -> bytes:
        columns = [
            _csv_column(name, cells) for name, *cells in zip(self.header, *self.rows, strict=True)
        ]
        return csv_bytes(
            [name for name, _ in columns], list(zip(*(cells for _, cells in columns), strict=True))
        )


_QUANTITY = re.compile(r"([+-]?\d[\d,]*(?:\.\d+)?)(?: ?(%|s|min|h))?")


def _csv_column(name: str, cells: Sequence[str]) -> tuple[str, list[str]]:
    """Return the heading and the cells of a column as in a CSV file, where numbers are plain.

    If all cells are numbers of one unit or empty, they lose their commas and unit, and the heading
    gets the unit ("5 h" in "wait" -> "5" in "wait (h)"). Other columns stay as they are.
    """
    matches = [_QUANTITY.fullmatch(cell) for cell in cells]
    units = {match[2] or "" for match in matches if match is not None}
    has_words = any(match is None and cell for match, cell in zip(matches, cells, strict=True))
    if has_words or len(units) != 1:
        return name, list(cells)
    (unit,) = units
    numbers = ["" if match is None else match[1].replace(",", "") for match in matches]
    return f"{name} ({unit})" if unit else name, numbers


@dataclass(frozen=True)
class Picture:
    """A figure of ``style.sheet`` with its data as a table.

    In the file the figure carries its title and caption; on the page both are text beside it.
    ``series`` lets the page's script draw the figure again with a pointer and zoom: JSON of
    :func:`step_series`, or empty.
    """

    name: str
    figure: Figure
    header: tuple[str, ...]
    rows: Sequence[Sequence[object]]
    series: str = ""

    @property
    def title(self) -> str:
        return self.figure.texts[0].get_text()

    @property
    def sentence(self) -> str:
        return self.figure.texts[1].get_text().replace("\n", " ")

    @property
    def alt(self) -> str:
        return f"{self.title}. {self.sentence.removeprefix('Read: ')}"

    @property
    def csv(self) -> bytes:
        return csv_bytes(self.header, self.rows)

    @cached_property
    def file(self) -> bytes:
        """The PNG with title and caption."""
        return png(self.figure)

    @cached_property
    def sources(self) -> tuple[str, str]:
        """The images for wide and narrow screens as data: URLs."""
        assert self.file, "drawn first: screens() changes the figure"
        wide, narrow = (
            f"data:image/png;base64,{base64.b64encode(image).decode()}"
            for image in screens(self.figure)
        )
        return wide, narrow


@dataclass(frozen=True, slots=True)
class Chapter:
    """A heading, a sentence or two, pictures and tables."""

    title: str
    text: str
    items: tuple[Picture | PageTable, ...]


@dataclass(frozen=True, slots=True)
class Box:
    """A figure at the top; ``kind`` is a class of the template, ``origin`` (measured, simulated,
    calculated) says how, from ``where``.
    """

    kind: str
    title: str
    number: str
    text: str
    fine: str
    origin: str
    where: str


@dataclass(frozen=True, slots=True)
class TopPicture:
    """A chart at the top with a claim as title; ``legend`` has (class, words), ``charts`` SVG, each
    with a line above it.
    """

    title: str
    legend: tuple[tuple[str, str], ...]
    charts: tuple[tuple[str, str], ...]
    table: PageTable


@dataclass(frozen=True, slots=True)
class PageTop:
    """The top of a page that is read in twenty seconds; ``rows`` are (name, words), where ``**``
    encloses bold words.
    """

    about: str
    sentence: str
    boxes: tuple[Box, ...]
    pictures: tuple[TopPicture, ...]
    rows: tuple[tuple[str, str], ...]
    foot: str


@dataclass(frozen=True, slots=True)
class Page:
    """A report page with its chapters. ``tiles`` are (name, value); ``commands`` produce the same
    results again.

    With a ``top``, all else is folded under ``appendix``.
    """

    title: str
    lead: str
    warnings: tuple[str, ...]
    tiles: tuple[tuple[str, str], ...]
    chapters: tuple[Chapter, ...]
    commands: tuple[str, ...]
    top: PageTop | None = None
    appendix: str = ""


def render(page: Page) -> bytes:
    """Return the page as UTF-8 HTML without any reference to the network.

    A value that the template misses is an error.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("bftrainer_replay.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["marked_up"] = _marked_up
    return environment.get_template("page.html.j2").render(page=page, version=__version__).encode()


def _marked_up(text: str) -> str:
    """Turn a text into HTML: options are not broken at their hyphens, and ``**words**``
    are bold.
    """
    unbroken = re.sub(r"--[a-z][a-z-]*", r'<span class="option">\g<0></span>', html.escape(text))
    return re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", unbroken)


def write(out: Path, page: Page) -> int:
    """Write pictures/*.png, data/*.csv and, last, report.html; return the size of report.html in
    bytes.
    """
    # The charts at the top are SVG within the page: only their tables are files.
    top_tables = () if page.top is None else tuple(chart.table for chart in page.top.pictures)
    for item in (*top_tables, *(item for chapter in page.chapters for item in chapter.items)):
        if isinstance(item, Picture):
            write_atomically(out / "pictures" / f"{item.name}.png", item.file)
        write_atomically(out / "data" / f"{item.name}.csv", item.csv)
    html_bytes = render(page)
    write_atomically(out / "report.html", html_bytes)
    return len(html_bytes)


def step_series(
    edges_s: Sequence[float], values: Mapping[str, Sequence[float]], window: LogWindow
) -> str:
    """Return nodes over time as JSON for the page's script.

    Each number is constant between two edges (seconds since 1970). The first series is filled.
    ``window`` has the time zone of the reader and the spans to shade.
    """
    series = {name: [round(float(v), 1) for v in line] for name, line in values.items()}
    return json.dumps(
        {
            "edges": [round(at) for at in edges_s],
            "series": series,
            "offsets": [] if window.zone is None else offsets(edges_s, window.zone),
            "shaded": [[round(at) for at in span] for span in (*window.outages, *window.gaps)],
        }
    )


def offsets(edges_s: Sequence[float], zone: tzinfo) -> list[tuple[int, int]]:
    """Return the offsets of a time zone as (from when, seconds east of UTC), in order of time.

    There are more than one if clocks are changed between the edges, which they are at full hours.
    """
    changes: list[tuple[int, int]] = []
    first_hour_s = 3600 * math.ceil(edges_s[0] / 3600)
    full_hours_s = np.arange(first_hour_s, edges_s[-1], 3600).tolist()
    for at_s in (edges_s[0], *full_hours_s):
        offset = datetime.fromtimestamp(at_s, zone).utcoffset()
        offset_s = 0 if offset is None else round(offset.total_seconds())
        if not changes or changes[-1][1] != offset_s:
            changes.append((round(at_s), offset_s))
    return changes
