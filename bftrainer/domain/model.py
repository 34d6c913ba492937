"""The domain: what a trainer is, and how fast it runs on how many nodes.

Values are frozen and correct by construction: ``__post_init__`` refuses what breaks a rule with an
:class:`~bftrainer.errors.InvalidValueError` whose text has no place in it; the gate that read the value adds the file
and line.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from bftrainer.errors import InvalidValueError


@dataclass(frozen=True, slots=True)
class Curve:
    """O_j(N): value per second on N nodes, piecewise linear through its breakpoints (paper 3.4.1, Eqns 11-12, Fig. 4).

    ``nodes`` are the N_j^1 .. N_j^D (strictly increasing, at least 1), ``per_s`` the s_j^1 .. s_j^D in samples per
    second (or the unit of an objective). The breakpoint (0, 0) is implied.
    """

    nodes: tuple[int, ...]
    per_s: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.nodes) != len(self.per_s):
            raise InvalidValueError(
                f"a curve needs one value per node count, got {len(self.nodes)} counts and {len(self.per_s)} values"
            )
        if not self.nodes:
            raise InvalidValueError("a curve needs at least one point, got none")
        if self.nodes[0] < 1:
            raise InvalidValueError(f"a curve's node counts start at 1 or above, got {self.nodes[0]}")
        for left, right in pairwise(self.nodes):
            if right <= left:
                raise InvalidValueError(f"a curve's node counts must strictly increase, got {left} then {right}")
        for n, value in zip(self.nodes, self.per_s, strict=True):
            if not math.isfinite(value) or value < 0:
                raise InvalidValueError(f"a curve's values must be finite and not negative, got {value} at {n} nodes")

    def at(self, n: int) -> float:
        """O_j(n) by linear interpolation; beyond the last breakpoint there is no value to give."""
        if n == 0:
            return 0.0
        i = bisect_right(self.nodes, n)
        if i and self.nodes[i - 1] == n:
            return self.per_s[i - 1]
        if i == len(self.nodes):
            raise InvalidValueError(f"the curve ends at {self.nodes[-1]} nodes and has no value at {n}")
        n0, v0 = (self.nodes[i - 1], self.per_s[i - 1]) if i else (0, 0.0)
        return v0 + (self.per_s[i] - v0) * (n - n0) / (self.nodes[i] - n0)

    def falls_at(self) -> tuple[int, ...]:
        """Breakpoints at which more nodes bring less. Legal (measured curves do it), worth a warning."""
        return tuple(self.nodes[i] for i in range(1, len(self.nodes)) if self.per_s[i] < self.per_s[i - 1])


@dataclass(frozen=True, slots=True)
class Learning:
    """How a trainer's curve and costs are learned from what it does (docs/learning.md).

    ``key`` names what is learned, for all trainers of one model; without one it is the trainer's own. ``blank``: nobody
    submitted a curve, the one it has is a placeholder; until it was measured it counts as no worse than the others, on up
    to ``share`` of the pool. Measurements are windows of ``window_s``. One that has been on one size for ``explore_after_s``,
    and was never measured on a very different one, is put on another for a window: from its smallest on more, within
    ``share``; from larger ones, after ten times as long, on about a quarter. 0: never.
    """

    key: str = ""
    blank: bool = False
    share: float = 0.25
    window_s: float = 20.0
    explore_after_s: float = 120.0

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise InvalidValueError(f"the share of the pool must be above 0 and at most 1, got {self.share}")
        if self.window_s <= 0:
            raise InvalidValueError(f"a window of measurement must last longer than 0 s, got {self.window_s}")
        check_not_negative(explore_after_s=self.explore_after_s)


@dataclass(frozen=True, slots=True)
class Trainer:
    """A malleable training job: paper 3.1.

    ``min_nodes`` and ``max_nodes`` are N_j^min and N_j^max, ``scale_up_s`` and ``scale_down_s`` R_j^up and R_j^dw.
    ``samples_total`` is the work it brings (None: unknown). ``sizes``, where given, lists the only legal counts besides
    waiting at 0. A trainer may always wait at 0 nodes. ``requested_nodes`` is what its user would ask an ordinary queue
    for; ``reports_loss`` says that its progress comes with the value of its evaluation function. ``node_class`` names the
    only class of nodes that it runs on (None: any, but one at a time). With ``learning`` curve and costs are what is
    believed of it; without, they are taken as they were submitted.
    """

    id: str
    curve: Curve
    min_nodes: int
    max_nodes: int
    scale_up_s: float
    scale_down_s: float
    samples_total: float | None = None
    priority: float = 1.0
    sizes: tuple[int, ...] | None = None
    model: str = ""
    requested_nodes: int | None = None
    reports_loss: bool = False
    node_class: str | None = None
    learning: Learning | None = None

    def __post_init__(self) -> None:
        if not self.id or any(c.isspace() for c in self.id):
            raise InvalidValueError(f"a trainer's id must be non-empty and without blanks, got {self.id!r}")
        check_sizes(self.min_nodes, self.max_nodes, self.sizes)
        check_covers(self.curve, self.min_nodes, self.max_nodes)
        check_not_negative(scale_up_s=self.scale_up_s, scale_down_s=self.scale_down_s, priority=self.priority)
        if self.samples_total is not None and not (math.isfinite(self.samples_total) and self.samples_total > 0):
            raise InvalidValueError(f"samples_total must be above 0, got {self.samples_total}")
        if self.requested_nodes is not None and not (self.requested_nodes and self.is_legal(self.requested_nodes)):
            raise InvalidValueError(f"requested_nodes must be a legal size above 0, got {self.requested_nodes}")

    def is_legal(self, n: int) -> bool:
        """Whether ``n`` nodes is a size that it may get: waiting at 0 always is (Eqn 3)."""
        if n == 0 or self.sizes is None:
            return n == 0 or self.min_nodes <= n <= self.max_nodes
        return n in self.sizes


def check_sizes(min_nodes: int, max_nodes: int, sizes: tuple[int, ...] | None) -> None:
    """Refuse bounds and size sets that no allocation could satisfy."""
    if min_nodes < 1:
        raise InvalidValueError(f"min_nodes must be at least 1, got {min_nodes}")
    if max_nodes < min_nodes:
        raise InvalidValueError(f"min_nodes {min_nodes} is larger than max_nodes {max_nodes}")
    if sizes is None:
        return
    if not sizes:
        raise InvalidValueError("sizes must list at least one legal node count, got none")
    for left, right in pairwise(sizes):
        if right <= left:
            raise InvalidValueError(f"sizes must strictly increase, got {left} then {right}")
    for n in sizes:
        if n != 0 and not min_nodes <= n <= max_nodes:
            raise InvalidValueError(f"sizes must be 0 or within [{min_nodes}, {max_nodes}], got {n}")


def check_covers(curve: Curve, min_nodes: int, max_nodes: int) -> None:
    """Refuse a curve that says nothing about some legal size."""
    if curve.nodes[0] > min_nodes or curve.nodes[-1] < max_nodes:
        raise InvalidValueError(
            f"the curve covers {curve.nodes[0]} to {curve.nodes[-1]} nodes, "
            f"expected at least min_nodes {min_nodes} to max_nodes {max_nodes}"
        )


def check_not_negative(**values: float) -> None:
    """Refuse NaN, infinities and negative numbers, by name."""
    for name, value in values.items():
        if not math.isfinite(value) or value < 0:
            raise InvalidValueError(f"{name} must be finite and not negative, got {value}")


def rates(trainer: Trainer) -> tuple[float, ...]:
    """Samples per second at 0 .. max_nodes nodes, with the dead zone below ``min_nodes``."""
    return _rates(trainer.curve, trainer.min_nodes, trainer.max_nodes)


@lru_cache(maxsize=8192)
def _rates(curve: Curve, min_nodes: int, max_nodes: int) -> tuple[float, ...]:
    return tuple(curve.at(n) if n >= min_nodes else 0.0 for n in range(max_nodes + 1))
