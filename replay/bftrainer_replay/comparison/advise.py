"""Recommended settings for a log: replay a few values of each, and take the smallest that is as
good as the best.

Outcomes are compared in samples if all trainers are of one model, and otherwise in one-node hours,
which favor no model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bftrainer.decide.allocation.objectives import DEFAULT_OBJECTIVE
from bftrainer_replay.analysis.window_fragments import fragments_of
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.simulation.play import MOST, USUAL
from bftrainer_replay.simulation.replay_world import Arrival
from bftrainer_replay.sweep.cell import Cell
from bftrainer_replay.sweep.results import SweepRow

FORWARD_S = (30.0, 60.0, 120.0, 240.0, 480.0)
OBJECTIVES = (DEFAULT_OBJECTIVE, "throughput", "scaling-efficiency")
_TOLERANCE = {"forward_s": 0.005, "max_parallel": 0.02, "objective": 0.005}
"""Losses up to these count as none."""
_HOUR_S, _DAY_S = 3600.0, 86400.0
_USUAL_NUMBERS = (5, 10, 20, 35)
"""Numbers of trainers around the usual one, as in the paper's figures."""


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
        """The losses of the other values in words, with the remark of :attr:`beyond`."""
        phrases = []
        for value, loss in self.losses:
            if value != self.value:
                text = value if isinstance(value, str) else f"{value:g}"
                phrases.append(f"{text} loses {loss:.1%}")
        return ", ".join(phrases) + self.beyond

    @property
    def beyond(self) -> str:
        """A remark that the best value is the largest or the smallest that was tried; empty if it is
        not, or if its neighbor is as good.
        """
        numbers = [(value, loss) for value, loss in self.losses if not isinstance(value, str)]
        # An objective has no order in which something could lie beyond.
        if len(numbers) < 2:
            return ""
        best = min(numbers, key=lambda point: point[1])[0]
        # The name of each edge, and the loss of the value next to it.
        edges = {
            numbers[-1][0]: ("largest", numbers[-2][1]),
            numbers[0][0]: ("smallest", numbers[1][1]),
        }
        if best not in edges:
            return ""
        edge_name, neighbor_loss = edges[best]
        if neighbor_loss <= _TOLERANCE[self.name]:
            return ""
        return f"; {best:g} is the {edge_name} value tried: the best may lie beyond"


@dataclass(frozen=True, slots=True)
class Advice:
    """The choices of settings, the shortest window worth using (``min_window_s``), and the time
    limit of holder jobs (``longest_s``).

    ``measure`` is the outcome that the choices compare, a column of a sweep. ``cohort`` is the
    policy of that name with constants fitted to the log; None if too few nodes leave.
    """

    measure: str
    choices: tuple[SettingChoice, ...]
    min_window_s: float
    longest_s: float
    cohort: str | None = None

    def choice(self, name: str) -> SettingChoice:
        """Return the choice for the setting ``name``."""
        return next(choice for choice in self.choices if choice.name == name)


