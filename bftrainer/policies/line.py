"""The line of all unfinished trainers, and the weight of each in Eqn 16: how many wait for it.

Nobody is refused: which trainers of the queue train, and with how many nodes, is one optimization.

    m      unfinished trainers; M: the most since there was last none
    line   by submission plus remaining time on one node, the least first
    i_j    trainers at or behind j in the line: m for the first, 1 for the last
    w_j    (i_j + kappa M) / (m + kappa M)

The sum of completion times falls by one second for each trainer at or behind j when j is a second nearer to its end, so the
work of j is worth i_j (for concave curves that is close to heSRPT: Berg, Vesilo, Harchol-Balter 2020). ``kappa`` M is the
weight of the last completion in trainers: 0 minimizes the mean, more and more the last.

A trainer of unknown length stands by its submission; beyond a day of work on one node it moves back by what it trains.

No starvation: the first of the line whose smallest size fits the pool always trains. A trainer submitted later than a time T_j
is never before j, with T_j the submission of j plus its time on one node. So j waits at 0 nodes no longer than the trainers
submitted before T_j take, one after another on their smallest sizes, plus the time in which the pool is too small for them.

A waiting trainer is left out of the problem if trainers of its kind before it could fill the pool at their smallest sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bftrainer.allocation.objectives import rate_of_one
from bftrainer.domain.model import Trainer
from bftrainer.domain.sizes import sizes_of
from bftrainer.domain.state import Active

UNKNOWN_S = 86_400.0
_MOST = 16_384


@dataclass(frozen=True, slots=True)
class WaitingLine:
    """Indices of trainers, in line, and their weights; ``first`` is the one that must train (None: none fits the pool)."""

    members: tuple[int, ...]
    weights: tuple[float, ...]
    first: int | None


def line_of(active: Sequence[Active], queued: int, pool_size: int, kappa: float, peak: int) -> WaitingLine:
    """The trainers that can be chosen, in the order of ``active``; ``queued`` more are behind them all. ``peak`` is M."""
    _MEMO.trim()
    places = sorted([(_MEMO.place_s(a), j) for j, a in enumerate(active)])
    of_all, last = len(active) + queued, kappa * peak
    before: dict[int, int] = {}
    first: int | None = None
    chosen: list[tuple[int, float]] = []
    for i, (_, j) in enumerate(places):
        _, kind, smallest = _MEMO.kind(active[j].trainer)
        if first is None and smallest <= pool_size:
            first = j
        rank = before.get(kind, 0)
        before[kind] = rank + 1
        if active[j].nodes or (rank + 1) * smallest <= pool_size:
            chosen.append((j, (of_all - i + last) / (of_all + last)))
    chosen.sort()
    return WaitingLine(tuple([j for j, _ in chosen]), tuple([w for _, w in chosen]), first)


def place_s(active: Active) -> float:
    """The trainer's key in the line, in seconds."""
    trainer = active.trainer
    left = active.remaining_samples
    if left is None:
        return active.admitted_s + max(active.samples_done / rate_of_one(trainer) - UNKNOWN_S, 0.0)
    return active.admitted_s + left / rate_of_one(trainer)


class _Memo:
    """Every trainer's last key and kind: those that wait do not change. What it returns depends on its arguments only, from
    one :meth:`trim` to the next.
    """

    def __init__(self) -> None:
        self._places: dict[str, tuple[Active, float]] = {}
        self._kinds: dict[str, tuple[Trainer, int, int]] = {}
        self._numbers: dict[tuple[object, ...], int] = {}

    def trim(self) -> None:
        if max(len(self._places), len(self._kinds), len(self._numbers)) > _MOST:
            self._places, self._kinds, self._numbers = {}, {}, {}

    def place_s(self, active: Active) -> float:
        known = self._places.get(active.trainer.id)
        if known is not None and known[0] is active:
            return known[1]
        found = place_s(active)
        self._places[active.trainer.id] = active, found
        return found

    def kind(self, trainer: Trainer) -> tuple[Trainer, int, int]:
        """A number, the same for trainers that differ only in name and length; and the smallest size."""
        known = self._kinds.get(trainer.id)
        if known is not None and known[0] is trainer:
            return known
        t = trainer
        alike = (t.curve, t.min_nodes, t.max_nodes, t.scale_up_s, t.scale_down_s, t.sizes, t.start_s, t.from_zero_s)
        found = trainer, self._numbers.setdefault(alike, len(self._numbers)), sizes_of(trainer)[0]
        self._kinds[trainer.id] = found
        return found


_MEMO = _Memo()
