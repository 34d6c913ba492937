"""The grid of a sweep: every combination of the values given, from options or from a TOML file."""

from __future__ import annotations

import itertools
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import Field

from bftrainer.config.trainer_file import Count, NotNegative
from bftrainer.config.validation import ConfigTable
from bftrainer.errors import UnknownNameError, UserError
from bftrainer_replay.simulation.curve_error import WAYS
from bftrainer_replay.simulation.progress import CostModel
from bftrainer_replay.simulation.world import DecideOn
from bftrainer_replay.sweep.cell import Cell


class LogTable(ConfigTable):
    """One log, by the options of the same names."""

    path: Path
    start: str | None = None
    hours: float | None = None
    nodes: int | None = None
    node_list: Path | None = None
    machine_nodes: int | None = None
    timezone: str | None = None


class WorkloadTable(ConfigTable):
    """Trainers: a table of them, or hpo or diverse, all waiting at the start and enough to outlast the log."""

    trainers: Path | None = None
    curves: Path | None = None
    kind: str = "diverse"
    model: str | None = None
    count: int | None = None
    spacing_s: NotNegative = 0.0


class GridTable(ConfigTable):
    """The values; each list multiplies the number of cells."""

    policies: tuple[str, ...] = Field(default=("bftrainer",), min_length=1)
    objectives: tuple[str, ...] = Field(default=("throughput",), min_length=1)
    forward_s: tuple[NotNegative, ...] = Field(default=(120.0,), min_length=1)
    max_parallel: tuple[Count, ...] = Field(default=(10,), min_length=1)
    cost_factors: tuple[NotNegative, ...] = Field(default=(1.0,), min_length=1)
    seeds: tuple[int, ...] = Field(default=(0,), min_length=1)
    splits: tuple[Count, ...] = Field(default=(1,), min_length=1)
    knows: tuple[str, ...] = Field(default=("known",), min_length=1)
    noise: Annotated[float, Field(ge=0, lt=1)] = 0.0
    lessons: Literal["model", "trainer"] = "model"
    solver: str = "exact"
    cost_model: str = "stall"
    decide_on: str = "all"


class SweepFile(ConfigTable):
    """The file of ``replay sweep --grid``."""

    logs: tuple[LogTable, ...] = ()
    workloads: tuple[WorkloadTable, ...] = ()
    grid: GridTable = GridTable()


_Choice = TypeVar("_Choice", bound=Enum)


def member(kind: str, name: str, choices: type[_Choice]) -> _Choice:
    """A member of an enum by its value; :class:`UnknownNameError` lists them."""
    try:
        return choices(name)
    except ValueError as error:
        raise UnknownNameError(kind, name, [choice.value for choice in choices]) from error


def cells_of(grid: GridTable, logs: tuple[str, ...], workloads: tuple[str, ...]) -> tuple[Cell, ...]:
    """Every combination, the last list fastest."""
    if any(seed < 0 for seed in grid.seeds):
        raise UserError(f"seeds {min(grid.seeds)}: expected 0 or more")
    for way in grid.knows:
        if way not in WAYS:
            raise UnknownNameError("knows", way, WAYS)
    costs = member("cost model", grid.cost_model, CostModel)
    trigger = member("--decide-on", grid.decide_on, DecideOn)
    axes = (
        logs, workloads, grid.policies, grid.objectives, grid.forward_s, grid.max_parallel, grid.cost_factors, grid.seeds,
        grid.splits,
    )  # fmt: skip
    cells = (Cell(*values, grid.solver, costs, trigger) for values in itertools.product(*axes))
    return tuple(
        replace(cell, knows=way, noise=grid.noise, lessons=grid.lessons) for cell in cells for way in grid.knows
    )
