"""The terminal screen of ``bftrainer top``: keys and layout (textual). Its text comes from top_board and top_text."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.events import Click, Resize
from textual.geometry import Size
from textual.message import Message
from textual.screen import ModalScreen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Footer, Input, Static

from bftrainer.cli import orders
from bftrainer.cli.explain import as_lines
from bftrainer.cli.state import opened_registry
from bftrainer.cli.top import text as top_text
from bftrainer.cli.top.board import Board, Sort, TrainerRow
from bftrainer.cli.top.reader import Reader
from bftrainer.cli.top.text import Glyphs
from bftrainer.errors import BFTrainerError
from bftrainer.persistence.spool import RequestKind

_EVENTS_OF = 5  # of a screen of 24 lines; a larger one shows more
HELP = """\
up, down, page up, page down   choose a trainer
e, enter    why it has its nodes (bftrainer explain)
p  pause    it checkpoints and gives up its nodes
r  resume   it goes on from its checkpoint
c  cancel   ends it for good; asks before
s  sort     by submission, nodes, speed, progress, time left, name
/  filter   rows with these letters; escape shows all
a  all      trainers that have ended since top began
?  this     q  quit

held: nodes that the pilot has. given: those that trainers have.
idle: the rest. samples/s: measured over the last minute.
left: at this speed, or, before one was measured, the believed one."""


class Panel(ModalScreen[bool]):
    """Text over the screen. With a question, ``y`` answers it; any of the keys below takes it away."""

    CSS = """
    Panel { align: center middle; }
    Panel VerticalScroll { width: 90%; max-width: 110; height: auto; max-height: 90%; padding: 0 1; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,q,enter", "answer(False)", "close"),
        ("n", "answer(False)", ""),
        ("y", "answer(True)", ""),
    ]

    def __init__(self, text: str, *, is_question: bool = False) -> None:
        super().__init__()
        self.text = text
        self._is_question = is_question

    def compose(self) -> ComposeResult:
        """The text, and how to go on."""
        keys = "y: yes   n, escape: no" if self._is_question else "escape: close"
        with VerticalScroll():
            yield Static(f"{self.text}\n\n{keys}", markup=False)

    def action_answer(self, yes: bool) -> None:
        """Close it."""
        self.dismiss(yes and self._is_question)


