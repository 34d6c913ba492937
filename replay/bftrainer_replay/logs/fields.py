"""Fields that several log formats share: counts, node names, LSF's hosts with their slots."""

from __future__ import annotations

from collections.abc import Iterable

from bftrainer_replay.logs.jobs import BadLineError


def name_of(text: str) -> str:
    """The name of an account, which may hold anything, if it can be printed."""
    return text.strip()[:60] if text.isascii() and text.isprintable() else ""


def count_of(text: str, what: str, limit: int = 999_999_999) -> int:
    """Parse a whole number, 0 or more; raises :class:`BadLineError`. "4.0" is 4: tables of pandas
    have it in a column with a gap.
    """
    text = text.removesuffix(".0")
    if not text.isdecimal() or len(text) > 9 or int(text) > limit:
        raise BadLineError(f"{text[:40]!r} is not a number of {what}")
    return int(text)


def is_node_name(text: str) -> bool:
    """Printable ASCII of at most 255 characters."""
    return bool(text) and text.isascii() and text.isprintable() and len(text) <= 255


def slots_by_host(pieces: Iterable[str]) -> dict[str, int]:
    """Count the slots of each host, in order. LSF names a host once per slot, or once with a
    factor: h1 h1 and ``2*h1`` are the same.
    """
    slots: dict[str, int] = {}
    for piece in pieces:
        factor, star, name = piece.partition("*")
        if not star:
            factor, name = "1", piece
        if not is_node_name(name) or not factor.isdecimal() or len(factor) > 6:
            raise BadLineError(f"{piece[:40]!r} is not an execution host")
        slots[name] = slots.get(name, 0) + int(factor)
    return slots
