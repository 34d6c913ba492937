"""From logs and workloads to the inputs of cells. Generated trainers are submitted when the log
begins and outlast it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol

from bftrainer.decide.domain.model import Curve
from bftrainer.decide.policies.requirements import check_needs
from bftrainer_replay.analysis.window_fragments import pool_sizes_of
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.simulation.replay_world import Arrival
from bftrainer_replay.sweep.cell import Cell, Inputs
from bftrainer_replay.sweep.compute import policy_of
from bftrainer_replay.workload.curves import (
    TABLE_2,
    best_rate_per_node,
    find_curve,
    read_curves,
)
from bftrainer_replay.workload.workload import (
    SAMPLES_TOTAL,
    hpo,
    read_workload,
    submissions,
    trainers_of_many_users,
)

WorkloadKind = Literal["hpo", "diverse"]
_SAFETY_FACTOR = 1.1
_MIN_TRAINERS, _MAX_TRAINERS = 50, 50_000


@dataclass(frozen=True, slots=True)
class WorkloadTable:
    """Trainers: a trainer table, or ``hpo`` or ``diverse``, all submitted at the start and enough
    to outlast the log.
    """

    trainers: Path | None = None
    curves: Path | None = None
    kind: WorkloadKind = "diverse"
    model: str | None = None


class MakeTrainers(Protocol):
    """Makes the trainers of a window.

    Generated trainers outlast the window with up to ``places`` of them at once. ``units`` is the
    number of units that a node of the window has, of those that the trainers' curves count: GPUs,
    if a trainer's size is a number of GPUs.
    """

    def __call__(
        self, window: LogWindow, seed: int, *, places: int = 0, units: int = 1
    ) -> tuple[Arrival, ...]: ...


@dataclass(frozen=True)
class SweepWorkload:
    """A named workload, made from a window and a seed. ``has_times``: its trainers come at times of
    the log.
    """

    name: str
    make: MakeTrainers
    has_times: bool = False


def workload_of(table: WorkloadTable) -> SweepWorkload:
    """Return the workload of a table: its trainers or, without one, a generator of trainers.

    The generator makes ``hpo`` or ``diverse`` trainers for a window.
    """
    curves = TABLE_2 if table.curves is None else read_curves(table.curves)
    if table.trainers is not None:
        workload = read_workload(table.trainers, curves, table.model)

        def trainers_of_table(
            window: LogWindow, seed: int, *, places: int = 0, units: int = 1
        ) -> tuple[Arrival, ...]:
            """Return the trainers of the table, whatever the window."""
            return workload.arrivals

        return SweepWorkload(table.trainers.name, trainers_of_table, has_times=True)
    model = table.model or "shufflenet"
    if table.kind == "hpo":
        curves = {model: find_curve(model, curves)}

    def generated_trainers(
        window: LogWindow, seed: int, *, places: int = 0, units: int = 1
    ) -> tuple[Arrival, ...]:
        """Return as many trainers as outlast the window, all submitted at its start."""
        times = submissions(window.start_s, outlasting_count(window, curves, places, units), 0.0)
        return (
            hpo(model, times, curves)
            if table.kind == "hpo"
            else trainers_of_many_users(times, seed, curves)
        )

    name = f"hpo-{model}" if table.kind == "hpo" else "diverse"
    return SweepWorkload(name, generated_trainers)


def outlasting_count(
    window: LogWindow, curves: Mapping[str, Curve], places: int = 0, units: int = 1
) -> int:
    """Return the number of generated trainers that outlast the log with ``places`` of them at once.

    They outlast it even at their most efficient size. The models come in turn. Trainers are
    admitted in order, so all but the last ``places`` that were admitted are finished: the time that
    those need comes on top, as if they were of the longest model. ``units``: see
    :class:`MakeTrainers`.
    """
    fewest_unit_s = [SAMPLES_TOTAL / best_rate_per_node(curve) for curve in curves.values()]
    mean_unit_s = sum(fewest_unit_s) / len(fewest_unit_s)
    largest = max(curve.nodes[-1] for curve in curves.values())
    usable_nodes = places * math.ceil(largest / units) if places else math.inf
    usable_s = _SAFETY_FACTOR * units * pool_sizes_of(window).node_s(usable_nodes)
    wanted_s = usable_s + places * max(fewest_unit_s)
    return min(math.ceil(wanted_s / mean_unit_s) + _MIN_TRAINERS, _MAX_TRAINERS)


def inputs_of(
    windows: Mapping[str, LogWindow], workloads: Sequence[SweepWorkload], cells: Sequence[Cell]
) -> Inputs:
    """Return the windows, and the trainers that the cells refer to.

    Raises an error for an unknown name, or for trainers of which a policy lacks what it needs to
    know.
    """
    by_name = {workload.name: workload for workload in workloads}
    # A replay does not use the queue, and a million jobs are too many to send to every process.
    bare = {name: replace(window, queue=None) for name, window in windows.items()}
    arrivals: dict[tuple[str, str, int], tuple[Arrival, ...]] = {}
    checked = set()
    places = max((cell.max_parallel for cell in cells), default=0)
    for cell in cells:
        key = (cell.log, cell.workload, cell.seed)
        if key not in arrivals:
            arrivals[key] = by_name[cell.workload].make(bare[cell.log], cell.seed, places=places)
        combination = (cell.workload, cell.policy, cell.objective)
        if combination not in checked:
            checked.add(combination)
            policy = policy_of(cell)
            for arrival in arrivals[key]:
                check_needs(policy, arrival.trainer)
    return Inputs(bare, arrivals)
