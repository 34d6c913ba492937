"""The gate of ``bftrainer solve``: JSON text -> a Problem; whatever is wrong is said with its key."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bftrainer.allocation.objectives import Objective
from bftrainer.domain.model import Curve, Trainer
from bftrainer.domain.problem import Problem, TrainerDemand
from bftrainer.domain.state import Nodes
from bftrainer.errors import InputFileError, InvalidValueError, UnknownNameError, UserError
from bftrainer.plugins import find_objective

_KEYS = ("pool", "forward_s", "objective", "trainers")
_TRAINER_REQUIRED = ("id", "min_nodes", "max_nodes", "scale_up_s", "scale_down_s", "curve")
_TRAINER_KEYS = (*_TRAINER_REQUIRED, "nodes", "priority", "remaining_samples", "sizes")
_CURVE_KEYS = ("nodes", "samples_per_s")


@dataclass(frozen=True, slots=True)
class ProblemFile:
    """A problem, and the names where the file gave them: ``pool`` is None where it gave a number."""

    problem: Problem
    pool: Nodes | None
    held: tuple[Nodes, ...]
    warnings: tuple[str, ...]


class _Reader:
    """Typed look-ups in one JSON object; every complaint names file and key."""

    def __init__(self, source: str, path: str, value: Any) -> None:
        self.source, self.path = source, path
        if not isinstance(value, dict):
            raise self.error("", f"is {_kind(value)}, expected an object")
        self.value: dict[str, Any] = value

    def error(self, key: str, problem: str) -> InputFileError:
        return InputFileError(f"{self.source}: {f'{self.path}.{key}'.strip('.') or 'the document'}", problem)

    def keys(self, valid: Sequence[str], required: Sequence[str]) -> None:
        for key in self.value:
            if key not in valid:
                raise InputFileError(
                    f"{self.source}: {self.path or 'the document'}", str(UnknownNameError("key", key, valid))
                )
        for key in required:
            if key not in self.value:
                raise self.error(key, "is missing")

    def number(self, key: str, default: float | None = None) -> float:
        value = self.value.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(key, f"is {_kind(value)}, expected a number")
        if not math.isfinite(value) or value < 0:
            raise self.error(key, f"is {value}, expected a finite number that is not negative")
        return float(value)

    def count(self, key: str) -> int:
        value = self.number(key)
        if value != int(value):
            raise self.error(key, f"is {value:g}, expected a whole number")
        return int(value)

    def text(self, key: str) -> str:
        value = self.value[key]
        if not isinstance(value, str):
            raise self.error(key, f"is {_kind(value)}, expected text")
        return value

    def numbers(self, key: str) -> tuple[float, ...]:
        values = self.items(key)
        return tuple(
            _Reader(self.source, f"{self.path}.{key}", {str(i): v}).number(str(i)) for i, v in enumerate(values)
        )

    def counts(self, key: str) -> tuple[int, ...]:
        values = self.items(key)
        return tuple(
            _Reader(self.source, f"{self.path}.{key}", {str(i): v}).count(str(i)) for i, v in enumerate(values)
        )

    def names(self, key: str) -> tuple[str, ...]:
        values = self.items(key)
        for name in values:
            if not isinstance(name, str) or not name:
                raise self.error(key, f"holds {_kind(name)}, expected node names")
        if twice := [name for i, name in enumerate(values) if name in values[:i]]:
            raise self.error(key, f"names {twice[0]!r} twice, expected each node once")
        return tuple(values)

    def items(self, key: str) -> list[Any]:
        value = self.value[key]
        if not isinstance(value, list):
            raise self.error(key, f"is {_kind(value)}, expected a list")
        return value


def read_problem(source: str, text: str) -> ProblemFile:
    """The problem in ``text``; ``source`` is its name in complaints."""
    source = "standard input" if source == "-" else source
    try:
        document = _Reader(source, "", json.loads(text))
    except json.JSONDecodeError as error:
        raise InputFileError(
            f"{source}:{error.lineno}", f"is not JSON ({error.msg} at column {error.colno})"
        ) from error
    document.keys(_KEYS, ("pool", "trainers"))
    objective = _objective(document)
    pool = None
    if isinstance(document.value["pool"], list):
        pool = frozenset(document.names("pool"))
    size = document.count("pool") if pool is None else len(pool)
    demands: list[TrainerDemand] = []
    held: list[Nodes] = []
    warnings: list[str] = []
    for i, value in enumerate(document.items("trainers")):
        reader = _Reader(source, f"trainers[{i}]", value)
        trainer, nodes, count, remaining, sizes = _trainer(reader, pool)
        if any(trainer.id == other.id for other in demands):
            raise reader.error("id", f"{trainer.id!r} is taken by another trainer, expected one id each")
        for other in held:
            if both := nodes & other:
                raise reader.error("nodes", f"{min(both)} is held by another trainer too")
        if falls := trainer.curve.falls_at():
            warnings.append(f"{trainer.id}: throughput falls at {falls[0]} nodes; taken as given")
        demands.append(_demand(reader, trainer, count, remaining, sizes, objective))
        held.append(nodes)
    try:
        problem = Problem(size, document.number("forward_s", 120.0), tuple(demands))
    except InvalidValueError as error:
        raise InputFileError(source, str(error)) from error
    return ProblemFile(problem, pool, tuple(held), tuple(warnings))


def _objective(document: _Reader) -> Objective:
    if "objective" not in document.value:
        return find_objective("throughput")
    try:
        return find_objective(document.text("objective"))
    except UserError as error:
        raise document.error("objective", str(error)) from error


def _trainer(reader: _Reader, pool: Nodes | None) -> tuple[Trainer, Nodes, int, float | None, tuple[int, ...] | None]:
    """The trainer, the names and the number of the nodes it holds, its remaining samples, its legal sizes."""
    reader.keys(_TRAINER_KEYS, _TRAINER_REQUIRED)
    curve = _Reader(reader.source, f"{reader.path}.curve", reader.value["curve"])
    curve.keys(_CURVE_KEYS, _CURVE_KEYS)
    nodes: Nodes = frozenset()
    if isinstance(reader.value.get("nodes"), list):
        nodes = frozenset(reader.names("nodes"))
        if pool is None:
            raise reader.error("nodes", "gives names, but the pool is a number; expected names or numbers in both")
        if outside := nodes - pool:
            raise reader.error("nodes", f"{min(outside)} is not in the pool, which includes the nodes held now")
        count = len(nodes)
    else:
        count = reader.count("nodes") if "nodes" in reader.value else 0
        if count and pool is not None:
            raise reader.error("nodes", "is a number, but the pool gives names; expected names or numbers in both")
    sizes = reader.counts("sizes") if "sizes" in reader.value else None
    try:
        points = (curve.counts("nodes"), curve.numbers("samples_per_s"))
        trainer = Trainer(
            id=reader.text("id"),
            curve=Curve(*points),
            min_nodes=reader.count("min_nodes"),
            max_nodes=reader.count("max_nodes"),
            scale_up_s=reader.number("scale_up_s"),
            scale_down_s=reader.number("scale_down_s"),
            priority=reader.number("priority", 1.0),
            sizes=sizes,
        )
    except InvalidValueError as error:
        raise InputFileError(f"{reader.source}: {reader.path}", str(error)) from error
    remaining = reader.number("remaining_samples") if "remaining_samples" in reader.value else None
    return trainer, nodes, count, remaining, sizes


def _demand(
    reader: _Reader,
    trainer: Trainer,
    count: int,
    remaining: float | None,
    sizes: tuple[int, ...] | None,
    objective: Objective,
) -> TrainerDemand:
    """As the policy builds it, but with the file's own sizes: here 0 is legal only if listed."""
    try:
        return TrainerDemand(
            id=trainer.id,
            value=objective.value(trainer, remaining),
            min_nodes=trainer.min_nodes,
            max_nodes=trainer.max_nodes,
            scale_up_s=trainer.scale_up_s,
            scale_down_s=trainer.scale_down_s,
            current=count,
            sizes=sizes,
        )
    except InvalidValueError as error:
        raise InputFileError(f"{reader.source}: {reader.path}", str(error)) from error


def _kind(value: object) -> str:
    """A JSON value's type as people call it."""
    names = {type(None): "null", bool: "a boolean", str: "text", list: "a list", dict: "an object"}
    return names.get(type(value), f"{value}")
