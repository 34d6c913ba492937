"""The input of ``bftrainer solve``: JSON text -> a Problem; every error names its key."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainValidator, field_validator, model_validator

from bftrainer.allocation.objectives import DEFAULT_OBJECTIVE
from bftrainer.config.trainer_file import Rate
from bftrainer.config.validation import ConfigTable, check_table
from bftrainer.domain.model import Curve, Trainer
from bftrainer.domain.problem import Problem, TrainerDemand
from bftrainer.domain.state import Nodes
from bftrainer.errors import InputFileError, InvalidValueError, UserError
from bftrainer.plugins import find_objective


def _whole(value: Any) -> Any:
    """JSON has one kind of number: 8.0 is a count as well."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _pool(value: Any) -> int | tuple[str, ...]:
    value = _whole(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_NODES:
        return value
    if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
        raise InvalidValueError(
            f"expected a number of nodes up to {MOST_NODES:,} or a list of node names, got {value!r:.60}"
        )
    if twice := [name for name, count in Counter(value).items() if count > 1]:
        raise InvalidValueError(f"node {twice[0]!r:.100} is listed twice")
    return tuple(value)


MOST_NODES = 1_000_000
_MOST_TRAINERS = 10_000
_Count = Annotated[int, BeforeValidator(_whole), Field(ge=0, le=MOST_NODES)]
_Number = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
_NodesOrCount = Annotated[int | tuple[str, ...], PlainValidator(_pool)]


class _CurveTable(ConfigTable):
    nodes: tuple[_Count, ...]
    samples_per_s: tuple[Rate, ...]


class _TrainerTable(ConfigTable):
    id: str
    curve: _CurveTable
    min_nodes: _Count
    max_nodes: _Count
    scale_up_s: _Number
    scale_down_s: _Number
    nodes: _NodesOrCount = 0
    priority: _Number = 1.0
    remaining_samples: Annotated[float, Field(ge=0, le=1e21, allow_inf_nan=False)] | None = None
    sizes: tuple[_Count, ...] | None = None

    @model_validator(mode="after")
    def _check(self) -> _TrainerTable:
        self.trainer()
        return self

    def trainer(self) -> Trainer:
        return Trainer(
            id=self.id, curve=Curve(self.curve.nodes, self.curve.samples_per_s), min_nodes=self.min_nodes,
            max_nodes=self.max_nodes, scale_up_s=self.scale_up_s, scale_down_s=self.scale_down_s,
            priority=self.priority, sizes=self.sizes,
        )  # fmt: skip


class _ProblemTable(ConfigTable):
    pool: _NodesOrCount
    trainers: Annotated[tuple[_TrainerTable, ...], Field(max_length=_MOST_TRAINERS)]
    forward_s: _Number = 120.0
    objective: str = DEFAULT_OBJECTIVE

    @field_validator("objective")
    @classmethod
    def _is_known(cls, name: str) -> str:
        try:
            find_objective(name)
        except UserError as error:
            raise InvalidValueError(str(error)) from error
        return name


@dataclass(frozen=True, slots=True)
class ProblemFile:
    """A problem, and the node names if the file has names: ``pool`` is None if the file has a number."""

    problem: Problem
    pool: Nodes | None
    held: tuple[Nodes, ...]
    warnings: tuple[str, ...]


def read_problem(source: str, text: str) -> ProblemFile:
    """The problem in ``text``; errors call it ``source``."""
    source = "standard input" if source == "-" else source
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputFileError(f"{source}:{error.lineno}", f"not JSON ({error.msg} at column {error.colno})") from error
    except (ValueError, RecursionError) as error:
        raise InputFileError(source, f"has a number that is too long, or is nested too deeply ({error})") from error
    if not isinstance(document, dict):
        raise InputFileError(source, f"expected a JSON object, got a JSON {type(document).__name__}")
    table = check_table(document, _ProblemTable, source)
    pool = frozenset(table.pool) if isinstance(table.pool, tuple) else None
    objective = find_objective(table.objective)
    demands: list[TrainerDemand] = []
    ids: set[str] = set()
    held: list[Nodes] = []
    taken: set[str] = set()
    warnings: list[str] = []
    for i, row in enumerate(table.trainers):
        where, trainer = f"{source}: trainers.{i}", row.trainer()
        if row.id in ids:
            raise InputFileError(f"{where}.id", f"another trainer has the id {row.id!r:.100}")
        ids.add(row.id)
        nodes = _held(row, pool, taken, f"{where}.nodes")
        taken |= nodes
        if falls := trainer.curve.falls_at():
            warnings.append(f"{row.id}: throughput decreases at {falls[0]} nodes; the curve is used as given")
        try:  # as the policy does, but with the file's own sizes: here 0 is legal only if it is listed
            demand = TrainerDemand(
                id=row.id, value=objective.value(trainer, row.remaining_samples), min_nodes=row.min_nodes,
                max_nodes=row.max_nodes, scale_up_s=row.scale_up_s, scale_down_s=row.scale_down_s,
                current=row.nodes if isinstance(row.nodes, int) else len(nodes), sizes=row.sizes,
            )  # fmt: skip
        except InvalidValueError as error:
            raise InputFileError(where, str(error)) from error
        except Exception as error:  # of a user's function
            raise InputFileError(where, f"objective {table.objective}: {type(error).__name__}: {error}") from error
        demands.append(demand)
        held.append(nodes)
    size = table.pool if isinstance(table.pool, int) else len(table.pool)
    values = objective.among([row.trainer() for row in table.trainers], [demand.value for demand in demands], size)
    try:
        problem = Problem(
            size, table.forward_s, tuple(replace(d, value=v) for d, v in zip(demands, values, strict=True))
        )
    except InvalidValueError as error:
        raise InputFileError(source, str(error)) from error
    return ProblemFile(problem, pool, tuple(held), tuple(warnings))


def _held(row: _TrainerTable, pool: Nodes | None, taken: set[str], where: str) -> Nodes:
    """The names of the nodes that a trainer holds; none where the pool is a number."""
    if isinstance(row.nodes, int):
        if row.nodes and pool is not None:
            raise InputFileError(where, "a number, but the pool has names; expected names in both or numbers in both")
        return frozenset()
    if pool is None:
        raise InputFileError(where, "names, but the pool is a number; expected names in both or numbers in both")
    nodes = frozenset(row.nodes)
    if outside := nodes - pool:
        raise InputFileError(where, f"{min(outside)} is not in the pool; the pool must include the nodes held now")
    if both := nodes & taken:
        raise InputFileError(where, f"{min(both)} is also held by another trainer")
    return nodes
