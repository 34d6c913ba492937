"""Bounds of the values in a trainer's lines: each value is finite, of its type and within bounds,
or it is refused. Pure.

Training scripts write these lines, in any language, and so may anything else that runs as the user.
One trainer's line must not reach the arithmetic of a decision, the registry or a terminal
unchecked.
"""

from __future__ import annotations

import math

MAX_INTEGER = 2**53
"""Integers up to this are exact as floating-point numbers, and fit a column of the registry."""
MAX_SAMPLES = 1e15
MAX_SAMPLES_PER_S = 1e12
MAX_NUMBER = 1e30
MAX_INCARNATION = 10**9
MAX_WORKERS = 10**7
MAX_AHEAD_S = 300.0
"""Munge rejects hosts whose clocks differ by more: no working cluster has them."""
MAX_NAME = 256
MAX_TEXT = 2000
MAX_LINES = 50


class RefusedValueError(ValueError):
    """Raised for a value that cannot be used; the message says what was expected, and what was
    found.
    """


def number(value: object, minimum: float = -MAX_NUMBER, maximum: float = MAX_NUMBER) -> float:
    """Return ``value`` as a float if it is a finite number within bounds. Raises
    :class:`RefusedValueError` for anything else.
    """
    # Exact for integers of any length; false for NaN.
    if (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and minimum <= value <= maximum
    ):
        return float(value)
    raise RefusedValueError(
        f"expected a number from {minimum:g} to {maximum:g}, found {value_text(value)}"
    )


def bounded_integer(value: object, minimum: int = -MAX_INTEGER, maximum: int = MAX_INTEGER) -> int:
    """Return ``value`` if it is an integer within bounds. Raises :class:`RefusedValueError` for
    anything else.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
        raise RefusedValueError(
            f"expected an integer from {minimum} to {maximum}, found {value_text(value)}"
        )
    return value


def number_or_none(value: object) -> float | None:
    """Return :func:`number` of a value; None for what it refuses."""
    try:
        return number(value)
    except RefusedValueError:
        return None


def whole_or_none(value: object) -> int | None:
    """Return :func:`bounded_integer` of a value; None for what it refuses."""
    try:
        return bounded_integer(value)
    except RefusedValueError:
        return None


def text(value: str, max_length: int = MAX_TEXT) -> str:
    """Cut a string to ``max_length`` characters, and replace those that cannot be encoded: JSON may
    contain halves of surrogate pairs.
    """
    cut = value if len(value) <= max_length else f"{value[: max_length - 3]}..."
    return cut.encode("utf-8", "replace").decode()


def value_text(value: object) -> str:
    """Format any value for an error message, in a few words: a list is "a list", however long."""
    if isinstance(value, bool) or value is None:
        return repr(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return repr(value)
        return {"nan": "NaN", "inf": "Infinity"}.get(str(value), "-Infinity")  # as JSON has them
    if isinstance(value, int):
        return str(value) if abs(value) < 10**20 else "an integer of more than 20 digits"
    if isinstance(value, str):
        return repr(text(value, 40))
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, (list, tuple)):
        return "a list"
    return type(value).__name__
