"""Expands Slurm's host lists, like ``cn[001-003,7],gpu2``.

ClusterShell, which the Slurm adapter uses, takes five times as long (33 s of CPU time, not 7 s, for a million lists of 1 to
80 nodes), sorts the nodes, drops duplicates, accepts names that Slurm does not, and has no limit.
"""

from __future__ import annotations

MOST_NODES = 200_000
"""A longer list is a damaged line (the largest cluster so far had 158,976 nodes)."""


def expand(text: str) -> list[str]:
    """The names in a host list, in its order, with their widths (``n[08-10]`` is n08, n09, n10). Raises ValueError."""
    names: list[str] = []
    for part in _parts(text):
        names.extend(_expand_part(part, MOST_NODES - len(names)))
    return names


def _parts(text: str) -> list[str]:
    """Split at the commas outside of brackets."""
    if "[" not in text and "]" not in text:
        parts = text.split(",")
    else:
        parts, depth, start = [], 0, 0
        for place, letter in enumerate(text):
            if letter == "[":
                depth += 1
            elif letter == "]":
                depth -= 1
            elif letter == "," and not depth:
                parts.append(text[start:place])
                start = place + 1
            if depth not in (0, 1):
                raise ValueError(f"{text[:60]!r} has unmatched brackets")
        if depth:
            raise ValueError(f"{text[:60]!r} has an unclosed bracket")
        parts.append(text[start:])
    for part in parts:
        if (
            not part
            or not part.isascii()
            or not part.isprintable()
            or " " in part
            or (len(part) > 4096 and "[" not in part)
        ):
            raise ValueError(f"{part[:60]!r} in {text[:60]!r} is not a node name")
    return parts


def _expand_part(part: str, room: int) -> list[str]:
    names = [""]
    while part:
        before, bracket, rest = part.partition("[")
        names = [name + before for name in names]
        if not bracket:
            break
        inside, _, part = rest.partition("]")
        endings = [number for piece in inside.split(",") for number in _numbers(piece, room)]
        if len(names) * len(endings) > room:
            raise ValueError(f"more than {MOST_NODES:,} nodes in one list")
        names = [name + ending for name in names for ending in endings]
    return names


def _numbers(piece: str, room: int) -> list[str]:
    first, dash, last = piece.partition("-")
    if not dash:
        last = first
    if not (first.isascii() and first.isdigit() and last.isascii() and last.isdigit()) or len(piece) > 40:
        raise ValueError(f"[{piece[:40]}] is not a range of numbers")
    start, end = int(first), int(last)
    if end < start:
        raise ValueError(f"[{piece}] counts backwards")
    if end - start >= room:
        raise ValueError(f"[{piece}] makes more than {MOST_NODES:,} nodes in one list")
    return [str(number).zfill(len(first)) for number in range(start, end + 1)]
