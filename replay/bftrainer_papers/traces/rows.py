"""CSV rows of a trace or profile, with their lines."""

from __future__ import annotations

from collections.abc import Iterator

from bftrainer_papers.traces.texts import TextFile

Cells = dict[str, str]
MOST = 1e15
"""No number of a trace or profile is this large."""


def header_of(text: TextFile) -> list[str]:
    """The columns: the first line, split at commas."""
    return [column.strip() for column in text.text.partition("\n")[0].strip().split(",")]


def rows_of(text: TextFile) -> Iterator[tuple[int, Cells | str]]:
    """Yield (line, cells by column), or (line, what is wrong with the line); blank lines are
    skipped.

    None of these files needs quotes, so a line is a record: a stray quote cannot swallow the lines
    after it.
    """
    header = header_of(text)
    for line, content in enumerate(text.text.split("\n")[1:], start=2):
        cells = content.rstrip("\r").split(",")
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(header):
            yield (
                line,
                f"has {len(cells)} fields, expected {len(header)} ({','.join(header)!r:.80})",
            )
        else:
            yield line, dict(zip(header, cells, strict=True))
