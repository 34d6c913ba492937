"""A panel of text over the screen of ``bftrainer top``: an explanation, the keys, or a question."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from bftrainer.system.printable import printable


class Panel(ModalScreen[bool]):
    """Text over the screen. The result is True if the panel is a question and the answer is ``y``."""

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
        self.text = printable(text, keep="\n")
        self._is_question = is_question

    def compose(self) -> ComposeResult:
        keys = "y: yes   n, escape: no" if self._is_question else "escape: close"
        with VerticalScroll():
            yield Static(f"{self.text}\n\n{keys}", markup=False)

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes and self._is_question)
