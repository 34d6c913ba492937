"""Fields that several log formats share: counts, node names, LSF's hosts with their slots."""

from __future__ import annotations

from collections.abc import Iterable

from bftrainer_replay.logs.jobs import BadLineError


def name_of(text: str) -> str:
    """Return the first 60 characters of the name of an account; empty for a name that is not
    printable ASCII.
    """
    return text.strip()[:60] if text.isascii() and text.isprintable() else ""


def count_of(text: str, what: str, limit: int = 999_999_999) -> int:
    """Return a text as a whole number from 0 to ``limit``; raises :class:`BadLineError`.

    The message says that the number is one of ``what``. "4.0" is 4: pandas writes whole numbers in
    this way if a number of the column is missing.
    """
    text = text.removesuffix(".0")
    if not text.isdecimal() or len(text) > 9 or int(text) > limit:
        raise BadLineError(f"{text[:40]!r} is not a number of {what}")
    return int(text)


def is_node_name(text: str) -> bool:
    """Return whether the text is printable ASCII of 1 to 255 characters."""
    return bool(text) and text.isascii() and text.isprintable() and len(text) <= 255


def slots_by_host(words: Iterable[str]) -> dict[str, int]:
    """Return the number of slots of each host, in the order of the list.

    LSF names a host once per slot, or once with a factor: h1 h1 and ``2*h1`` are the same. Raises
    :class:`BadLineError`.
    """
    slots: dict[str, int] = {}
    for word in words:
        factor, star, name = word.partition("*")
        if not star:
            factor, name = "1", word
        if not is_node_name(name) or not factor.isdecimal() or len(factor) > 6:
            raise BadLineError(f"{word[:40]!r} is not an execution host")
        slots[name] = slots.get(name, 0) + int(factor)
    return slots
