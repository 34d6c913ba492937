"""Host lists that other users wrote, compared with our own nodes and never expanded. Pure.

A comment of 800 bytes can stand for millions of names (``n[1-199999,1-199999,...]``). So a pattern
stays a shape with ranges of numbers, and our nodes are looked up in it. The work is counted, for
each user and over all users; what exceeds a limit is left out, so that no other user decides how
long a poll takes or how much memory it needs.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

MOST_PATTERNS_OF_A_USER = 200
MOST_STEPS_OF_A_USER = 400_000
"""Comparisons of a node with a range: 20 ranges on a cluster of 20,000 nodes."""
MOST_STEPS = 2_000_000
_MOST_DIGITS, _MOST_LENGTH = 18, 1_024
_PARTS = re.compile(r"\[([0-9,-]*)\]|([*?])|([\w.-]+)", re.ASCII)
_RANGE = re.compile(rf"([0-9]{{1,{_MOST_DIGITS}}})(?:-([0-9]{{1,{_MOST_DIGITS}}}))?")
_LAST = "\U0010ffff"
_PLAIN = re.compile(r"[\w.-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class NumberRanges:
    """The numbers that a pair of brackets in a host list allows: (first, last, width) of each
    range. ``[08-10]`` allows 08, 09 and 10; ``[8-10]`` allows 8, 9 and 10.
    """

    ranges: tuple[tuple[int, int, int], ...]

    def __contains__(self, digits: str) -> bool:
        """Whether a range has the number ``digits`` (decimal digits only), written with the same
        zeros in front: 08 is in ``[08-10]``, 8 is not.
        """
        number = int(digits)
        length_without_zeros = len(str(number))
        return any(
            first <= number <= last and len(digits) == max(width, length_without_zeros)
            for first, last, width in self.ranges
        )

    @property
    def digit_counts(self) -> tuple[int, int]:
        """The fewest and the most digits that a number of these ranges has."""
        min_digits = min(max(width, len(str(first))) for first, _, width in self.ranges)
        max_digits = max(max(width, len(str(last))) for _, last, width in self.ranges)
        return min_digits, max_digits


@dataclass(frozen=True, slots=True)
class Claim:
    """A pattern with brackets or wildcards: names that begin with ``prefix`` and have this shape
    and these numbers.
    """

    prefix: str
    shape: re.Pattern[str]
    numbers: tuple[NumberRanges, ...]

    @property
    def steps(self) -> int:
        """The work to compare the pattern with one node."""
        return 1 + sum(len(numbers.ranges) for numbers in self.numbers)

    def __contains__(self, node: str) -> bool:
        """Whether the pattern names the node."""
        match = self.shape.fullmatch(node)
        return match is not None and all(
            map(NumberRanges.__contains__, self.numbers, match.groups())
        )


@lru_cache(maxsize=1024)  # other pilots' lists are the same at every poll
def read_claim(pattern: str) -> Claim | None:
    """Return a pattern of a host list, such as ``rack[1-4]n[01-20]`` or ``gpu*``, in a form in
    which nodes are looked up, without expanding it.

    None for text that is no pattern, and for a pattern that one name could fit in so many ways that
    comparing them would take long: it comes from another user.
    """
    if len(pattern) > _MOST_LENGTH:
        return None
    parts = []
    end = 0
    for part in _PARTS.finditer(pattern):
        # Characters before this part belong to none.
        if part.start() != end:
            return None
        parts.append(part)
        end = part.end()
    if end != len(pattern) or not parts:
        return None
    shape = ""
    numbers: list[NumberRanges] = []
    # Parts of no fixed length, one after the other: each multiplies the ways in which a name fits.
    variable_count = 0
    max_variable_count = 1 if "[" in pattern else 2
    for part in parts:
        brackets, wildcard, text = part[1], part[2], part[3]
        if brackets is not None:
            ranges = _number_ranges(brackets)
            if ranges is None:
                return None
            numbers.append(ranges)
            min_digits, max_digits = ranges.digit_counts
            shape += f"([0-9]{{{min_digits},{max_digits}}})"
            # Numbers of a fixed length are matched in one way only.
            variable_count += min_digits != max_digits
        elif wildcard:
            shape += "." if wildcard == "?" else ".*"
            variable_count += wildcard == "*"
        else:
            shape += re.escape(text)
            if "*" not in pattern and not text.isdecimal():
                variable_count = 0  # a letter ends the numbers before it
        if variable_count > max_variable_count:
            return None
    return Claim(parts[0][3] or "", re.compile(shape, re.DOTALL), tuple(numbers))


def _number_ranges(text: str) -> NumberRanges | None:
    """Return the ranges in a pair of brackets, as (first, last, digits): (8, 10, 2) and (12, 12, 2)
    for ``08-10,12``. None if the text is no list of ranges.
    """
    ranges = []
    for piece in text.split(","):
        match = _RANGE.fullmatch(piece)
        if match is None:
            return None
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            return None
        ranges.append((first, last, len(match[1])))
    return NumberRanges(tuple(ranges))


@dataclass(slots=True)
class ClaimComparison:
    """Compares the host lists of other users with our ``nodes`` (sorted), and limits the work of
    one look at all of these lists.
    """

    nodes: Sequence[str]
    _steps: Counter[str] = field(default_factory=Counter, init=False)
    _patterns: Counter[str] = field(default_factory=Counter, init=False)

    @property
    def steps(self) -> int:
        """The work so far."""
        return self._steps.total()

    def claimed(self, user: str, patterns: Iterable[str]) -> list[str]:
        """Return our nodes that a user's patterns name, sorted. Patterns that cannot be read or
        that exceed a limit are left out.

        The work, comparisons of a node with a range, is added to that of the user's earlier lists.
        """
        claimed_nodes: set[str] = set()
        for pattern in patterns:
            if _PLAIN.fullmatch(pattern):  # the name of one node, which costs next to nothing
                index = bisect_left(self.nodes, pattern)
                if index < len(self.nodes) and self.nodes[index] == pattern:
                    claimed_nodes.add(pattern)
                continue
            self._patterns[user] += 1
            if self._patterns[user] > MOST_PATTERNS_OF_A_USER:
                break
            claim = read_claim(pattern)
            if claim is None:
                continue
            # Only nodes that begin as the pattern does are compared with it.
            start = bisect_left(self.nodes, claim.prefix)
            end = bisect_left(self.nodes, claim.prefix + _LAST)
            steps = claim.steps * (end - start)
            if self._steps[user] + steps > MOST_STEPS_OF_A_USER or self.steps + steps > MOST_STEPS:
                continue
            self._steps[user] += steps
            claimed_nodes.update(node for node in self.nodes[start:end] if node in claim)
        return sorted(claimed_nodes)
