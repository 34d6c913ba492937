"""One helper counts: messages and pages have no "1 nodes"."""

from __future__ import annotations

import pytest

from bftrainer.counted import counted


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0, "0 nodes"),
        (1, "1 node"),
        (1.0, "1 node"),
        (0.6, "1 node"),
        (2, "2 nodes"),
        (12_345, "12,345 nodes"),
        (-1, "-1 nodes"),
    ],
)
def test_a_number_with_its_noun(number: float, expected: str) -> None:
    assert counted(number, "node") == expected


def test_a_plural_with_its_verb() -> None:
    assert counted(1, "job was", "jobs were") == "1 job was"
    assert counted(3, "job was", "jobs were") == "3 jobs were"
