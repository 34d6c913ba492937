"""Pairs from two sequences that must be equally long; ``zip(strict=True)`` needs Python 3.10."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from bftrainer.errors import InvalidValueError

_First = TypeVar("_First")
_Second = TypeVar("_Second")


def paired(
    first: Sequence[_First], second: Sequence[_Second], problem: str
) -> list[tuple[_First, _Second]]:
    """Return the pairs of two sequences.

    Raises :class:`~bftrainer.errors.InvalidValueError` with ``problem`` and both lengths if one is
    longer.
    """
    if len(first) != len(second):
        raise InvalidValueError(f"{problem}: expected {len(first)}, found {len(second)}")
    return list(zip(first, second))
