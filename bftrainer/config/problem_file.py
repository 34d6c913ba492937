"""Files of allocation problems: JSON text in, a :class:`Problem` out, and the reverse.

``bftrainer solve`` reads them, and the audit of decisions writes one for a bug report. A trainer
has a measured ``curve``, which the file's ``objective`` turns into a value; or, as the audit writes
it, the ``value`` O_j itself, so that the problem is the pilot's, bit for bit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from bftrainer.config.trainer_file import CurveTable, NotNegative, Positive
from bftrainer.config.validation import ConfigTable, check_table
from bftrainer.decide.allocation.objectives import DEFAULT_OBJECTIVE, OBJECTIVES, Objective
from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.decide.domain.problem import PendingStart, Problem, TrainerDemand
from bftrainer.errors import InputFileError, InvalidValueError, UnknownNameError

MOST_BYTES = 64 << 20
"""The largest file; 10,000 trainers with curves of 100 points take a third of it."""
MOST_NODES = 1_000_000
_MOST_TRAINERS = 10_000
_MOST_SIZES = 10_000_000  # of all trainers together: solvers make a table of them

_Nodes = Annotated[int, Field(ge=0, le=MOST_NODES)]
_Seconds = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
_Value = Annotated[float, Field(ge=0, le=1e30, allow_inf_nan=False)]


class ValueTable(ConfigTable):
    """O_j per second on ``nodes`` nodes, linear in between."""

    nodes: tuple[_Nodes, ...]
    per_s: tuple[_Value, ...]


class PendingTable(ConfigTable):
    """A start that is not over (:class:`PendingStart`)."""

    training: _Nodes
    ahead_s: _Seconds
    switch_s: _Seconds
    longer_s: _Seconds


class TrainerTable(ConfigTable):
    """A trainer of the problem. ``nodes``: how many it holds now."""

    id: Annotated[str, Field(min_length=1, max_length=255)]
    min_nodes: _Nodes
    max_nodes: _Nodes
    scale_up_s: _Seconds
    scale_down_s: _Seconds
    nodes: _Nodes = 0
    curve: CurveTable | None = None
    value: ValueTable | None = None
    sizes: tuple[_Nodes, ...] | None = None
    priority: NotNegative = 1.0
    weight: Positive = 1.0
    remaining_samples: Annotated[float, Field(ge=0, le=1e21, allow_inf_nan=False)] | None = None
    stalled_s: _Seconds = 0.0
    ramp_s: _Seconds = 0.0
    pending: PendingTable | None = None

    @model_validator(mode="after")
    def _check(self) -> TrainerTable:
        if (self.curve is None) == (self.value is None):
            raise InvalidValueError(f"{self.id!r:.100} has to have either a curve or a value")
        return self


class ProblemTable(ConfigTable):
    """The keys of the file. ``pool``: the number of nodes to divide; ``forward_s``: T_fwd."""

    pool: _Nodes
    trainers: Annotated[tuple[TrainerTable, ...], Field(max_length=_MOST_TRAINERS)]
    forward_s: NotNegative = 120.0
    objective: str = DEFAULT_OBJECTIVE

    @field_validator("objective")
    @classmethod
    def _is_known(cls, name: str) -> str:
        """Refuse a ``module:function``: such files are sent with bug reports, and a file that
        somebody else has written names no code to run.
        """
        if name not in OBJECTIVES:
            raise InvalidValueError(str(UnknownNameError("objective", name, OBJECTIVES)))
        return name


def read_problem(text: str, source: str) -> Problem:
    """Return the problem in a JSON text. Raises :class:`InputFileError`, which calls it
    ``source``.
    """
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"{source}:{error.lineno}"
        raise InputFileError(place, f"is not JSON ({error.msg} at column {error.colno})") from error
    except (ValueError, RecursionError) as error:
        raise InputFileError(
            source, f"has a number that is too long, or is nested too deeply ({error})"
        ) from error
    if not isinstance(document, dict):
        raise InputFileError(
            source, f"expected a JSON object, got a JSON {type(document).__name__}"
        )
    return problem_of(document, source)


def problem_of(document: Mapping[str, Any], source: str) -> Problem:
    """Return the problem in a JSON object. Raises :class:`InputFileError`, which names
    ``source``.
    """
    table = check_table(dict(document), ProblemTable, source)
    objective = OBJECTIVES[table.objective]
    demands = []
    ids: set[str] = set()
    for i, row in enumerate(table.trainers):
        where = f"{source}: trainers.{i}"
        if row.id in ids:
            raise InputFileError(f"{where}.id", f"another trainer has the id {row.id!r:.100}")
        ids.add(row.id)
        demands.append(_trainer_demand(row, objective, where))
    largest = max((min(demand.max_nodes, table.pool) for demand in demands), default=0)
    if len(demands) * largest > _MOST_SIZES:
        raise InputFileError(
            source,
            f"{len(demands):,} trainers of up to {largest:,} nodes, expected a product of at most "
            f"{_MOST_SIZES:,}",
        )
    weights = tuple([row.weight for row in table.trainers])
    if set(weights) <= {1.0}:  # as in a problem without weights
        weights = ()
    try:
        return Problem(table.pool, table.forward_s, tuple(demands), weights)
    except InvalidValueError as error:
        raise InputFileError(source, str(error)) from error


def _trainer_demand(row: TrainerTable, objective: Objective, where: str) -> TrainerDemand:
    """Return a trainer of the file as a solver sees it. Raises :class:`InputFileError` at
    ``where``.
    """
    pending = None
    if row.pending is not None:
        pending = PendingStart(
            training=row.pending.training,
            ahead_s=row.pending.ahead_s,
            switch_s=row.pending.switch_s,
            longer_s=row.pending.longer_s,
        )
    try:
        return TrainerDemand(
            id=row.id,
            value=_value_curve(row, objective),
            min_nodes=row.min_nodes,
            max_nodes=row.max_nodes,
            scale_up_s=row.scale_up_s,
            scale_down_s=row.scale_down_s,
            current=row.nodes,
            sizes=row.sizes,
            stalled_s=row.stalled_s,
            ramp_s=row.ramp_s,
            pending=pending,
        )
    except InvalidValueError as error:
        raise InputFileError(where, str(error)) from error


def _value_curve(row: TrainerTable, objective: Objective) -> Curve:
    """Return the value O_j of a trainer: as it stands in the file, or that of its curve under the
    objective.
    """
    if row.value is not None:
        return Curve(row.value.nodes, row.value.per_s)
    assert row.curve is not None, "validated"
    trainer = Trainer(
        id=row.id,
        curve=Curve(row.curve.nodes, row.curve.samples_per_s),
        min_nodes=row.min_nodes,
        max_nodes=row.max_nodes,
        scale_up_s=row.scale_up_s,
        scale_down_s=row.scale_down_s,
        priority=row.priority,
        sizes=row.sizes,
    )
    return objective.value(trainer, row.remaining_samples)


def document_of(problem: Problem) -> dict[str, object]:
    """Return the problem as a JSON object, which :func:`problem_of` reads again, bit for bit."""
    rows = [_trainer_row(problem, j) for j in range(len(problem.demands))]
    return {"pool": problem.pool_size, "forward_s": problem.forward_s, "trainers": rows}


def _trainer_row(problem: Problem, j: int) -> dict[str, object]:
    """Return trainer ``j`` of a problem as a JSON object, without optional keys that have their
    default.
    """
    demand = problem.demands[j]
    row: dict[str, object] = {
        "id": demand.id,
        "min_nodes": demand.min_nodes,
        "max_nodes": demand.max_nodes,
        "scale_up_s": demand.scale_up_s,
        "scale_down_s": demand.scale_down_s,
        "nodes": demand.current,
        "value": {"nodes": demand.value.nodes, "per_s": demand.value.per_s},
    }
    if demand.sizes is not None:
        row["sizes"] = demand.sizes
    if problem.weights:
        row["weight"] = problem.weights[j]
    if demand.stalled_s or demand.ramp_s:
        row |= {"stalled_s": demand.stalled_s, "ramp_s": demand.ramp_s}
    if (start := demand.pending) is not None:
        row["pending"] = {
            "training": start.training,
            "ahead_s": start.ahead_s,
            "switch_s": start.switch_s,
            "longer_s": start.longer_s,
        }
    return row
