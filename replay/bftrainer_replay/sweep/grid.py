"""The grid of a sweep: a TOML file with logs, workloads and the values of each setting.

Every list multiplies the number of cells by its length. The keys of ``[grid]`` are the fields of
:class:`~bftrainer_replay.sweep.cell.Cell`.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

from pydantic import Field, NonNegativeInt, create_model, model_validator

from bftrainer.config.trainer_file import Count, NotNegative
from bftrainer.config.validation import ConfigTable, read_toml
from bftrainer.decide.allocation.objectives import usual_objective
from bftrainer.errors import InputFileError, InvalidValueError, UserError
from bftrainer.plugins import find_objective
from bftrainer_replay.logs.event_log import format_time, parse_time
from bftrainer_replay.logs.model import EventLog, LogWindow, restricted_log
from bftrainer_replay.logs.node_list import hashed_sample, read_node_list
from bftrainer_replay.logs.open import open_log
from bftrainer_replay.logs.partition import in_partition
from bftrainer_replay.logs.source import ImportOptions
from bftrainer_replay.simulation.progress import CostModel
from bftrainer_replay.simulation.replay_world import DecideOn
from bftrainer_replay.sweep.cell import Cell, CurveKnowledge, Inputs, Task, each_once, task
from bftrainer_replay.sweep.inputs import (
    SweepWorkload,
    WorkloadKind,
    WorkloadTable,
    inputs_of,
    workload_of,
)
from bftrainer_replay.sweep.sample import cost_s

MOST_CELLS = 1_000_000
_EXCLUDED_OPTIONS = ("more_files", "unit", "gpus_per_node", "part_cpus", "back_s")
"""Options of a log that a grid does not have: several files of one log, and logs in GPUs."""


class _LogKeys(ConfigTable):
    path: Path
    start: str | None = None
    hours: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    nodes: Count | None = None
    node_list: Path | None = None
    partition: str | None = None

    def importing(self, folder: Path) -> ImportOptions:
        """Return the options with which the log is read; paths are relative to ``folder``."""
        values = {name: getattr(self, name) for name in _import_names()}
        for name, value in values.items():
            if isinstance(value, Path):
                values[name] = folder / value
        return ImportOptions(**values)


def _import_names() -> tuple[str, ...]:
    """Return the names of the import options that are keys of a grid's log."""
    names = (option.name for option in dataclasses.fields(ImportOptions))
    return tuple(name for name in names if name not in _EXCLUDED_OPTIONS)


if TYPE_CHECKING:
    LogTable = _LogKeys
else:  # so that a new option of job logs is a key of every grid
    _TYPES = get_type_hints(ImportOptions)
    _DEFAULTS = {option.name: option.default for option in dataclasses.fields(ImportOptions)}
    LogTable = create_model(
        "LogTable",
        __base__=_LogKeys,
        __doc__="A log; the keys are those of the options with the same names.",
        **{name: (_TYPES[name], _DEFAULTS[name]) for name in _import_names()},
    )


class TrainersTable(ConfigTable):
    """A workload: a trainer table, or ``hpo`` or ``diverse`` trainers that outlast the log."""

    trainers: Path | None = None
    curves: Path | None = None
    kind: WorkloadKind = "diverse"
    model: str | None = None


Texts = Annotated[tuple[str, ...], Field(min_length=1)]


class GridTable(ConfigTable):
    """The values of each setting. Without ``objective``, the usual one of each ``max_parallel``;
    without ``forward_s``, what suits the objective.
    """

    policy: Texts = ("bftrainer",)
    objective: tuple[str, ...] = ()
    forward_s: tuple[NotNegative, ...] = ()
    max_parallel: Annotated[tuple[Count | Literal["auto"], ...], Field(min_length=1)] = ("auto",)
    cost_factor: Annotated[tuple[NotNegative, ...], Field(min_length=1)] = (1.0,)
    seed: Annotated[tuple[NonNegativeInt, ...], Field(min_length=1)] = (0,)
    cost_model: Annotated[tuple[CostModel, ...], Field(min_length=1)] = (CostModel.STALL,)
    decide_on: Annotated[tuple[DecideOn, ...], Field(min_length=1)] = (DecideOn.ALL,)
    split: Annotated[tuple[Annotated[int, Field(ge=1, le=1000)], ...], Field(min_length=1)] = (1,)
    checkpoint_s: Annotated[tuple[NotNegative, ...], Field(min_length=1)] = (0.0,)
    curves: Annotated[tuple[CurveKnowledge, ...], Field(min_length=1)] = ("known",)
    noise: Annotated[tuple[Annotated[float, Field(ge=0, lt=1)], ...], Field(min_length=1)] = (0.0,)


