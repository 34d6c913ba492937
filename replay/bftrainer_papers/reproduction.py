"""What a reproduction says: rows of the paper's figure and ours, judged by a tolerance."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum


class ResultVerdict(Enum):
    """``SHOWN`` has no tolerance: the paper gives no figure, or ours is for the reader to see."""

    WITHIN = "within"
    DIRECTION = "direction only"
    FAILED = "FAILED"
    SHOWN = "shown"


@dataclass(frozen=True, slots=True)
class PaperResult:
    """``paper`` and ``ours`` in ``unit``; within if |ours - paper| <= ``tolerance`` (None: nothing is claimed).

    Where ``signed``, the sign is a direction, better or worse, and must be right for that too; figures without one (shares
    of jobs, numbers of nodes) are within or have failed.
    Where the paper gives a direction and no figure, ``sign`` (+1 or -1) is what is asked of ours.
    """

    what: str
    paper: float | None
    ours: float
    unit: str = "%"
    tolerance: float | None = None
    sign: int = 0
    signed: bool = True
    why: str = ""

    @property
    def verdict(self) -> ResultVerdict:
        """Judged by the rule above; NaN fails."""
        if self.paper is None or self.tolerance is None:
            if not self.sign:
                return ResultVerdict.SHOWN
            return ResultVerdict.DIRECTION if self.ours * self.sign > 0 else ResultVerdict.FAILED
        near = abs(self.ours - self.paper) <= self.tolerance
        if not self.signed or self.paper == 0:
            return ResultVerdict.WITHIN if near else ResultVerdict.FAILED
        if self.ours * self.paper > 0:
            return ResultVerdict.WITHIN if near else ResultVerdict.DIRECTION
        return ResultVerdict.FAILED


@dataclass(frozen=True, slots=True)
class Reproduction:
    """``model`` says what was generated and assumed, seeds among it."""

    name: str
    source: str
    model: tuple[str, ...]
    rows: tuple[PaperResult, ...]


OnStep = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ReproductionOptions:
    """How much to run: ``seeds`` of generated workloads; ``full`` runs every setting of the paper."""

    seeds: Sequence[int] = (1, 2, 3)
    full: bool = False
    on_step: OnStep | None = None

    def step(self, text: str) -> None:
        """Tell whoever watches."""
        if self.on_step is not None:
            self.on_step(text)


def change(ours: float, base: float) -> float:
    """In percent of ``base``."""
    return 100.0 * (ours - base) / base if base else math.nan
