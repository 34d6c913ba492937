"""Lists of nodes as configurations, schedulers and logs write them: ``node[01-03,7],gpu*``.

One bounded parser: a range that would fill the memory is an error before a name of it is made.
ClusterShell's NodeSet takes five times as long (33 s of CPU time, not 7 s, for a million lists of 1
to 80 nodes), sorts the nodes, drops duplicates, and has neither a limit nor wildcards:
``n[1-999999999]`` takes all memory. Tests compare the two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache

from bftrainer.errors import InvalidValueError

MOST_NODES = 200_000
"""More in one list is a mistake or a damaged line (the largest cluster so far had 158,976
nodes).
"""
LONGEST_NAME = 255
MOST_WILD = 1_000
"""Names with a wildcard in one list; each is compared with every node."""

_NAME = re.compile(r"[\w.*?-]+", re.ASCII)
_EXPECTED = "expected node names such as node[01-03,7] or gpu*"


def expand(text: str, max_names: int = MOST_NODES) -> list[str]:
    """Return the names that a host list stands for, in its order: ``n[08-10],gpu*`` -> n08, n09,
    n10, gpu*. Widths of numbers, ``*`` and ``?`` are kept.

    Raises :class:`~bftrainer.errors.InvalidValueError` for text that is not a host list, and for
    more than ``max_names`` names.
    """
    names: list[str] = []
    for part in _split_outside_brackets(text):
        names.extend(_expand_part(part, max_names - len(names), max_names))
    return names


@dataclass(frozen=True, slots=True)
class HostPatterns:
    """What a host list stands for: plain names, and one expression for those with a wildcard."""

    names: frozenset[str] = frozenset()
    wild: re.Pattern[str] | None = None

    def __contains__(self, node: str) -> bool:
        """Whether the list has this node."""
        return node in self.names or (self.wild is not None and self.wild.match(node) is not None)


@lru_cache(maxsize=64)  # asked for thousands of nodes in a row
def host_patterns(patterns: tuple[str, ...]) -> HostPatterns:
    """Return what a host list of a configuration stands for, to look up nodes in. This is also the
    check of such a list: raises :class:`~bftrainer.errors.InvalidValueError`.
    """
    names: list[str] = []
    for pattern in patterns:
        names += _expanded_pattern(pattern, MOST_NODES - len(names))
    return _as_patterns(names)


def matches(node: str, patterns: tuple[str, ...]) -> bool:
    """Whether a node is in a list of a configuration."""
    return node in host_patterns(patterns)


def _expanded_pattern(pattern: str, max_names: int) -> list[str]:
    """Return the names of one pattern, at most ``max_names``. Raises :class:`InvalidValueError` for
    other characters than node names have, and for too many names with a wildcard.
    """
    names = expand(pattern, max_names)
    for name in names:
        if not _NAME.fullmatch(name):
            raise InvalidValueError(f"{_EXPECTED}, got {pattern[:60]!r}")
    if sum(map(_is_wild, names)) > MOST_WILD:
        raise InvalidValueError(
            f"{_EXPECTED}, got {pattern[:60]!r}: more than {MOST_WILD:,} names with * or ?"
        )
    return names


def _as_patterns(names: Iterable[str]) -> HostPatterns:
    """Return the names as patterns: one expression matches all names with a wildcard."""
    all_names = frozenset(names)
    wild_names = sorted(filter(_is_wild, all_names))
    expression = re.compile("|".join(map(translate, wild_names))) if wild_names else None
    return HostPatterns(all_names.difference(wild_names), expression)


def _is_wild(name: str) -> bool:
    """Whether a name has a wildcard."""
    return "*" in name or "?" in name


def _split_outside_brackets(text: str) -> list[str]:
    """Split a host list at the commas outside of brackets: ``n[1,2],m`` -> ``n[1,2]``, ``m``.
    Raises :class:`InvalidValueError` for brackets that do not match, and for a part that cannot be
    a name.
    """
    if "[" not in text and "]" not in text:
        parts = text.split(",")
    else:
        parts = []
        depth = 0
        start = 0
        for index, letter in enumerate(text):
            if letter == "[":
                depth += 1
            elif letter == "]":
                depth -= 1
            elif letter == "," and not depth:
                parts.append(text[start:index])
                start = index + 1
            if depth not in (0, 1):
                raise InvalidValueError(
                    f"{_EXPECTED}, got {text[:60]!r}: its brackets do not match"
                )
        if depth:
            raise InvalidValueError(f"{_EXPECTED}, got {text[:60]!r}: a bracket is not closed")
        parts.append(text[start:])
    for part in parts:
        may_be_name = part and part.isascii() and part.isprintable() and " " not in part
        if not may_be_name or (len(part) > 4096 and "[" not in part):
            raise InvalidValueError(f"{_EXPECTED}, got {part[:60]!r} in {text[:60]!r}")
    return parts


def _expand_part(part: str, room: int, max_names: int) -> list[str]:
    """Return the names of one part of a host list: ``n[1-2]-gpu[0,4]`` stands for four.

    There may be ``room`` of them; errors name the limit of the whole list, ``max_names``.
    """
    names = [""]  # the names of the text so far
    rest = part
    while rest:
        text, bracket, after_bracket = rest.partition("[")
        # Long names times 200,000 endings would be gigabytes.
        if len(names[0]) + len(text) > LONGEST_NAME:
            raise InvalidValueError(
                f"{_EXPECTED}, got {part[:60]!r}: a name of more than {LONGEST_NAME} characters"
            )
        names = [name + text for name in names]
        if not bracket:
            break
        inside, _, rest = after_bracket.partition("]")
        endings: list[str] = []
        for piece in inside.split(","):
            endings += _bracket_numbers(piece, part, room - len(endings), max_names)
        if len(names) * len(endings) > room:
            raise InvalidValueError(
                f"{part[:60]!r} expands to more than {max_names:,} nodes in one list"
            )
        names = [name + ending for name in names for ending in endings]
    if len(names) > room:
        raise InvalidValueError(
            f"{part[:60]!r} expands to more than {max_names:,} nodes in one list"
        )
    return names


def _bracket_numbers(piece: str, whole: str, room: int, max_names: int) -> list[str]:
    """Return the numbers of one piece between brackets, as wide as the first: ``08-10`` -> 08, 09,
    10.

    There may be ``room`` of them; errors quote the ``whole`` part of the list, and name the limit
    ``max_names``.
    """
    first, dash, last = piece.partition("-")
    if not dash:
        last = first
    are_numbers = first.isascii() and first.isdigit() and last.isascii() and last.isdigit()
    if not are_numbers or len(piece) > 40:
        raise InvalidValueError(
            f"{_EXPECTED}, got {whole[:60]!r}: [{piece[:40]}] is not a range of numbers"
        )
    start, end = int(first), int(last)
    if end < start:
        raise InvalidValueError(f"{_EXPECTED}, got {whole[:60]!r}: [{piece}] is a descending range")
    if end - start >= room:
        raise InvalidValueError(
            f"{whole[:60]!r} expands to more than {max_names:,} nodes in one list"
        )
    return [str(number).zfill(len(first)) for number in range(start, end + 1)]
