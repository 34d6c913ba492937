"""A trainer, and its throughput by number of nodes.

Values are frozen and valid by construction: ``__post_init__`` raises
:class:`~bftrainer.errors.InvalidValueError`, without a location; the reader of a file adds file and
line.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from operator import lt

from bftrainer.errors import InvalidValueError


@dataclass(frozen=True, slots=True)
class Curve:
    """O_j(N): value per second on N nodes, piecewise linear (paper 3.4.1, Eqns 11-12, Fig. 4; the
    f_j of Eqn 16).

    ``nodes`` are the breakpoints N_j^1 .. N_j^D (strictly increasing, at least 1); ``per_s`` are
    their values s_j^1 .. s_j^D in samples per second (or the unit of an objective). The breakpoint
    (0, 0) is implied.
    """

    nodes: tuple[int, ...]
    per_s: tuple[float, ...]

    def __post_init__(self) -> None:
        """Raise :class:`InvalidValueError` unless node counts rise from 1 and values are finite and
        not negative.
        """
        if len(self.nodes) != len(self.per_s):
            raise InvalidValueError(
                f"a curve needs one value per node count, got {len(self.nodes)} counts and "
                f"{len(self.per_s)} values"
            )
        if self._is_valid():
            return
        if not self.nodes:
            raise InvalidValueError("a curve needs at least one point, got none")
        if self.nodes[0] < 1:
            raise InvalidValueError(
                f"a curve's node counts start at 1 or above, got {self.nodes[0]}"
            )
        for left, right in pairwise(self.nodes):
            if right <= left:
                raise InvalidValueError(
                    f"a curve's node counts must strictly increase, got {left} then {right}"
                )
        for n, value in zip(self.nodes, self.per_s, strict=True):
            if not 0 <= value < math.inf:
                raise InvalidValueError(
                    f"a curve's values must be finite and not negative, got {value} at {n} nodes"
                )

    def _is_valid(self) -> bool:
        """Whether a fast test shows that the curve is valid. A valid curve may fail the test.

        A curve is scaled at every event, so the loops above run only after this test fails.
        """
        nodes, per_s = self.nodes, self.per_s
        increase = bool(nodes) and nodes[0] >= 1 and all(map(lt, nodes, nodes[1:]))
        return increase and min(per_s) >= 0 and math.isfinite(sum(per_s))

    def __hash__(self) -> int:
        """Hash the last value only, for speed: a curve is looked up at every event, and two curves
        that differ nearly always have different last values.
        """
        return hash(self.per_s[-1])

    def at(self, n: int) -> float:
        """Return O_j(n), the value on ``n`` nodes, interpolated linearly, from (0, 0) to the first
        breakpoint too. Raises :class:`InvalidValueError` beyond the last breakpoint.
        """
        if n == 0:
            return 0.0
        i = bisect_right(self.nodes, n)  # the first breakpoint beyond n
        if i and self.nodes[i - 1] == n:
            return self.per_s[i - 1]
        if i == len(self.nodes):
            raise InvalidValueError(
                f"the curve ends at {self.nodes[-1]} nodes and has no value at {n}"
            )
        n0, v0 = (self.nodes[i - 1], self.per_s[i - 1]) if i else (0, 0.0)
        return v0 + (self.per_s[i] - v0) * (n - n0) / (self.nodes[i] - n0)

    def falls_at(self) -> tuple[int, ...]:
        """Return the breakpoints where the curve falls. A measured curve may fall, but this is
        worth a warning.
        """
        return tuple(
            self.nodes[i] for i in range(1, len(self.nodes)) if self.per_s[i] < self.per_s[i - 1]
        )


@dataclass(frozen=True, slots=True)
class Learning:
    """How the curve and costs of a trainer are estimated from measurements (docs/learning.md).

    ``key`` is shared by all trainers of one model; if empty, measurements are the trainer's own.
    ``blank``: the trainer was submitted without a curve and has a placeholder; until it is measured
    it counts as no worse than the others, on up to ``share`` of the pool. Measurements are windows
    of ``window_s``. A trainer that has kept its size for ``explore_after_s`` and was never measured
    on a very different one is measured on another size for a window: from its smallest size on a
    larger one, within ``share``; from larger sizes, after ten times as long, on about a quarter. 0:
    never.
    """

    key: str = ""
    blank: bool = False
    share: float = 0.25
    window_s: float = 20.0
    explore_after_s: float = 120.0

    def __post_init__(self) -> None:
        """Raise :class:`InvalidValueError` for settings out of their range."""
        if not 0 < self.share <= 1:
            raise InvalidValueError(
                f"the share of the pool must be above 0 and at most 1, got {self.share}"
            )
        if self.window_s <= 0:
            raise InvalidValueError(
                f"a measurement window must last longer than 0 s, got {self.window_s}"
            )
        check_not_negative(explore_after_s=self.explore_after_s)


@dataclass(frozen=True, slots=True)
class Trainer:
    """A malleable training job (paper 3.1).

    ``min_nodes`` and ``max_nodes`` are N_j^min and N_j^max, ``scale_up_s`` and ``scale_down_s``
    R_j^up and R_j^dw. If its old nodes train on while new ones start, ``start_s`` is the time of a
    start, S_j, and the other two are the stalls at the switch, W_j^up and W_j^dw
    (:mod:`~bftrainer.decide.domain.rescaling`); None: all nodes stall for R_j^up. ``from_zero_s``
    is the time from a decision until a trainer without nodes trains, its driver's start included;
    None: S_j + W_j^up. ``samples_total`` is its length (None: unknown). ``sizes``, if given, lists
    the only legal counts besides 0; a trainer may always wait at 0 nodes. ``requested_nodes`` is
    the size of the same training as an ordinary job; ``reports_loss`` says that its progress
    reports include the value of its evaluation function. ``node_class`` is the only node class that
    it runs on (None: any, but one at a time). ``fill``: a pool of independent workers, on nodes
    that no training uses. With ``learning``, curve and costs are estimates; without, they are as
    submitted.
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
    start_s: float | None = None
    from_zero_s: float | None = None
    fill: bool = False

    def __post_init__(self) -> None:
        """Raise :class:`InvalidValueError` for values that contradict each other or are out of
        range.
        """
        if not self.id or any(c.isspace() for c in self.id):
            raise InvalidValueError(
                f"a trainer's id must not be empty or contain spaces, got {self.id!r}"
            )
        check_sizes(self.min_nodes, self.max_nodes, self.sizes)
        check_covers(self.curve, self.min_nodes, self.max_nodes)
        check_not_negative(
            scale_up_s=self.scale_up_s, scale_down_s=self.scale_down_s, priority=self.priority
        )
        check_not_negative(start_s=self.start_s or 0.0, from_zero_s=self.from_zero_s or 0.0)
        if self.samples_total is not None and not (
            math.isfinite(self.samples_total) and self.samples_total > 0
        ):
            raise InvalidValueError(f"samples_total must be above 0, got {self.samples_total}")
        if self.requested_nodes is not None and not (
            self.requested_nodes and self.is_legal(self.requested_nodes)
        ):
            raise InvalidValueError(
                f"requested_nodes must be a legal size above 0, got {self.requested_nodes}"
            )

    @property
    def sizes_with_zero(self) -> tuple[int, ...] | None:
        """The listed sizes and 0 (waiting), as in
        :class:`~bftrainer.decide.domain.problem.TrainerDemand`; None without a list.
        """
        if self.sizes is None or self.sizes[0] == 0:
            return self.sizes
        return (0, *self.sizes)

    @property
    def growth_s(self) -> float:
        """The seconds from a decision until new nodes train: the start and the switch, or R_j^up if
        these are one.
        """
        return self.scale_up_s if self.start_s is None else self.start_s + self.scale_up_s

    def starts_s(self, nodes: int) -> float:
        """Return how long new nodes start before the switch to all nodes, for a trainer that has
        ``nodes`` nodes.

        It is S_j (``start_s``; 0 without). From 0 nodes it is what ``from_zero_s``, the time until
        the trainer trains, leaves for it.
        """
        if nodes or self.from_zero_s is None:
            return self.start_s or 0.0
        return max(self.from_zero_s - self.scale_up_s, 0.0)  # from_zero_s includes the switch

    def __hash__(self) -> int:
        """Hash the id only, for speed: a trainer is looked up at every event, and two trainers that
        differ nearly always have different ids.
        """
        return hash(self.id)

    def is_legal(self, n: int) -> bool:
        """Whether ``n`` nodes is a legal size (Eqn 3). 0, waiting, always is."""
        if n == 0:
            return True
        if self.sizes is None:
            return self.min_nodes <= n <= self.max_nodes
        return n in self.sizes


