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
    head = [
        whole_or_none(get(key))
        for key in ("incarnation", "rank", "world_size", "since_step", "step")
    ]
    at_s = number_or_none(get("time"))
    if at_s is None or any(value is None for value in head):
        return None
    incarnation, rank, world_size, since_step, step = (value for value in head if value is not None)
    return RankLine(
        at_s,
        incarnation,
        rank,
        world_size,
        since_step,
        step,
        _digest(get("weights")),
        number_or_none(get("level")),
        _digest(get("begun")),
        number_or_none(get("rate")),
        number_or_none(get("made_with")),
        number_or_none(get("wanted")),
        _indices(get("indices")),
        whole_or_none(get("data_size")),
        _digest(get("sampler")),
        whole_or_none(get("restored_at")),
        whole_or_none(get("pass_at")),
        _random_states(get("random")),
        parse_summary(get("data")),
    )


class Disagreement(NamedTuple):
    """Two ranks of one group, at one step, with different rates or weights. ``what``: ``rate`` or
    ``weights``.
    """

    what: str
    one: RankLine
    other: RankLine

    def __str__(self) -> str:
        """Describe the difference: ``weights differ at step 9: rank 0 has 1.5, rank 3 has 1.7``."""
        step, ranks = self.one.step, (self.one.rank, self.other.rank)
        if self.what == "rate":
            values, what = [f"{line.rate:.6g}" for line in (self.one, self.other)], "learning rates"
        else:
            values = [_shown(self.one), _shown(self.other)]
            if values[0] == values[1]:
                values = [f"digest {line.weights}" for line in (self.one, self.other)]
            what = "weights"
        return (
            f"{what} differ at step {step}: rank {ranks[0]} has {values[0]}, rank "
            f"{ranks[1]} has {values[1]}"
        )


def disagreement(lines: Iterable[RankLine]) -> Disagreement | None:
    """Return the first two lines that contradict each other, among lines of one group at one step;
    None if all agree. Learning rates are compared first: a difference of rates explains one of
    weights.
    """
    by_rank = {line.rank: line for line in lines}
    ranks = [by_rank[rank] for rank in sorted(by_rank)]
    return _differing("rate", ranks) or _differing("weights", ranks)


def _differing(what: str, lines: Sequence[RankLine]) -> Disagreement | None:
    complete = [line for line in lines if getattr(line, what) is not None]
    for line in complete[1:]:
        if getattr(line, what) != getattr(complete[0], what):
            return Disagreement(what, complete[0], line)
    return None


def _shown(line: RankLine) -> str:
    return f"digest {line.weights}" if line.level is None else f"{line.level:.9g}"


def _digest(value: object) -> str | None:
    usable = (
        isinstance(value, str)
        and value.isascii()
        and value.isprintable()
        and 0 < len(value) <= _LONGEST_DIGEST
    )
    return value if usable else None  # type: ignore[return-value]


def _random_states(value: object) -> RandomStates | None:
    """Check the digests of the generators' states; None if there is no usable one."""
    if not isinstance(value, Mapping):
        return None
    digests = [(name, _digest(value.get(name))) for name in GENERATORS]
    states = tuple((name, digest) for name, digest in digests if digest is not None)
    return states or None


def _indices(value: object) -> Indices | None:
    """Check the samples of a step, ``[[epoch, [number, ...]], ...]``; None for anything else."""
    if not isinstance(value, list):
        return None
    indices = []
    for pair in value:
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[1], list)):
            return None
        epoch, numbers = whole_or_none(pair[0]), [whole_or_none(number) for number in pair[1]]
        if epoch is None or None in numbers:
            return None
        indices.append((epoch, tuple(number for number in numbers if number is not None)))
    return tuple(indices)
