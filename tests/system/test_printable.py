"""What others wrote reaches a terminal without its control characters."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bftrainer.system.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("loss 0.5, lr 1e-3", "loss 0.5, lr 1e-3"),
        ("Größe 三", "Größe 三"),
        ("\x1b[2Jgone", r"\x1b[2Jgone"),
        ("\x9b31m", r"\x9b31m"),
        ("a\nb\r\x0c\x85c", r"a\x0ab\x0d\x0c\x85c"),
        ("a\u2028b\u202ec", r"a\u2028b\u202ec"),
        (b"\xff".decode(errors="surrogateescape"), r"\udcff"),
    ],
)
def test_controls_are_shown_as_escapes(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_a_log_keeps_the_characters_that_it_is_allowed() -> None:
    assert printable("a\tb\n\x1b", keep="\t\n") == "a\tb\n\\x1b"


@given(st.text())
def test_the_result_is_one_line_that_encodes(text: str) -> None:
    shown = printable(text)
    assert len(shown.splitlines()) <= 1
    assert not any(unicodedata.category(c) == "Cc" or unicodedata.bidirectional(c) in BIDI for c in shown)
    shown.encode()
    assert printable(shown) == shown


BIDI = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
