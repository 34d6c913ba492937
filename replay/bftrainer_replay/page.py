"""One self-contained HTML page about one log and the policies replayed on it: no network, no script."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from bftrainer_replay.characterize import Characteristics
from bftrainer_replay.frame import render_template
from bftrainer_replay.summary import Summary


@dataclass(frozen=True, slots=True)
class Picture:
    """A PNG with the words for those who do not see it."""

    title: str
    alt: str
    png: bytes

    @property
    def source(self) -> str:
        """The picture as a data: URL."""
        return "data:image/png;base64," + base64.b64encode(self.png).decode()


@dataclass(frozen=True, slots=True)
class Chapter:
    """A heading, a sentence, pictures."""

    title: str
    text: str
    pictures: tuple[Picture, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """What the page shows. ``commands`` make the same results again."""

    title: str
    lead: str
    found: Characteristics
    summaries: tuple[Summary, ...]
    chapters: tuple[Chapter, ...]
    commands: tuple[str, ...]


def render(page: Page) -> bytes:
    """The page as UTF-8 HTML."""
    return render_template("page.html.j2", page=page)
