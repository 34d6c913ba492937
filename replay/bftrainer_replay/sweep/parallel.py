"""How many trainers at once (P_jmax) a replay admits unless it is told: enough to use the idle nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bftrainer.domain.model import Trainer
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.simulation.play import equivalent_nodes

USUAL = 10
"""The pilot's default. The paper replays 1,024 nodes of Summit with it."""
MOST = 100
"""A replay of more trainers at once takes long: the time of a decision grows with their number."""
_SPARE = 2.0  # about half of the idle node-time is on days with more nodes than on average
_TRIED = (5, 10, 20, 35)  # around the usual number; those of the paper's figures


def enough_trainers(window: LogWindow, trainers: Sequence[Trainer]) -> int:
    """Twice N_eq over the largest size of a trainer, from :data:`USUAL` to :data:`MOST`."""
    largest = max((trainer.max_nodes for trainer in trainers), default=1)
    return min(max(math.ceil(_SPARE * equivalent_nodes(window) / largest), USUAL), MOST)


def numbers_to_try(base: int) -> tuple[int, ...]:
    """Smaller and larger numbers of trainers, and ``base``: up to four times as many if that does not take long."""
    if base == USUAL:
        return _TRIED
    more = (base * 2, base * 4) if base * 4 <= MOST else (base * 2,)
    return tuple(sorted({max(base // 4, 1), max(base // 2, 1), base, *more}))
