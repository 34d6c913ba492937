"""The page of ``report``, ``compare`` and ``demo``: chapters of pictures and tables, one HTML file, and the same as files."""

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
    """Rows of text; the first column names the row. ``main`` is the row to look at first. ``prose``: cells are sentences."""

    name: str
    title: str
    sentence: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    main: int | None = None
    prose: bool = False

    @property
    def csv(self) -> bytes:
        return csv_bytes(self.header, self.rows)


@dataclass(frozen=True)
class Picture:
    """A figure of ``style.sheet`` with its data as a table.

    In the file the figure carries its title and caption; on the page both are text beside it. ``series`` lets the page's
    script draw the figure again with a pointer and zoom: JSON of :func:`step_series`, or empty.
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
        wide, narrow = (f"data:image/png;base64,{base64.b64encode(image).decode()}" for image in screens(self.figure))
        return wide, narrow


@dataclass(frozen=True, slots=True)
class Chapter:
    """A heading, a sentence or two, pictures and tables; ``note`` explains a common misunderstanding."""

    title: str
    text: str
    items: tuple[Picture | PageTable, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class BarPart:
    """A part of a whole as a share; ``color`` is a color variable of the template (c1 to c6, soft)."""

    name: str
    share: float
    color: str


@dataclass(frozen=True, slots=True)
class BarMark:
    """A part that overlaps others, as a strip under the bar: from ``begins`` on, both as shares of the whole."""

    name: str
    begins: float
    share: float


@dataclass(frozen=True, slots=True)
class Bar:
    """The parts of one whole, which ``whole`` names, and a part that overlaps some of them."""

    whole: str
    parts: tuple[BarPart, ...]
    mark: BarMark | None = None

    @property
    def text(self) -> str:
        """All figures in words."""
        told = ", ".join(f"{part.name} {part.share:.1%}" for part in self.parts)
        return (
            f"{self.whole}: {told if self.mark is None else f'{told}; {self.mark.name} at most {self.mark.share:.1%}'}"
        )


@dataclass(frozen=True, slots=True)
class TopPart:
    """Sentences of one origin at the top of a page; ``warning`` stands before them, ``note`` after."""

    heading: str
    sentences: tuple[str, ...]
    bar: Bar | None = None
    note: str = ""
    warning: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """``tiles`` are (name, value); ``commands`` produce the same results again. ``top`` is the lead by origin, after an
    ``introduction`` for those who know nothing of bftrainer.
    """

    title: str
    lead: str
    warnings: tuple[str, ...]
    tiles: tuple[tuple[str, str], ...]
    chapters: tuple[Chapter, ...]
    commands: tuple[str, ...]
    top: tuple[TopPart, ...] = ()
    introduction: str = ""


def render(page: Page) -> bytes:
    """The page as UTF-8 HTML, without any reference to the network; a value that the template misses is an error."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("bftrainer_replay.report"), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters["whole_options"] = _whole_options
    return environment.get_template("page.html.j2").render(page=page, version=__version__).encode()


def _whole_options(text: str) -> str:
    """A text as HTML, with options that are not broken at their hyphens."""
    return re.sub(r"--[a-z][a-z-]*", r'<span class="option">\g<0></span>', html.escape(text))


def write(out: Path, page: Page) -> int:
    """Write pictures/*.png, data/*.csv and, last, report.html; returns the size of report.html in bytes."""
    for chapter in page.chapters:
        for item in chapter.items:
            if isinstance(item, Picture):
                write_atomically(out / "pictures" / f"{item.name}.png", item.file)
            write_atomically(out / "data" / f"{item.name}.csv", item.csv)
    text = render(page)
    write_atomically(out / "report.html", text)
    return len(text)


def step_series(
    edges_s: Sequence[float],
    values: Mapping[str, Sequence[float]],
    unit: str,
    y: str,
    *,
    area: bool = False,
    shown: int = 4,
    window: LogWindow | None = None,
) -> str:
    """Series over time, each constant between two edges (seconds since 1970), as JSON for the page's script.

    With ``area`` the first series is filled. The first ``shown`` series are visible at first. Unit "%" means fractions.
    ``window`` has the time zone of the reader and the spans to shade.
    """
    digits = 4 if unit == "%" else 1
    series = {name: [round(float(v), digits) for v in line] for name, line in values.items()}
    shaded = [] if window is None else [[round(at) for at in span] for span in (*window.outages, *window.gaps)]
    return json.dumps(
        {
            "edges": [round(at) for at in edges_s], "series": series, "unit": unit, "y": y, "area": area, "shown": shown,
            "offsets": [] if window is None or window.zone is None else offsets(edges_s, window.zone), "shaded": shaded,
        }
    )  # fmt: skip


def offsets(edges_s: Sequence[float], zone: tzinfo) -> list[tuple[int, int]]:
    """(from when, seconds east of UTC) in the time zone: more than one where clocks are changed in between."""
    found: list[tuple[int, int]] = []
    for at_s in (edges_s[0], *np.arange(3600 * math.ceil(edges_s[0] / 3600), edges_s[-1], 3600).tolist()):
        east = datetime.fromtimestamp(at_s, zone).utcoffset()
        seconds = 0 if east is None else round(east.total_seconds())
        if not found or found[-1][1] != seconds:
            found.append((round(at_s), seconds))
    return found