def check_sizes(min_nodes: int, max_nodes: int, sizes: tuple[int, ...] | None) -> None:
    """Check that 1 <= ``min_nodes`` <= ``max_nodes``, and that the listed ``sizes`` (None: no list)
    rise, each within these bounds or 0. Raises :class:`InvalidValueError`.
    """
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
            raise InvalidValueError(
                f"sizes must be 0 or within [{min_nodes}, {max_nodes}], got {n}"
            )


def check_covers(curve: Curve, min_nodes: int, max_nodes: int) -> None:
    """Check that the curve covers all legal sizes. Raises :class:`InvalidValueError`."""
    if curve.nodes[0] > min_nodes or curve.nodes[-1] < max_nodes:
        raise InvalidValueError(
            f"the curve covers {curve.nodes[0]} to {curve.nodes[-1]} nodes, "
            f"expected at least min_nodes {min_nodes} to max_nodes {max_nodes}"
        )


def check_not_negative(**values: float) -> None:
    """Check that the ``values`` are finite and not negative. Raises :class:`InvalidValueError`,
    which names the keyword of the first that is not.
    """
    for name, value in values.items():
        if not 0 <= value < math.inf:
            raise InvalidValueError(f"{name} must be finite and not negative, got {value}")


def rates(trainer: Trainer) -> tuple[float, ...]:
    """Return O_j(n) in samples per second for n = 0 .. max_nodes; 0 for sizes that are not legal,
    on which the trainer cannot run.
    """
    return _rates(trainer.curve, trainer.min_nodes, trainer.max_nodes, trainer.sizes)


@lru_cache(maxsize=8192)
def _rates(
    curve: Curve, min_nodes: int, max_nodes: int, sizes: tuple[int, ...] | None
) -> tuple[float, ...]:
    """Return the samples per second at 0 .. ``max_nodes`` nodes; 0 at sizes that are not legal."""
    legal_sizes = range(min_nodes, max_nodes + 1) if sizes is None else sizes
    rates_by_size = [0.0] * (max_nodes + 1)
    for n in legal_sizes:
        rates_by_size[n] = curve.at(n)
    return tuple(rates_by_size)
