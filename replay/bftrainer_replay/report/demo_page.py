"""One self-contained HTML page about one log and the policies replayed on it: no network, no script."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from bftrainer_replay.analysis.characterize import Characteristics
from bftrainer_replay.report.frame import render_template
from bftrainer_replay.simulation.summary import Summary


@dataclass(frozen=True, slots=True)
class DemoPicture:
    """A PNG with the words for those who do not see it."""

    title: str
    alt: str
    png: bytes

    @property
    def source(self) -> str:
        """The picture as a data: URL."""
        return "data:image/png;base64," + base64.b64encode(self.png).decode()


@dataclass(frozen=True, slots=True)
class DemoChapter:
    """A heading, a sentence, pictures."""

    title: str
    text: str
    pictures: tuple[DemoPicture, ...]


@dataclass(frozen=True, slots=True)
class DemoPage:
    """What the page shows. ``commands`` make the same results again."""

    title: str
    lead: str
    found: Characteristics
    summaries: tuple[Summary, ...]
    chapters: tuple[DemoChapter, ...]
    commands: tuple[str, ...]


def render(page: DemoPage) -> bytes:
    """The page as UTF-8 HTML."""
    return render_template("page.html.j2", page=page)
