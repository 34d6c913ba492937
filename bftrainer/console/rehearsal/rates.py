"""Whether the learning rate is that of the size, and not one that a checkpoint of another size
brought back. Pure.
"""

from __future__ import annotations

import itertools

from bftrainer.console.rehearsal.finding import RehearsalCheck, RehearsalFinding
from bftrainer.console.rehearsal.record import Record
from bftrainer.scaling import Scaling
from bftrainer.wires.rank_line import RankLine

_CHECK = RehearsalCheck("rate", "the learning rate is that of the size")
_REMEDY = (
    "set the rate after optimizer.load_state_dict, or before each step: "
    "rate.apply(optimizer, batch, step)"
)


def judge(record: Record, scaling: Scaling) -> RehearsalFinding:
    """Check the learning rates of rank 0; :mod:`~bftrainer.console.rehearsal.ranks` compares the
    other ranks with it.
    """
    lines = [line for line in record.ranks if line.rank == 0 and line.rate is not None]
    if not lines:
        return _CHECK.undecided(
            "no learning rate is reported", "report.watch(model, optimizer, rate=rate)"
        )
    problem = _restored_rate_problem(record, lines) or _construction_problem(lines)
    if problem is not None:
        return _CHECK.failed(problem, _REMEDY)
    last_rates = {line.world_size: line.rate for line in lines}
    if len(last_rates) < 2:
        return _CHECK.undecided("it ran at one size only")
    text = ", ".join(
        f"{rate:.4g} with {size} worker{'s' * (size != 1)}"
        for size, rate in sorted(last_rates.items())
    )
    if scaling is Scaling.WEAK and len({line.rate for line in lines}) == 1:
        return _CHECK.undecided(
            f"{text}: the rate does not follow the global batch, which grows with the size",
            'intended? Else use progress.LearningRate, or scaling = "strong" with a global '
            "batch that stays",
        )
    return _CHECK.passed(f"last values: {text}")


def _restored_rate_problem(record: Record, lines: list[RankLine]) -> str | None:
    """Name the first change of size after which the rate is still that of the old size; None if
    there is none.

    ``progress.LearningRate`` has given another rate (``wanted``), but loading the optimizer's state
    brought the old one back.
    """
    for old, new in itertools.pairwise(lines):
        is_restart = old.incarnation != new.incarnation and old.world_size != new.world_size
        if not is_restart or new.wanted is None:
            continue
        if new.rate == old.rate and new.wanted != new.rate:
            act = record.act_at(new.at_s)
            return (
                f"after {act}: the optimizer's rate is still {new.rate:.4g}, that of "
                f"{old.world_size} worker"
                f"{'s' * (old.world_size != 1)}, instead of {new.wanted:.4g}: "
                "optimizer.load_state_dict has brought it back"
            )
    return None


def _construction_problem(lines: list[RankLine]) -> str | None:
    """Name a size at which the optimizer is constructed with a rate of this size, but trains with
    that of another one; None if there is none.

    So it is if the rates at construction differ between sizes, and training has one rate for all.
    """
    constructed = {line.world_size: line.made_with for line in lines}
    used = {line.world_size: line.rate for line in lines}
    rates = {line.rate for line in lines}
    if None in constructed.values() or len(set(constructed.values())) < 2 or len(rates) > 1:
        return None
    # The largest size at which both rates differ is the clearest example.
    size = max(constructed, key=lambda size: (constructed[size] != used[size], size))
    return (
        f"with {size} workers the optimizer is constructed with the rate "
        f"{constructed[size]:.4g}, and trains with {used[size]:.4g} as "
        "at every other size: optimizer.load_state_dict has brought back the rate of another size"
    )