class GridFile(ConfigTable):
    """The file of ``bftrainer replay sweep``."""

    logs: Annotated[tuple[LogTable, ...], Field(min_length=1)]
    workloads: Annotated[tuple[TrainersTable, ...], Field(min_length=1)] = (TrainersTable(),)
    grid: GridTable = GridTable()

    @model_validator(mode="after")
    def _check(self) -> GridFile:
        lengths = [len(getattr(self.grid, name)) or 1 for name in type(self.grid).model_fields]
        cells = math.prod((len(self.logs), len(self.workloads), *lengths))
        if cells > MOST_CELLS:
            raise InvalidValueError(f"{cells:,} cells, expected at most {MOST_CELLS:,}")
        return self


@dataclass(frozen=True)
class GridSweep:
    """The cells of a grid in its order, and the logs and trainers that they name."""

    cells: tuple[Cell, ...]
    inputs: Inputs
    _costs_s: dict[tuple[object, ...], float] = field(default_factory=dict, compare=False)

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The computations of all cells, each once."""
        return each_once(task(cell, self.inputs) for cell in self.cells)

    def cost_s(self, planned: Task) -> float:
        """Return about how many seconds a task takes on one core, for the progress bar."""
        cell = planned.cell
        key = cell.log, cell.workload, cell.seed, cell.max_parallel
        if key not in self._costs_s:
            arrivals = self.inputs.arrivals_of(cell)
            trainers = [arrival.trainer for arrival in arrivals[:_SAMPLE_TRAINERS]]
            window = self.inputs.windows[cell.log]
            self._costs_s[key] = cost_s(window, trainers, cell.max_parallel or _ASSUMED_PLACES)
        return self._costs_s[key]


_SAMPLE_TRAINERS = 70  # trainers that stand for all: ten of each of the paper's models
_MAX_DIGITS = 40  # of both numbers of a shard: Python converts no text of thousands to a number
_ASSUMED_PLACES = 35  # trainers at once, where the objective decides how many


def read_sweep(path: Path) -> GridSweep:
    """Read a grid file, its logs and its trainers; paths in it are relative to the file.

    Raises ``UserError`` for a mistake in any of them.
    """
    file = read_toml(path, GridFile)
    folder = path.parent
    windows = windows_of(file.logs, folder)
    sources = _read_workloads(file.workloads, folder)
    cells = cells_of(file.grid, tuple(windows), tuple([source.name for source in sources]))
    return GridSweep(cells, inputs_of(windows, sources, cells))


def _read_workloads(tables: Sequence[TrainersTable], folder: Path) -> list[SweepWorkload]:
    """Return the workloads of a grid, each with a name of its own.

    Those with the same name become NAME, NAME#2 ..., since two files of one name, or other curves,
    make other trainers.
    """
    workloads: dict[str, SweepWorkload] = {}
    for table in tables:
        workload = workload_of(
            WorkloadTable(
                trainers=_resolved_path(folder, table.trainers),
                curves=_resolved_path(folder, table.curves),
                kind=table.kind,
                model=table.model,
            )
        )
        if workload.name in workloads:
            workload = replace(workload, name=f"{workload.name}#{len(workloads) + 1}")
        workloads[workload.name] = workload
    return list(workloads.values())


def cells_of(grid: GridTable, logs: Sequence[str], workloads: Sequence[str]) -> tuple[Cell, ...]:
    """Return a cell for every combination of logs, workloads and values; the last key varies
    fastest.
    """
    names = tuple(type(grid).model_fields)
    # An empty list stands for a default that depends on other settings.
    axes = [getattr(grid, name) or (None,) for name in names]
    return tuple(
        _combination_cell(log, workload, dict(zip(names, values, strict=True)))
        for log, workload, *values in itertools.product(logs, workloads, *axes)
    )


def _combination_cell(log: str, workload: str, values: dict[str, Any]) -> Cell:
    """Return the cell of one combination of ``values`` by setting.

    The default objective depends on P_jmax, and that of T_fwd on the objective.
    """
    places = None if values["max_parallel"] == "auto" else int(values["max_parallel"])
    objective = values["objective"] or usual_objective(places)
    forward_s = values["forward_s"]
    if forward_s is None:
        forward_s = find_objective(objective).forward_s
    settings = {"objective": objective, "forward_s": forward_s, "max_parallel": places or 0}
    return Cell(log, workload, **{**values, **settings})


def windows_of(tables: Sequence[LogTable], folder: Path) -> dict[str, LogWindow]:
    """Return the windows of a grid by name: each log is read, and its window cut out.

    The names are file names with partition; those that repeat get a number (``log.csv#2``).
    """
    windows: dict[str, LogWindow] = {}
    # Several tables may name one log, which is read once: the log, and the remarks on it.
    logs: dict[tuple[Path, ImportOptions], tuple[EventLog, tuple[str, ...]]] = {}
    for table in tables:
        key = folder / table.path, table.importing(folder)
        if key not in logs:
            opened = open_log(*key)
            # An event log has nothing to skip or guess.
            totals = () if opened.is_event_log else opened.totals
            logs[key] = opened.log, (*totals, *opened.remarks)
        name = table.path.name
        if table.partition is not None:
            name = f"{name}:{table.partition}"
        if name in windows:
            name = f"{name}#{len(windows) + 1}"
        log, remarks = logs[key]
        windows[name] = replace(_cut_window(table, log, folder), remarks=remarks)
    return windows


def _cut_window(table: LogTable, log: EventLog, folder: Path) -> LogWindow:
    """Return the window that the grid file describes of a log.

    Raises :class:`InputFileError` for a window that the log does not have.
    """
    where = str(table.path)
    if log.gpus is not None:
        raise InputFileError(where, "is in GPUs, expected a log in nodes")
    first_s, last_s = log.events[0].at_s, log.events[-1].at_s
    start_s = first_s if table.start is None else _parse_start(table.start, where)
    if not first_s <= start_s < last_s:
        covers = f"{format_time(first_s)} .. {format_time(last_s)}"
        raise InputFileError(
            where, f"start {table.start} is outside the log, which covers {covers}"
        )
    end_s = last_s if table.hours is None else min(start_s + 3600 * table.hours, last_s)
    nodes = _chosen_nodes(table, log, folder)
    if table.partition is not None and nodes is not None:
        raise InputFileError(where, "partition cannot be combined with nodes or node_list")
    window = restricted_log(
        log,
        start_s=start_s,
        end_s=end_s,
        nodes=nodes,
        # In a log that names its nodes, shares refer to these.
        machine_nodes=table.importing(folder).machine_nodes if log.site.nodes is None else None,
    )
    return window if table.partition is None else in_partition(window, table.partition)


def _parse_start(text: str, where: str) -> float:
    """Return the time that ``start`` gives, in seconds since 1970. Raises
    :class:`InputFileError`.
    """
    try:
        return parse_time(text)
    except ValueError as error:
        expected = "expected a time like 2026-01-31T18:00:00"
        raise InputFileError(where, f"start {text!r:.40} is not ISO 8601, {expected}") from error


def _chosen_nodes(table: LogTable, log: EventLog, folder: Path) -> tuple[str, ...] | None:
    """Return the names of the nodes that the grid file chooses from a log; None for all."""
    if table.node_list is None and table.nodes is None:
        return None
    names = log.nodes() if table.node_list is None else read_node_list(folder / table.node_list)
    count = len(names) if table.nodes is None else table.nodes
    if count > len(names):
        raise InputFileError(str(table.path), f"nodes = {count}: there are only {len(names)}")
    # The first names of a log would be no fair sample of it (:func:`hashed_sample`).
    return hashed_sample(names, count) if table.node_list is None else names[:count]


def _resolved_path(folder: Path, path: Path | None) -> Path | None:
    return None if path is None else folder / path


def shard_of(tasks: Sequence[Task], text: str) -> tuple[Task, ...]:
    """Return the tasks of the shard ``i/n``, i from 1 to n: every n-th from the i-th on.

    Tasks that are neighbors in the grid take about as long, so they go to different shards. Raises
    ``UserError`` for another text.
    """
    number, slash, count = text.partition("/")
    digits = f"{number}{count}"
    if not (slash and number and count and digits.isdecimal() and len(digits) <= _MAX_DIGITS):
        raise UserError(f"--shard {text:.40}: expected i/n, such as 3/64")
    if not 1 <= int(number) <= int(count):
        raise UserError(f"--shard {text:.40}: expected i from 1 to n, such as 64/64")
    return tuple(tasks[int(number) - 1 :: int(count)])
