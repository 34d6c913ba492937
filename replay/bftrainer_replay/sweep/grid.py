"""The grid of a sweep: every combination of values, from options or from a TOML file."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

from pydantic import Field, NonNegativeInt, create_model

from bftrainer.allocation.objectives import usual_objective
from bftrainer.config.trainer_file import Count, NotNegative
from bftrainer.config.validation import ConfigTable
from bftrainer.plugins import find_objective
from bftrainer_replay.logs.source import ImportOptions
from bftrainer_replay.simulation.curve_error import CurveMode
from bftrainer_replay.simulation.progress import CostModel
from bftrainer_replay.simulation.world import DecideOn
from bftrainer_replay.sweep.cell import Cell

WorkloadKind = Literal["hpo", "diverse"]


class _LogKeys(ConfigTable):
    path: Path
    start: str | None = None
    hours: float | None = None
    nodes: int | None = None
    node_list: Path | None = None

    def importing(self, folder: Path) -> ImportOptions:
        """How the log is read; paths are relative to ``folder``."""
        values: dict[str, Any] = {f.name: getattr(self, f.name) for f in dataclasses.fields(ImportOptions)}
        values |= {name: folder / value for name, value in values.items() if isinstance(value, Path)}
        return ImportOptions(**values)


if TYPE_CHECKING:
    LogTable = _LogKeys
else:  # so that a new option of job logs is a key of every sweep
    _TYPES = get_type_hints(ImportOptions)
    LogTable = create_model(
        "LogTable",
        __base__=_LogKeys,
        __doc__="A log; the keys are those of the options with the same names.",
        **{f.name: (_TYPES[f.name], f.default) for f in dataclasses.fields(ImportOptions)},
    )


class WorkloadTable(ConfigTable):
    """Trainers: a trainer table, or ``hpo`` or ``diverse``, all submitted at the start and enough to outlast the log."""

    trainers: Path | None = None
    curves: Path | None = None
    kind: WorkloadKind = "diverse"
    model: str | None = None
    count: Count | None = None
    spacing_s: NotNegative = 0.0


class GridTable(ConfigTable):
    """The values; each list multiplies the number of cells by its length.

    No ``objectives``: the usual one of each ``max_parallel``; no ``forward_s``: what suits the objective.
    """

    policies: tuple[str, ...] = Field(default=("bftrainer",), min_length=1)
    objectives: tuple[str, ...] = ()
    forward_s: tuple[NotNegative, ...] = ()
    max_parallel: tuple[Count | Literal["auto"], ...] = Field(default=("auto",), min_length=1)
    cost_factors: tuple[NotNegative, ...] = Field(default=(1.0,), min_length=1)
    seeds: tuple[NonNegativeInt, ...] = Field(default=(0,), min_length=1)
    splits: tuple[Count, ...] = Field(default=(1,), min_length=1)
    knows: tuple[CurveMode, ...] = Field(default=("known",), min_length=1)
    checkpoint_s: tuple[Annotated[float, Field(gt=0)] | Literal["notice"], ...] = Field(
        default=("notice",), min_length=1
    )
    noise: Annotated[float, Field(ge=0, lt=1)] = 0.0
    lessons: Literal["model", "trainer"] = "model"
    solver: str = "exact"
    cost_model: CostModel = CostModel.STALL
    decide_on: DecideOn = DecideOn.ALL


class SweepFile(ConfigTable):
    """The file of ``replay sweep --grid``."""

    logs: tuple[LogTable, ...] = ()
    workloads: tuple[WorkloadTable, ...] = ()
    grid: GridTable = GridTable()


def cells_of(grid: GridTable, logs: tuple[str, ...], workloads: tuple[str, ...]) -> tuple[Cell, ...]:
    """Every combination; the last list varies fastest."""
    axes = (
        logs, workloads, grid.policies, grid.objectives or (None,), grid.forward_s or (None,), grid.max_parallel,
        grid.cost_factors, grid.seeds, grid.splits, grid.knows, grid.checkpoint_s,
    )  # fmt: skip
    return tuple(_cell(grid, values) for values in itertools.product(*axes))


def _cell(grid: GridTable, values: tuple[Any, ...]) -> Cell:
    """One combination of the grid's values."""
    log, workload, policy, objective, forward_s, max_parallel, cost_factor, seed, split, knows, checkpoint_s = values
    places = None if max_parallel == "auto" else int(max_parallel)
    named = objective or usual_objective(places)
    return Cell(
        log, workload, policy, named, find_objective(named).forward_s if forward_s is None else forward_s, places or 0,
        cost_factor, seed, split, grid.solver, grid.cost_model, grid.decide_on, knows=knows, noise=grid.noise,
        lessons=grid.lessons, checkpoint_s=None if checkpoint_s == "notice" else checkpoint_s,
    )  # fmt: skip
