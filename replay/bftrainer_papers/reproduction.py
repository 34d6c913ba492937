"""The result of a reproduction: rows with the paper's value, ours, and a verdict by a tolerance."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

_WIDEST_TOLERANCE = 0.5
"""Of the effect: a wider tolerance says nothing of its size."""


class ResultVerdict(Enum):
    """How our value compares with the paper's. ``SHOWN``: the paper gives no value, or no tolerance
    was set, and ours is for information.
    """

    WITHIN = "within"
    DIRECTION = "direction only"
    FAILED = "FAILED"
    SHOWN = "shown"


@dataclass(frozen=True, slots=True)
class PaperResult:
    """A published value and ours: ``paper`` and ``ours`` in ``unit``, within if |ours - paper| <=
    ``tolerance`` (None: nothing is claimed).

    With ``signed``, the value is an effect, and ours must lie on the paper's side of ``neutral``,
    the value of no effect (0; 1 for a factor). A tolerance of more than half the effect confirms a
    direction only. Values without a direction (shares of jobs, numbers of nodes) are within or have
    failed. If the paper gives a direction and no value, ours must have the ``sign`` (+1 or -1).
    """

    what: str
    paper: float | None
    ours: float
    unit: str = "%"
    tolerance: float | None = None
    sign: int = 0
    signed: bool = True
    why: str = ""
    neutral: float = 0.0

    @property
    def verdict(self) -> ResultVerdict:
        """The verdict on ours, by the rules above; NaN fails."""
        if self.paper is None or self.tolerance is None:
            if not self.sign:
                return ResultVerdict.SHOWN
            return ResultVerdict.DIRECTION if self.ours * self.sign > 0 else ResultVerdict.FAILED
        near = abs(self.ours - self.paper) <= self.tolerance
        effect = self.paper - self.neutral
        if not self.signed or effect == 0:
            return ResultVerdict.WITHIN if near else ResultVerdict.FAILED
        if (self.ours - self.neutral) * effect > 0:
            # With a wider tolerance, a near value says nothing of the size of the effect.
            narrow = self.tolerance <= _WIDEST_TOLERANCE * abs(effect)
            return ResultVerdict.WITHIN if near and narrow else ResultVerdict.DIRECTION
        return ResultVerdict.FAILED


@dataclass(frozen=True, slots=True)
class Reproduction:
    """The rows of one paper; ``model`` lists what was generated (with its seeds) and assumed."""

    name: str
    source: str
    model: tuple[str, ...]
    rows: tuple[PaperResult, ...]


OnStep = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ReproductionOptions:
    """The extent of a run: ``seeds`` of generated workloads; with ``full``, every setting of the
    paper. ``arrivals``: a trace of job submissions, for AFS.
    """

    seeds: Sequence[int] = (1, 2, 3)
    full: bool = False
    on_step: OnStep | None = None
    arrivals: Path | None = None

    def step(self, text: str) -> None:
        """Report progress."""
        if self.on_step is not None:
            self.on_step(text)


def change(ours: float, base: float) -> float:
    """The change from ``base`` to ``ours`` in percent of ``base``; NaN if ``base`` is 0."""
    return 100.0 * (ours - base) / base if base else math.nan
