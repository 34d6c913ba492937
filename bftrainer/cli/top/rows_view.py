"""The scrolling list of trainers in ``bftrainer top``.

Not textual's DataTable: its cells are measured and drawn again at every change, visible or not (textual 8.2.8, 100 rows of
which every one changes: 39 ms of CPU at 80x24, 88 ms at 200x60; this view takes 6 and 7 ms). ``--once`` prints the same lines
without textual.
"""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import BindingType
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip


class RowsView(ScrollView, can_focus=True):
    """Lines of text, one of them selected. Only visible lines are drawn."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("up,k", "move(-1)", ""),
        ("down,j", "move(1)", ""),
        ("pageup", "page(-1)", ""),
        ("pagedown", "page(1)", ""),
        ("home", "move(-1000000)", ""),
        ("end", "move(1000000)", ""),
        ("enter", "choose", ""),
    ]

    class Chosen(Message):
        """Enter, or a click on the selected line."""

    class Moved(Message):
        """Another line is selected."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self.lines: list[str] = []
        self.row = 0

    def show(self, lines: list[str], row: int) -> None:
        """Show these lines with line ``row`` selected."""
        if (lines, row) == (self.lines, self.row):
            return
        if len(lines) != len(self.lines):
            self.virtual_size = Size(1, len(lines))
        self.lines = lines
        self._select(row)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        i, width = y + self.scroll_offset.y, self.size.width
        if not 0 <= i < len(self.lines):
            return Strip.blank(width, self.rich_style)
        style = self.rich_style
        if i == self.row:
            style += Style(reverse=True)
        return Strip([Segment(self.lines[i].ljust(width)[:width], style)], width)

    def action_move(self, by: int) -> None:
        self._select(self.row + by)
        self.refresh()
        self.post_message(self.Moved())

    def action_page(self, by: int) -> None:
        self.action_move(by * max(self.size.height - 1, 1))

    def action_choose(self) -> None:
        self.post_message(self.Chosen())

    def on_click(self, event: Click) -> None:
        row = event.y + self.scroll_offset.y
        if row == self.row:
            self.post_message(self.Chosen())
        self.action_move(row - self.row)

    def _select(self, row: int) -> None:
        self.row = max(min(row, len(self.lines) - 1), 0)
        top, height = self.scroll_offset.y, max(self.size.height, 1)
        if not top <= self.row < top + height:
            self.scroll_to(y=self.row if self.row < top else self.row - height + 1, animate=False)
