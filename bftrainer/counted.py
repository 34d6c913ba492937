"""Numbers with the noun that they count: ``1 node``, ``2 nodes``."""

from __future__ import annotations


def counted(number: float, singular: str, plural: str = "") -> str:
    """``1 node``, ``1,024 nodes``. ``plural`` is given where it is not ``singular`` with an s, such
    as with a verb: ``counted(number, "job was", "jobs were")``.
    """
    shown = f"{number:,.0f}"
    return f"{shown} {singular if shown == '1' else plural or singular + 's'}"
