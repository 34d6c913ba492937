"""Rows and lines of ``bftrainer top`` as text of a given width, for the terminal screen and for
``--once``. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from bftrainer.console.cli.output import length, number
from bftrainer.console.cli.top.board import HISTORY_S, Board, Sort, TrainerRow
from bftrainer.system.printable import printable

COLUMNS = ("name", "status", "nodes", "samples/s", "progress", "left", "remark")
NAME_WIDTHS = (14, 24)
_FIXED = {"status": 9, "nodes": 8, "samples/s": 10, "progress": 15, "left": 9}
_LEAST_REMARK = 8
_CHART_LABEL_WIDTH = 13
"""Name and number before a line of the chart, and the blanks after them."""


@dataclass(frozen=True, slots=True)
class Glyphs:
    """Characters of bars and curves; ``levels`` go from empty to full."""

    levels: str
    full: str
    empty: str


UNICODE = Glyphs(" \u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588", "\u2588", "\u2591")
ASCII = Glyphs(" .:-=+*#@", "#", ".")


def widths(total_width: int) -> dict[str, int]:
    """Return the width of each column, by its name, including the blank after it.

    Name and remark divide what the other columns leave of ``total_width``.
    """
    remainder = total_width - sum(_FIXED.values())
    name = max(NAME_WIDTHS[0], min(NAME_WIDTHS[1], remainder // 2))
    return {"name": name, **_FIXED, "remark": max(remainder - name, _LEAST_REMARK)}


def cells(row: TrainerRow, width: dict[str, int], marks: Glyphs) -> tuple[str, ...]:
    """Format one row, each cell within its column; ``width`` is that of each column."""
    speed = "-" if row.per_s is None else number(row.per_s)
    time_left = "-" if row.left_s is None else length(row.left_s)
    # Numbers end two blanks before the next column, as their headings do.
    texts = {
        "name": row.name,
        "status": row.status,
        "nodes": f"{row.nodes}/{row.max_nodes}".rjust(width["nodes"] - 2),
        "samples/s": speed.rjust(width["samples/s"] - 2),
        "progress": progress(row, width["progress"] - 2, marks),
        "left": time_left.rjust(width["left"] - 2),
        "remark": row.remark,
    }
    return tuple(shortened_text(texts[name], width[name] - 1) for name in COLUMNS)


def line(texts: tuple[str, ...], width: dict[str, int]) -> str:
    """Join cells side by side."""
    return "".join(
        text.ljust(width[name]) for text, name in zip(texts, COLUMNS, strict=True)
    ).rstrip()


def column_headings(width: dict[str, int], sort: Sort) -> tuple[str, ...]:
    """Return the column headings; that of the sort key is marked with a star.

    The order of submission has no column.
    """
    columns_by_key = {
        Sort.STATUS: "status",
        Sort.NAME: "name",
        Sort.NODES: "nodes",
        Sort.SPEED: "samples/s",
        Sort.PROGRESS: "progress",
        Sort.LEFT: "left",
    }
    titles = []
    for name in COLUMNS:
        head = f"{name}*" if columns_by_key.get(sort) == name else name
        if name in ("nodes", "samples/s", "left"):
            head = head.rjust(width[name] - 2)
        titles.append(head)
    return tuple(titles)


def progress(row: TrainerRow, width: int, marks: Glyphs) -> str:
    """Return a bar and a percentage, or the number of samples if the total is unknown."""
    if row.done is None:
        return f"{number(row.samples)} done" if row.samples else "-"
    bar_width = width - len(" 100%")
    full_width = int(row.done * bar_width)
    empty_width = bar_width - full_width
    return f"{marks.full * full_width}{marks.empty * empty_width} {100 * row.done:3.0f}%"


def chart(board: Board, width: int, marks: Glyphs) -> list[str]:
    """Draw the nodes held, used and idle over the last minutes, on one scale: three lines.

    A line has a name, the present number, and a mark for each interval; before the first point, the
    mark is a blank.
    """
    points = board.bins(width - _CHART_LABEL_WIDTH)
    scale = max((point.held for point in points if point is not None), default=0) or 1
    highest_level = len(marks.levels) - 1

    def level(count: int) -> str:
        if count <= 0:
            return marks.levels[0]
        # A single node of many is visible.
        return marks.levels[max(1, round(highest_level * min(count / scale, 1.0)))]

    rows = ["", "", ""]
    for point in points:
        levels = [" ", " ", " "]
        if point is not None:
            levels = [level(point.held), level(point.used), level(point.held - point.used)]
        rows = [row + mark for row, mark in zip(rows, levels, strict=True)]
    names = ("held", "used", "idle")
    return [
        f"{name:<5}{count:>6,}  {row}"
        for name, count, row in zip(names, board.nodes_now(), rows, strict=True)
    ]


def caption(board: Board, sort: Sort, pattern: str, *, ended: bool) -> str:
    """Return the line between the chart and the rows: what both show."""
    pending_count = board.snapshot.pending
    pending = f", {pending_count:,} pending" if pending_count else ""
    text = f"last {HISTORY_S / 60:.0f} min{pending}; by {sort.value}"
    if pattern:
        text += f'; filter "{pattern}"'
    if ended:
        text += "; including ended trainings"
    return text


def events(board: Board, count: int, width: int) -> list[str]:
    """Return the ``count`` latest events, a line each; the newest is last."""
    latest = list(board.events)[-count:] if count > 0 else []
    return [shortened_text(f"{clock(at_s)} {kind}: {text}", width) for at_s, kind, text in latest]


def screen_text(
    board: Board, width: int, marks: Glyphs, sort: Sort, pattern: str, *, ended: bool
) -> str:
    """Format the whole screen as text: every row, and the last ten events."""
    column = widths(width)
    rows = [
        column_headings(column, sort),
        *(cells(row, column, marks) for row in board.rows(sort, pattern, ended=ended)),
    ]
    body = [line(row, column) for row in rows]
    parts = [
        board.headline(),
        *chart(board, width, marks),
        caption(board, sort, pattern, ended=ended),
        "",
        *body,
        "",
    ]
    return "\n".join([*(line.rstrip() for line in parts), *events(board, 10, width)]) + "\n"


def shortened_text(text: str, width: int) -> str:
    """Shorten a text to ``width`` characters on one line, with control characters as escapes; a
    longer text ends in two dots.
    """
    text = printable(text)
    return text if len(text) <= width else f"{text[: max(width - 2, 0)]}.."


def clock(at_s: float) -> str:
    """Local time of day."""
    return datetime.fromtimestamp(at_s).astimezone().strftime("%H:%M:%S")
