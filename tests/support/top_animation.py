"""The animated picture of ``bftrainer top`` in the README: ten minutes of the scene of
:mod:`support.top_scene` in 15 frames of a second each.

Run as ``python tests/support/top_animation.py docs/pictures/top-animated.svg``. An SVG image cannot
run scripts; its frames take turns by SMIL, which browsers play in an ``<img>`` as well.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bftrainer.console.cli.top import text as top_text
from bftrainer.console.cli.top.app import Top
from support.top_scene import Played, a_pilot

FRAMES = 15
FRAME_S = 1.0
SIZE = (100, 26)
"""Columns and lines of the terminal."""


def screenshot(scene: Played, end: int) -> str:
    """Return the screen after the first ``end`` looks of the scene, as an SVG document."""
    app = Top(Played(scene.state, scene.looks[end - 1 : end]), 0, top_text.UNICODE)  # type: ignore[arg-type]
    for look in scene.looks[: end - 1]:
        app.board.add(look)
    documents: list[str] = []

    async def run() -> None:
        async with app.run_test(size=SIZE) as pilot:
            for _ in range(150):
                await asyncio.sleep(0)
            await pilot.pause()
            documents.append(app.export_screenshot(title="bftrainer top"))

    asyncio.run(run())
    return documents[0]


def frame(document: str, index: int) -> str:
    """Return the drawing of a screenshot, with names of its own, shown for FRAME_S in each turn."""
    drawing = document.partition("</style>")[2].rpartition("</svg>")[0]
    prefix = re.findall(r"terminal-\d+", document)[0]
    drawing = drawing.replace(prefix, f"frame-{index}")
    share = 1 / FRAMES
    begin, end = index * share, (index + 1) * share
    times = f"0;{begin:.4f};{end:.4f}" if index else f"0;{end:.4f}"
    values = "none;inline;none" if index else "inline;none"
    return (
        f'<g display="{"none" if index else "inline"}">'
        f'<animate attributeName="display" values="{values}" keyTimes="{times}"'
        f' calcMode="discrete" dur="{FRAMES * FRAME_S}s" repeatCount="indefinite"/>'
        f"{drawing}</g>"
    )


def style(document: str, index: int) -> str:
    """Return the rules of a screenshot, for the names of its frame; fonts are the reader's own."""
    rules = document.partition("<style>")[2].partition("</style>")[0]
    rules = re.sub(r"@font-face \{.*?\}", "", rules, flags=re.DOTALL)
    return rules.replace(re.findall(r"terminal-\d+", document)[0], f"frame-{index}")


def animation(documents: list[str]) -> str:
    """Return one SVG document that shows the screenshots in turn."""
    opening = re.findall(r"<svg[^>]*>", documents[0])[0]
    rules = "".join(style(document, index) for index, document in enumerate(documents))
    frames = "".join(frame(document, index) for index, document in enumerate(documents))
    text = f"{opening}<style>{rules}</style>{frames}</svg>\n"
    return re.sub(r">\s+<", "><", text)


def main() -> None:
    os.environ["TZ"] = "UTC"
    time.tzset()
    with tempfile.TemporaryDirectory() as folder:
        scene = a_pilot(Path(folder))
    looks = len(scene.looks)
    documents = [screenshot(scene, round((n + 1) * looks / FRAMES)) for n in range(FRAMES)]
    Path(sys.argv[1]).write_text(animation(documents))


if __name__ == "__main__":
    main()
