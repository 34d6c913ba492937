"""The terminal screen of ``bftrainer top``: keys and layout (textual). Its content comes from
``board`` and ``text``.
"""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.events import Resize
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, OptionList, Static

from bftrainer.console.cli.explanation import as_lines
from bftrainer.console.cli.top import text as top_text
from bftrainer.console.cli.top.board import Board, Sort, TrainerRow
from bftrainer.console.cli.top.reader import Reader
from bftrainer.console.cli.top.text import Glyphs
from bftrainer.console.client import requests
from bftrainer.console.client.state_dir import opened_registry
from bftrainer.errors import BFTrainerError
from bftrainer.pilot.persistence.spool import RequestKind
from bftrainer.system.printable import printable

# A panel of text over the screen of ``bftrainer top``: an explanation, the keys, or a question.


class Panel(ModalScreen[bool]):
    """A text over the screen, or a question. The result is True if it is a question and the answer
    is ``y``.
    """

    CSS = """
    Panel { align: center middle; }
    Panel VerticalScroll {
        width: 90%; max-width: 110; height: auto; max-height: 90%; padding: 0 1;
        background: $surface;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,q,enter", "answer(False)", "close"),
        ("n", "answer(False)", ""),
        ("y", "answer(True)", ""),
    ]

    def __init__(self, text: str, *, is_question: bool = False) -> None:
        super().__init__()
        self.text = printable(text, keep="\n")
        self._is_question = is_question

    def compose(self) -> ComposeResult:
        keys = "y: yes   n, escape: no" if self._is_question else "escape: close"
        with VerticalScroll():
            yield Static(f"{self.text}\n\n{keys}", markup=False)

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes and self._is_question)


_EVENT_LINES = 5  # on a screen of 24 lines; a larger screen shows more
HELP = """\
up, down, page up, page down   select a training
e, enter    explain its number of nodes (bftrainer explain)
p  pause    checkpoint it and release its nodes
r  resume   resume it from its checkpoint
c  cancel   cancel it (asks for confirmation)
s  sort     by status, submission, nodes, speed, progress, time left, name
/  filter   show rows that contain these letters; escape shows all
a  all      include trainings that have ended since top started
?  help     q  quit