class RowsView(ScrollView, can_focus=True):
    """Lines of text with one chosen: cheap to draw again each second, whatever their number."""

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
        """Enter, or a click on the line that was chosen already."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self.lines: list[str] = []
        self.row = 0

    def show(self, lines: list[str], row: int) -> None:
        """These lines, this one chosen."""
        if (lines, row) == (self.lines, self.row):
            return
        if len(lines) != len(self.lines):
            self.virtual_size = Size(1, len(lines))
        self.lines = lines
        self._choose(row)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """One line of the part that can be seen."""
        i, width = y + self.scroll_offset.y, self.size.width
        if not 0 <= i < len(self.lines):
            return Strip.blank(width, self.rich_style)
        style = self.rich_style
        if i == self.row:
            style += Style(reverse=True)
        return Strip([Segment(self.lines[i].ljust(width)[:width], style)], width)

    def action_move(self, by: int) -> None:
        """Up or down."""
        self._choose(self.row + by)
        self.refresh()

    def action_page(self, by: int) -> None:
        """A screen up or down."""
        self.action_move(by * max(self.size.height - 1, 1))

    def action_choose(self) -> None:
        """Say so."""
        self.post_message(self.Chosen())

    def on_click(self, event: Click) -> None:
        """Choose by mouse, where there is one."""
        row = event.y + self.scroll_offset.y
        if row == self.row:
            self.post_message(self.Chosen())
        self.action_move(row - self.row)

    def _choose(self, row: int) -> None:
        self.row = max(min(row, len(self.lines) - 1), 0)
        top, height = self.scroll_offset.y, max(self.size.height, 1)
        if not top <= self.row < top + height:
            self.scroll_to(y=self.row if self.row < top else self.row - height + 1, animate=False)


class Top(App[None]):
    """One pilot. ``reader`` looks at it every ``every_s`` seconds; 0: only when :meth:`look` is called."""

    CSS = """
    Screen { layout: vertical; }
    #head { height: 1; text-style: bold; }
    #head.silent { background: $error; color: $text; }
    #chart { height: 3; color: $success; }
    #caption, #events { color: $text-muted; }
    #caption { height: 1; }
    #heads { height: 1; background: $panel; text-style: bold; }
    #rows { height: 1fr; scrollbar-size-vertical: 1; }
    #events { height: 5; }
    #filter { height: 1; border: none; padding: 0; display: none; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        ("e", "explain", "explain"),
        ("p", "order('pause')", "pause"),
        ("r", "order('resume')", "resume"),
        ("c", "order('cancel')", "cancel"),
        ("s", "sort", "sort"),
        ("slash", "filter", "filter"),
        ("a", "ended", "all"),
        ("question_mark", "help", "help"),
        ("q", "quit", "quit"),
    ]

    def __init__(self, reader: Reader, every_s: float, marks: Glyphs) -> None:
        super().__init__()
        self.board = Board()
        self.sort_by = Sort.SUBMITTED
        self.pattern = ""
        self.shows_ended = False
        self._reader = reader
        self._every_s = every_s
        self._marks = marks
        self._said = ""
        self._names: list[str] = []
        self._lines = 0
        self._texts: dict[str, str] = {}

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        yield Static(id="head", markup=False)
        yield Static(id="chart", markup=False)
        yield Static(id="caption", markup=False)
        yield Static(id="heads", markup=False)
        yield RowsView(id="rows")
        yield Static(id="events", markup=False)
        yield Input(id="filter", placeholder="letters of a name, status or remark")
        yield Footer()

    def on_mount(self) -> None:
        """Begin to look."""
        self.query_one("#rows").focus()
        self.look()
        if self._every_s:
            self.set_interval(self._every_s, self.look)

    def look(self) -> None:
        """Read, and show what is new. A database that cannot be read just now is said, and tried again."""
        try:
            self.board.hear(self._reader.look())
            self._said = ""
        except BFTrainerError as error:
            self._said = str(error)
        self._show()

    def on_resize(self, _event: Resize) -> None:
        """Columns and bars have as much room as there is now."""
        self.call_after_refresh(self._show)

    def _show(self) -> None:
        width, height = self.size
        board, base = self.board, self.screen_stack[0]
        lines = _EVENTS_OF + max(height - 24, 0) // 3
        head = base.query_one("#head", Static)
        head.set_class(bool(self._said) or board.silent_s() is not None, "silent")
        self._put("#head", top_text.cut(self._said or board.headline(), width))
        self._put("#chart", "\n".join(top_text.chart(board, width, self._marks)))
        caption = top_text.caption(board, self.sort_by, self.pattern, ended=self.shows_ended)
        self._put("#caption", top_text.cut(caption, width))
        if self._lines != lines:
            self._lines = base.query_one("#events", Static).styles.height = lines
        self._put("#events", "\n".join(top_text.events(board, lines, width)))
        self._show_rows(board.rows(self.sort_by, self.pattern, ended=self.shows_ended), width)

    def _put(self, part: str, text: str) -> None:
        """Draw a part again if its text has changed."""
        if self._texts.get(part) != text:
            self._texts[part] = text
            self.screen_stack[0].query_one(part, Static).update(text, layout=False)

    def _show_rows(self, rows: list[TrainerRow], width: int) -> None:
        column, chosen = top_text.widths(width - 1), self.chosen
        self._put("#heads", top_text.line(top_text.heads(column, self.sort_by), column))
        self._names = [row.name for row in rows]
        lines = [top_text.line(top_text.cells(row, column, self._marks), column) for row in rows]
        self._rows.show(lines, self._names.index(chosen) if chosen in self._names else self._rows.row)

    @property
    def _rows(self) -> RowsView:
        return self.screen_stack[0].query_one("#rows", RowsView)

    @property
    def chosen(self) -> str | None:
        """The trainer under the cursor."""
        row = self._rows.row
        return self._names[row] if 0 <= row < len(self._names) else None

    def on_rows_chosen(self) -> None:
        """Enter, or a click, on a row."""
        self.action_explain()

    def action_explain(self) -> None:
        """Show why it has its nodes. The whole journal is read for it: not while the screen waits."""
        if (name := self.chosen) is not None:
            self.run_worker(lambda: self._explain(name), thread=True, exclusive=True)

    def _explain(self, name: str) -> None:
        try:
            with opened_registry(self._reader.state) as registry:
                text = "\n".join(as_lines(registry, name))
        except BFTrainerError as error:
            text = str(error)
        self.call_from_thread(self.push_screen, Panel(text))

    def action_order(self, kind: str) -> None:
        """Hand an order in, by way of the spool; cancel asks before."""
        name = self.chosen
        if name is None:
            return
        if kind != RequestKind.CANCEL.value:
            self._hand_in(RequestKind(kind), name)
            return
        question = f"Cancel {name}? It checkpoints and ends for good."
        self.push_screen(
            Panel(question, is_question=True), lambda yes: self._hand_in(RequestKind.CANCEL, name) if yes else None
        )

    def _hand_in(self, kind: RequestKind, name: str) -> None:
        try:
            orders.check(self._reader.state, name)
            orders.enqueue(self._reader.state, kind, name)
        except BFTrainerError as error:
            self.notify(str(error), severity="error", markup=False)
        else:
            self.notify(f"{kind.value} {name}: handed in", markup=False)
        self.look()

    def action_sort(self) -> None:
        """By the next of the orders."""
        self.sort_by = self.sort_by.next()
        self._show()

    def action_ended(self) -> None:
        """With those that have ended, or without."""
        self.shows_ended = not self.shows_ended
        self._show()

    def action_filter(self) -> None:
        """Letters to look for."""
        box = self.query_one("#filter", Input)
        box.display = True
        box.value = self.pattern
        box.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Rows follow while it is typed."""
        self.pattern = event.value
        self._show()

    def on_input_submitted(self) -> None:
        """Keep it."""
        self._close_filter()

    def on_key(self, event: object) -> None:
        """Escape shows all rows again."""
        if getattr(event, "key", "") == "escape" and (self.pattern or self.query_one("#filter", Input).display):
            self.pattern = self.query_one("#filter", Input).value = ""
            self._close_filter()
            self._show()

    def _close_filter(self) -> None:
        self.query_one("#filter", Input).display = False
        self._rows.focus()

    def action_help(self) -> None:
        """What the keys do."""
        self.push_screen(Panel(HELP))