def numbers_to_try(base: int) -> tuple[int, ...]:
    """Return the numbers of trainers (P_jmax) to replay around ``base``, in ascending order.

    A quarter and half of it, twice it, and four times it up to the limit ``MOST``; for the usual
    number, those of the paper's figures.
    """
    if base == USUAL:
        return _USUAL_NUMBERS
    larger = (base * 2, base * 4) if base * 4 <= MOST else (base * 2,)
    return tuple(sorted({max(base // 4, 1), max(base // 2, 1), base, *larger}))


def cells_to_try(base: Cell, rescale_s: float = -1.0) -> tuple[Cell, ...]:
    """Return the replays to compare: the base, and the base with one setting changed at a time.

    Every T_fwd (the time that a decision looks ahead), also that of the base, is longer than
    ``rescale_s``, the time of a rescale: with a shorter one, growth never pays.
    """
    long_enough = [forward_s for forward_s in FORWARD_S if forward_s > rescale_s]
    if not long_enough:
        long_enough = [2 * rescale_s, 4 * rescale_s, 8 * rescale_s]
    if base.forward_s <= rescale_s:
        base = replace(base, forward_s=long_enough[0])
    numbers = numbers_to_try(base.max_parallel)
    variants = (
        *(replace(base, forward_s=forward_s) for forward_s in long_enough),
        *(replace(base, max_parallel=number) for number in numbers),
        *(replace(base, objective=objective) for objective in OBJECTIVES),
    )
    return tuple(dict.fromkeys((base, *variants)))


def recommend(
    base: Cell, rows: Mapping[Cell, SweepRow], arrivals: Sequence[Arrival], window: LogWindow
) -> Advice:
    """Return the recommended settings, chosen from the replays of :func:`cells_to_try`.

    ``base`` is the cell from which the others differ, ``rows`` are the results of all, and
    ``window`` is the whole log. The shortest window worth using is what the slowest trainer needs
    to grow and shrink.
    """
    # Samples of different models are not comparable.
    are_alike = len({arrival.trainer.curve for arrival in arrivals}) == 1
    measure = "outcome_samples" if are_alike else "outcome_one_node_h"
    choices = tuple(
        _chosen_value(name, base, rows, measure)
        for name in ("objective", "forward_s", "max_parallel")
    )
    slowest_s = max(arrival.trainer.growth_s + arrival.trainer.scale_down_s for arrival in arrivals)
    return Advice(
        measure=measure,
        choices=choices,
        min_window_s=float(math.ceil(slowest_s)),
        longest_s=holder_limit_s(window),
    )


def holder_limit_s(window: LogWindow) -> float:
    """Return a time limit for holder jobs (which keep nodes for the pilot): whole hours, 1 to 24.

    It covers 99 of 100 fragments, the periods in which a node is idle. A holder that reaches its
    limit is only renewed.
    """
    fragments = fragments_of(window)
    if not fragments.count:
        return _DAY_S
    covering_s = math.ceil(fragments.quantiles_s(0.99)[0] / _HOUR_S) * _HOUR_S
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
    """Return the advice as the text of a pilot's configuration, with other values as comments.

    ``origin`` names the log on which the advice is based. ``lsf``: for LSF, not Slurm.
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
    """Return the part of the configuration for Slurm, with the lines of slurm.conf that it needs.

    ``longest_s`` is the time limit of the pilot's holder jobs.
    """
    conf = "".join(f"#   {line}\n" for line in _SLURM_CONF.splitlines())
    return (
        "[slurm]\n"
        "# With preemption by QOS instead: qos and account, and no partition "
        "(docs/site-setup.md).\n"
        f'partition = "scavenger"\nlongest_s = {longest_s!r}\n\n'
        f"# In slurm.conf (docs/site-setup.md):\n{conf}"
    )


def _chosen_value(
    name: str, base: Cell, rows: Mapping[Cell, SweepRow], measure: str
) -> SettingChoice:
    """Return the recommended value of one setting, and what the others lose against the best.

    Of the cells that differ from ``base`` in this setting only, it is the first, in ascending
    order, that is as good as the best up to a tolerance (objectives are in the order of
    :data:`OBJECTIVES`). ``measure`` is the outcome to compare.
    """
    outcomes: Sequence[tuple[float | int | str, float]] = [
        (getattr(cell, name), float(row.result[measure]))
        for cell, row in rows.items()
        if _only_differs(cell, base, name)
    ]
    if name != "objective":
        outcomes = sorted(outcomes, key=lambda point: float(point[0]))
    best_outcome = max(outcome for _, outcome in outcomes)
    losses = []
    for value, outcome in outcomes:
        losses.append((value, 1 - outcome / best_outcome if best_outcome else 0.0))
    recommended = next(value for value, loss in losses if loss <= _TOLERANCE[name])
    return SettingChoice(name, recommended, tuple(losses))


def _only_differs(cell: Cell, base: Cell, name: str) -> bool:
    """Return whether no setting of the cell except ``name`` differs from the base."""
    others = {"forward_s", "max_parallel", "objective"} - {name}
    return all(getattr(cell, other) == getattr(base, other) for other in others)
