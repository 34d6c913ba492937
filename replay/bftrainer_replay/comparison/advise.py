"""Recommended settings for a log: replay a few values of each, and take the smallest that is as
good as the best.

Outcomes are compared in samples if all trainers are of one model, and otherwise in one-node hours,
which favor no model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bftrainer.decide.allocation.objectives import DEFAULT_OBJECTIVE
from bftrainer_replay.analysis.window_fragments import fragments_of
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.simulation.play import MOST, USUAL
from bftrainer_replay.simulation.replay_world import Arrival
from bftrainer_replay.sweep.cell import Cell
from bftrainer_replay.sweep.results import SweepRow

FORWARD_S = (30.0, 60.0, 120.0, 240.0, 480.0)
OBJECTIVES = (DEFAULT_OBJECTIVE, "throughput", "scaling-efficiency")
_AS_GOOD = {"forward_s": 0.005, "max_parallel": 0.02, "objective": 0.005}
_HOUR_S, _DAY_S = 3600.0, 86400.0
_TRIED = (5, 10, 20, 35)  # around the usual number of trainers; those of the paper's figures


@dataclass(frozen=True, slots=True)
class SettingChoice:
    """One setting: the recommended value, and the loss of every value against the best (a share of
    the outcome).
    """

    name: str
    value: float | int | str
    losses: tuple[tuple[float | int | str, float], ...]

    @property
    def others(self) -> str:
        """The losses of the other values in words, and whether a better one may lie beyond them."""
        phrases = []
        for value, loss in self.losses:
            if value != self.value:
                word = value if isinstance(value, str) else f"{value:g}"
                phrases.append(f"{word} loses {loss:.1%}")
        return ", ".join(phrases) + self.beyond

    @property
    def beyond(self) -> str:
        """A remark that the best value is the largest or the smallest that was tried, if the next
        one is worse; else empty.
        """
        numbers = [(value, loss) for value, loss in self.losses if not isinstance(value, str)]
        if len(numbers) < 2:
            return ""
        best = min(numbers, key=lambda point: point[1])[0]
        edges = {
            numbers[-1][0]: ("largest", numbers[-2][1]),
            numbers[0][0]: ("smallest", numbers[1][1]),
        }
        edge, next_loss = edges.get(best, ("", 0.0))
        if next_loss <= _AS_GOOD[self.name]:
            return ""
        return f"; {best:g} is the {edge} value tried: the best may lie beyond"


@dataclass(frozen=True, slots=True)
class Advice:
    """The choices, the shortest window worth using (``min_window_s``), and the holders' time limit
    (``longest_s``).

    ``cohort`` is the policy of that name with constants fitted to the log; None if too few nodes
    leave.
    """

    measure: str
    choices: tuple[SettingChoice, ...]
    min_window_s: float
    longest_s: float
    cohort: str | None = None

    def choice(self, name: str) -> SettingChoice:
        """The choice for the setting ``name``."""
        return next(choice for choice in self.choices if choice.name == name)


def numbers_to_try(base: int) -> tuple[int, ...]:
    """Return numbers of trainers around ``base`` to replay: a quarter and half of it, twice it, and
    four times it if that does not take long.
    """
    if base == USUAL:
        return _TRIED
    more = (base * 2, base * 4) if base * 4 <= MOST else (base * 2,)
    return tuple(sorted({max(base // 4, 1), max(base // 2, 1), base, *more}))


def cells_to_try(base: Cell, rescale_s: float = -1.0) -> tuple[Cell, ...]:
    """Return the base, and the base with one setting changed at a time; every T_fwd is longer than
    ``rescale_s``.
    """
    beyond = [forward_s for forward_s in FORWARD_S if forward_s > rescale_s]
    if not beyond:
        beyond = [2 * rescale_s, 4 * rescale_s, 8 * rescale_s]
    if base.forward_s <= rescale_s:
        base = replace(base, forward_s=beyond[0])
    varied = (
        *(replace(base, forward_s=s) for s in beyond),
        *(replace(base, max_parallel=p) for p in numbers_to_try(base.max_parallel)),
        *(replace(base, objective=o) for o in OBJECTIVES),
    )
    return tuple(dict.fromkeys((base, *varied)))


def recommend(
    base: Cell, rows: Mapping[Cell, SweepRow], arrivals: Sequence[Arrival], window: LogWindow
) -> Advice:
    """Choose the settings from the replays of :func:`cells_to_try`; ``window`` is the whole log."""
    alike = len({arrival.trainer.curve for arrival in arrivals}) == 1
    measure = "outcome_samples" if alike else "outcome_one_node_h"
    choices = tuple(
        _choose(name, base, rows, measure) for name in ("objective", "forward_s", "max_parallel")
    )
    slowest_s = max(arrival.trainer.growth_s + arrival.trainer.scale_down_s for arrival in arrivals)
    return Advice(measure, choices, float(math.ceil(slowest_s)), holder_limit_s(window))


def holder_limit_s(window: LogWindow) -> float:
    """Return a time limit for holder jobs: the whole hours that cover 99 of 100 fragments, from 1
    to 24. A holder that reaches its limit is only renewed.
    """
    length_s = fragments_of(window).length_s
    if not len(length_s):
        return _DAY_S
    covering_s = math.ceil(float(np.percentile(length_s, 99)) / _HOUR_S) * _HOUR_S
    return min(max(covering_s, _HOUR_S), _DAY_S)


# The lines of slurm.conf cannot be wrapped.
# ruff: noqa: E501
_SLURM_CONF = """\
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
PartitionName=YOURS     Nodes=ALL PriorityTier=10 PreemptMode=OFF    Default=YES
PartitionName=scavenger Nodes=ALL PriorityTier=1  PreemptMode=CANCEL GraceTime=30 OverSubscribe=EXCLUSIVE MaxTime=1-00:00:00
Epilog=/bin/true
SlurmctldParameters=preempt_send_user_signal
KillWait=5
SchedulerParameters=bf_interval=10,bf_continue,preempt_youngest_first"""
"""docs/site-setup.md, "Preemption by partition"; a test compares them."""


def config_lines(advice: Advice, origin: str, *, lsf: bool = False) -> str:
    """Write the advice as a pilot's configuration, with the losses of other values as comments;
    ``origin`` says of what log it is.
    """
    objective, forward, parallel = (
        advice.choice(name) for name in ("objective", "forward_s", "max_parallel")
    )
    cohort = ""
    if advice.cohort is not None:
        cohort = f'# if rescales cost a minute and more:\n# policy = "{advice.cohort}"\n'
    site = _lsf_table(advice.longest_s) if lsf else _slurm_table(advice.longest_s)
    return (
        f"# {origin}\n\n[decisions]\n"
        "# By default every trainer is admitted, and the objective is fair (docs/policies.md).\n"
        "# For a fixed number of trainers at once instead, remove the marks of these lines:\n"
        f'# {objective.others}\n#objective = "{objective.value}"\n'
        f"# {forward.others}\n#forward_s = {float(forward.value)!r}\n"
        f"# {parallel.others}\n#max_parallel = {parallel.value}\n{cohort}\n"
        f'[nodes]\nholder = "{"lsf" if lsf else "slurm"}"\nmin_window_s = '
        f"{advice.min_window_s!r}\n\n{site}"
    )


def _lsf_table(longest_s: float) -> str:
    """Write the part of the configuration for LSF."""
    return (
        '[lsf]\n# the queue of docs/lsf.md, "Queue configuration"\nqueue = "idle"\n'
        f"longest_s = {longest_s!r}\n"
    )


def _slurm_table(longest_s: float) -> str:
    """Write the part of the configuration for Slurm, with the lines of slurm.conf that it needs."""
    conf = "".join(f"#   {line}\n" for line in _SLURM_CONF.splitlines())
    return (
        "[slurm]\n"
        "# With preemption by QOS instead: qos and account, and no partition "
        "(docs/site-setup.md).\n"
        f'partition = "scavenger"\nlongest_s = {longest_s!r}\n\n'
        f"# In slurm.conf (docs/site-setup.md):\n{conf}"
    )


def _choose(name: str, base: Cell, rows: Mapping[Cell, SweepRow], measure: str) -> SettingChoice:
    """Choose the value of one setting: the first, in ascending order, that is as good as
    the best.
    """
    outcomes: Sequence[tuple[float | int | str, float]] = [
        (getattr(cell, name), float(row.result[measure]))
        for cell, row in rows.items()
        if _only_differs(cell, base, name)
    ]
    if name != "objective":
        outcomes = sorted(outcomes, key=lambda point: float(point[0]))
    largest = max(outcome for _, outcome in outcomes)
    losses = []
    for value, outcome in outcomes:
        losses.append((value, 1 - outcome / largest if largest else 0.0))
    best = next(value for value, loss in losses if loss <= _AS_GOOD[name])
    return SettingChoice(name, best, tuple(losses))


def _only_differs(cell: Cell, base: Cell, name: str) -> bool:
    """Whether no other setting than this one differs from the base."""
    others = {"forward_s", "max_parallel", "objective"} - {name}
    return all(getattr(cell, other) == getattr(base, other) for other in others)
