"""A report as one HTML page without a network, and as files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bftrainer.system.files import write_atomically
from bftrainer_replay.report.frame import render_template
from bftrainer_replay.report.items import Chapter, Picture


@dataclass(frozen=True, slots=True)
class Report:
    """All that the page shows. ``tiles`` are (name, value); ``commands`` make the same results again."""

    title: str
    lead: str
    warnings: tuple[str, ...]
    tiles: tuple[tuple[str, str], ...]
    chapters: tuple[Chapter, ...]
    commands: tuple[str, ...]


def render(report: Report) -> bytes:
    """UTF-8 HTML."""
    return render_template("report.html.j2", report=report)


def write(out: Path, report: Report) -> int:
    """report.html last, after pictures/*.png and data/*.csv; returns its size in bytes."""
    for chapter in report.chapters:
        for item in chapter.items:
            if isinstance(item, Picture):
                write_atomically(out / "pictures" / f"{item.name}.png", item.file)
            write_atomically(out / "data" / f"{item.name}.csv", item.csv)
    page = render(report)
    write_atomically(out / "report.html", page)
    return len(page)
