"""``ranks/RANK.jsonl``: each rank's weights, learning rate and samples, one JSON object a line.
Written by the helper.

Ranks of one group make the same steps, so at one step all of them must report equal weights and
rates.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from bftrainer.wires.bounds import number_or_none, whole_or_none
from bftrainer.wires.data_summary import DataSummary, parse_summary

_LONGEST_DIGEST = 64
Indices = tuple[tuple[int, tuple[int, ...]], ...]
"""The numbers of samples, by epoch."""
GENERATORS = ("python", "numpy", "torch", "cuda")
"""The generators of random numbers whose states a rank reports."""
RandomStates = tuple[tuple[str, str], ...]
"""Digests of the generators' states, by the name of the generator."""


class RankLine(NamedTuple):
    """One line. ``since_step``: the first step of this group of workers; with the incarnation and
    the size it names the group.

    ``weights`` is a digest of the weights and ``level`` the sum of their absolute values, both over
    a sample of at most 4,096 values per tensor; ``begun`` is the digest at the start of the
    process. ``rate`` is the optimizer's learning rate, ``made_with`` the one that it was
    constructed with, ``wanted`` the last result of ``progress.LearningRate``. ``indices`` are this
    rank's samples of the step, out of ``data_size``; ``restored_at`` and ``pass_at``: the sampler's
    position as the group began, and where its pass over the data began. ``random``: digests of the
    states of the random number generators after the step. ``data`` identifies the data set.
    """

    at_s: float
    incarnation: int
    rank: int
    world_size: int
    since_step: int
    step: int
    weights: str | None = None
    level: float | None = None
    begun: str | None = None
    rate: float | None = None
    made_with: float | None = None
    wanted: float | None = None
    indices: Indices | None = None
    data_size: int | None = None
    sampler: str | None = None
    restored_at: int | None = None
    pass_at: int | None = None
    random: RandomStates | None = None
    data: DataSummary | None = None

    @property
    def group(self) -> tuple[int, int, int]:
        """The group of workers, as (incarnation, first step, size): lines of one group at one step
        are comparable.
        """
        return self.incarnation, self.since_step, self.world_size


def format_rank(line: RankLine) -> str:
    """Format a rank's line as its JSON object, without a line end; unknown values are left out."""
    value = {key: item for key, item in line._asdict().items() if item is not None}
    value["time"] = round(value.pop("at_s"), 4)
    if line.random is not None:
        value["random"] = dict(line.random)
    if line.data is not None:
        value["data"] = line.data.as_dict()
    return json.dumps(value, default=float)


def parse_rank(line: object) -> RankLine | None:
    """Convert a line's JSON object into a rank's line; None if its time, rank or group is missing.
    Other values that cannot be used count as missing.
    """
    if not isinstance(line, Mapping):
        return None
    get = line.get
    keys = ("incarnation", "rank", "world_size", "since_step", "step")
    numbers = [whole_or_none(get(key)) for key in keys]
    at_s = number_or_none(get("time"))
    required = [value for value in numbers if value is not None]
    if at_s is None or len(required) < len(keys):
        return None
    incarnation, rank, world_size, since_step, step = required
    return RankLine(
        at_s=at_s,
        incarnation=incarnation,
        rank=rank,
        world_size=world_size,
        since_step=since_step,
        step=step,
        weights=_short_text(get("weights")),
        level=number_or_none(get("level")),
        begun=_short_text(get("begun")),
        rate=number_or_none(get("rate")),
        made_with=number_or_none(get("made_with")),
        wanted=number_or_none(get("wanted")),
        indices=_checked_indices(get("indices")),
        data_size=whole_or_none(get("data_size")),
        sampler=_short_text(get("sampler")),
        restored_at=whole_or_none(get("restored_at")),
        pass_at=whole_or_none(get("pass_at")),
        random=_random_states(get("random")),
        data=parse_summary(get("data")),
    )


class Disagreement(NamedTuple):
    """Two ranks of one group, at one step, with different rates or weights. ``quantity``: ``rate``
    or ``weights``.
    """

    quantity: str
    line: RankLine
    other_line: RankLine

    def __str__(self) -> str:
        """Describe the difference: ``weights differ at step 9: rank 0 has 1.5, rank 3 has 1.7``."""
        name = "learning rates" if self.quantity == "rate" else "weights"
        if self.quantity == "rate":
            values = [f"{line.rate:.6g}" for line in (self.line, self.other_line)]
        else:
            values = [_level_text(line) for line in (self.line, self.other_line)]
            if values[0] == values[1]:  # the sums are equal, to the digits that are printed
                values = [f"digest {line.weights}" for line in (self.line, self.other_line)]
        return (
            f"{name} differ at step {self.line.step}: rank {self.line.rank} has {values[0]}, rank "
            f"{self.other_line.rank} has {values[1]}"
        )


def disagreement(lines: Iterable[RankLine]) -> Disagreement | None:
    """Return the first two lines that contradict each other, among lines of one group at one step;
    None if all agree. Learning rates are compared first: a difference of rates explains one of
    weights.
    """
    by_rank = {line.rank: line for line in lines}
    ranks = [by_rank[rank] for rank in sorted(by_rank)]
    return _disagreement_in("rate", ranks) or _disagreement_in("weights", ranks)


def _disagreement_in(quantity: str, lines: Sequence[RankLine]) -> Disagreement | None:
    """Return the first line whose ``quantity`` (``rate`` or ``weights``) differs from that of the
    lowest rank, with this rank's line; lines without a value are skipped.
    """
    complete = [line for line in lines if getattr(line, quantity) is not None]
    for line in complete[1:]:
        if getattr(line, quantity) != getattr(complete[0], quantity):
            return Disagreement(quantity, complete[0], line)
    return None


def _level_text(line: RankLine) -> str:
    """Return the level of a rank's weights as text, or their digest if it has no level."""
    return f"digest {line.weights}" if line.level is None else f"{line.level:.9g}"


def _short_text(value: object) -> str | None:
    """Return a digest or a name; None for anything but short, printable ASCII."""
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_DIGEST:
        return None
    return value if value.isascii() and value.isprintable() else None


def _random_states(value: object) -> RandomStates | None:
    """Check the digests of the generators' states; None if there is no usable one."""
    if not isinstance(value, Mapping):
        return None
    digests = [(name, _short_text(value.get(name))) for name in GENERATORS]
    states = tuple((name, digest) for name, digest in digests if digest is not None)
    return states or None


def _checked_indices(value: object) -> Indices | None:
    """Check the samples of a step, ``[[epoch, [number, ...]], ...]``; None for anything else."""
    if not isinstance(value, list):
        return None
    indices = []
    for pair in value:
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[1], list)):
            return None
        epoch = whole_or_none(pair[0])
        numbers = [number for number in map(whole_or_none, pair[1]) if number is not None]
        if epoch is None or len(numbers) < len(pair[1]):
            return None
        indices.append((epoch, tuple(numbers)))
    return tuple(indices)
