"""The numbers of trainers at once (P_jmax) that a comparison tries."""

from __future__ import annotations

from bftrainer_replay.simulation.play import MOST, USUAL

_TRIED = (5, 10, 20, 35)  # around the usual number; those of the paper's figures


def numbers_to_try(base: int) -> tuple[int, ...]:
    """Smaller and larger numbers of trainers, and ``base``: up to four times as many if that does not take long."""
    if base == USUAL:
        return _TRIED
    more = (base * 2, base * 4) if base * 4 <= MOST else (base * 2,)
    return tuple(sorted({max(base // 4, 1), max(base // 2, 1), base, *more}))