held: nodes that the pilot holds. used: nodes that trainings have.
idle: the difference. samples/s: measured over the last minute.
left: at the measured speed or, before a measurement, at the
estimated speed."""


class Top(App[None]):
    """The screen of one pilot.

    It is refreshed every ``every_s`` seconds; with 0 only by :meth:`update_board`.
    """

    CSS = """
    Screen { layout: vertical; }
    #head { height: 1; text-style: bold; }
    #head.silent { background: $error; color: $text; }
    #chart { height: 3; color: $success; }
    #caption, #events { color: $text-muted; }
    #caption { height: 1; }
    #heads { height: 1; background: $panel; text-style: bold; }
    #rows {
        height: 1fr; width: 1fr; scrollbar-size-vertical: 1; border: none; padding: 0;
        background: $background;
    }
    #events { height: 5; }
    #filter { height: 1; border: none; padding: 0; display: none; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        ("e", "explain", "explain"),
        ("p", "request('pause')", "pause"),
        ("r", "request('resume')", "resume"),
        ("c", "request('cancel')", "cancel"),
        ("s", "sort", "sort"),
        ("slash", "filter", "filter"),
        ("a", "ended", "all"),
        ("question_mark", "help", "help"),
        ("q", "quit", "quit"),
    ]

    def __init__(self, reader: Reader, every_s: float, marks: Glyphs) -> None:
        super().__init__()
        self.board = Board()
        self.sort_by = Sort.STATUS
        self.pattern = ""
        self.shows_ended = False
        self._reader = reader
        self._every_s = every_s
        self._marks = marks
        self._error = ""  # why the last snapshot could not be read
        self._names: list[str] = []  # trainers, in the order of the rows
        self._row_lines: list[str] = []  # the rows as they are drawn
        self._event_lines = 0  # height of the list of events
        self._texts: dict[str, str] = {}  # text of each part of the screen, by selector

    def compose(self) -> ComposeResult:
        yield Static(id="head", markup=False)
        yield Static(id="chart", markup=False)
        yield Static(id="caption", markup=False)
        yield Static(id="heads", markup=False)
        yield OptionList(id="rows", markup=False)
        yield Static(id="events", markup=False)
        yield Input(id="filter", placeholder="part of a name, status or remark")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one("#rows").focus()
        self.update_board()
        if self._every_s:
            self.set_interval(self._every_s, self.update_board)

    def update_board(self) -> None:
        """Read the state directory and show it. If the database cannot be read, show the error; the
        next call tries again.
        """
        try:
            self.board.add(self._reader.read_snapshot())
            self._error = ""
        except BFTrainerError as error:
            self._error = str(error)
        self._draw_board()

    def on_resize(self, _event: Resize) -> None:
        self.call_after_refresh(self._draw_board)

    def _draw_board(self) -> None:
        """Draw the board into the parts of the screen.

        The parts are those of the lowest screen, also while a panel is shown above it.
        """
        width, height = self.size
        board, base = self.board, self.screen_stack[0]
        event_lines = _EVENT_LINES + max(height - 24, 0) // 3
        head = base.query_one("#head", Static)
        head.set_class(bool(self._error) or board.silent_s() is not None, "silent")
        self._set_text("#head", top_text.shortened_text(self._error or board.headline(), width))
        self._set_text("#chart", "\n".join(top_text.chart(board, width, self._marks)))
        caption = top_text.caption(board, self.sort_by, self.pattern, ended=self.shows_ended)
        self._set_text("#caption", top_text.shortened_text(caption, width))
        if self._event_lines != event_lines:
            self._event_lines = event_lines
            base.query_one("#events", Static).styles.height = event_lines
        self._set_text("#events", "\n".join(top_text.events(board, event_lines, width)))
        self._show_rows(board.rows(self.sort_by, self.pattern, ended=self.shows_ended), width)

    def _set_text(self, part: str, text: str) -> None:
        """Redraw the part of the screen with a selector, if its text has changed."""
        if self._texts.get(part) != text:
            self._texts[part] = text
            self.screen_stack[0].query_one(part, Static).update(text, layout=False)

    def _show_rows(self, rows: list[TrainerRow], width: int) -> None:
        """Draw the rows of trainers, if they have changed.

        The selected trainer stays highlighted; if its row is gone, the same line is.
        """
        widths = top_text.widths(width - 1)
        selected_name = self.selected_name  # by the names of the previous rows
        headings = top_text.column_headings(widths, self.sort_by)
        self._set_text("#heads", top_text.line(headings, widths))
        self._names = [row.name for row in rows]
        lines = [top_text.line(top_text.cells(row, widths, self._marks), widths) for row in rows]
        if lines == self._row_lines:
            return
        self._row_lines = lines
        table = self._rows
        row_index = table.highlighted or 0
        table.set_options(Text(line, no_wrap=True) for line in lines)
        if selected_name in self._names:
            table.highlighted = self._names.index(selected_name)
        elif lines:
            table.highlighted = min(row_index, len(lines) - 1)

    def on_option_list_option_selected(self) -> None:
        self.action_explain()

    @property
    def _rows(self) -> OptionList:
        return self.screen_stack[0].query_one("#rows", OptionList)

    @property
    def selected_name(self) -> str | None:
        """The trainer whose row is highlighted; None if there is no row."""
        row_index = self._rows.highlighted
        if row_index is None or row_index >= len(self._names):
            return None
        return self._names[row_index]

    def action_explain(self) -> None:
        """Explain the selected trainer's number of nodes in a panel.

        The explanation reads the whole journal, so it runs in a thread of its own.
        """
        name = self.selected_name
        if name is not None:
            self.run_worker(lambda: self._explain(name), thread=True, exclusive=True)

    def _explain(self, name: str) -> None:
        """Read the explanation of a trainer and show it. Runs in a thread of its own."""
        try:
            with opened_registry(self._reader.state) as registry:
                text = "\n".join(as_lines(registry, name, self._reader.now_s()))
        except BFTrainerError as error:
            text = str(error)
        self.call_from_thread(self.push_screen, Panel(text))

    def action_request(self, kind: str) -> None:
        """Request a change of the selected trainer; a cancellation is confirmed first.

        ``kind`` is the value of a ``RequestKind``.
        """
        name = self.selected_name
        if name is None:
            return
        if kind != RequestKind.CANCEL.value:
            self._submit_request(RequestKind(kind), name)
            return
        question = f"Cancel {name}? It checkpoints and cannot be resumed."
        self.push_screen(
            Panel(question, is_question=True),
            lambda yes: self._submit_request(RequestKind.CANCEL, name) if yes else None,
        )

    def _submit_request(self, kind: RequestKind, name: str) -> None:
        """Put a request into the spool, and show that it is there, or the error."""
        try:
            requests.enqueue(self._reader.state, kind, requests.select(self._reader.state, (name,)))
        except BFTrainerError as error:
            self.notify(printable(str(error)), severity="error", markup=False)
        else:
            self.notify(f"{kind.value} {name}: requested", markup=False)
        self.update_board()

    def action_sort(self) -> None:
        self.sort_by = self.sort_by.successor()
        self._draw_board()

    def action_ended(self) -> None:
        self.shows_ended = not self.shows_ended
        self._draw_board()

    def action_filter(self) -> None:
        box = self.query_one("#filter", Input)
        box.display = True
        box.value = self.pattern
        box.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self.pattern = event.value
        self._draw_board()

    def on_input_submitted(self) -> None:
        self._close_filter()

    def on_key(self, event: object) -> None:
        """Clear and close the filter on Escape."""
        if getattr(event, "key", "") != "escape":
            return
        box = self.query_one("#filter", Input)
        if self.pattern or box.display:
            self.pattern = box.value = ""
            self._close_filter()
            self._draw_board()

    def _close_filter(self) -> None:
        self.query_one("#filter", Input).display = False
        self._rows.focus()

    def action_help(self) -> None:
        self.push_screen(Panel(HELP))
