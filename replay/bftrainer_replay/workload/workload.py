"""The workload of a replay: the authors' trainer tables, and seeded generators of the paper's two
scenarios.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bftrainer.counted import counted
from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.errors import InputFileError, InvalidValueError, UnknownNameError
from bftrainer.system.files import write_atomically
from bftrainer_replay.csv_tables import CsvRow, csv_bytes, read_table
from bftrainer_replay.logs.event_log import format_time, parse_time
from bftrainer_replay.simulation.replay_world import Arrival
from bftrainer_replay.workload.curves import TABLE_2, find_curve

# The authors' column names: Tcup is R_up, Tcdw R_dw, Jmin N_min, Jmax N_max, Pmax the samples, Tsub
# the submission. Tstart is the time of a start, S. ``pool`` is 1 for a pool of independent one-node
# tasks that fills idle nodes without end; its row uses neither the model, nor Tcdw and Pmax.
REQUIRED = ("job", "Tcup", "Tcdw", "Jmin", "Jmax", "Pmax", "Tsub")
OPTIONAL = ("model", "priority", "Tstart", "user", "pool")
SAMPLES_TOTAL = 1.3e8  # 100 epochs of ImageNet (paper 4.2)


@dataclass(frozen=True, slots=True)
class Workload:
    """The trainers of a table with their submission times, in file order, and warnings about valid
    but unusual curves.
    """

    arrivals: tuple[Arrival, ...]
    warnings: tuple[str, ...] = ()


def read_workload(path: Path, curves: Mapping[str, Curve], model: str | None = None) -> Workload:
    """Return the trainers of a table with their times of submission, and warnings on their curves.

    ``model`` names the curve of all trainers and overrides the model column. Raises
    :class:`InputFileError`.
    """
    header, rows = read_table(path)
    for column in header:
        if column not in REQUIRED + OPTIONAL:
            raise InputFileError(
                f"{path}:1", str(UnknownNameError("column", column, REQUIRED + OPTIONAL))
            )
    if missing := [column for column in REQUIRED if column not in header]:
        raise InputFileError(
            f"{path}:1", f"column {missing[0]} is missing, expected {','.join(REQUIRED)}"
        )
    if model is None and "model" not in header:
        raise InputFileError(
            f"{path}:1", "has no column model; add one, or specify the model with --model"
        )
    arrivals: list[Arrival] = []
    warnings: dict[str, str] = {}  # by model
    where_named: dict[str, str] = {}  # by trainer
    for row in rows:
        arrival = _arrival_of_row(row, curves, model)
        name = arrival.trainer.id
        if name in where_named:
            raise InputFileError(
                row.where, f"duplicate trainer {name}, first at {where_named[name]}"
            )
        where_named[name] = row.where
        if falling := arrival.trainer.curve.falls_at():
            warnings[arrival.trainer.model] = (
                f"the throughput of {arrival.trainer.model} falls at "
                f"{counted(falling[0], 'node')}; the curve is used as it is"
            )
        arrivals.append(arrival)
    if not arrivals:
        raise InputFileError(str(path), "has a header and no rows, expected at least one trainer")
    return Workload(tuple(arrivals), tuple(warnings.values()))


def _arrival_of_row(row: CsvRow, curves: Mapping[str, Curve], model: str | None) -> Arrival:
    """Build the arrival of a row: its trainer and submission time. Raises
    :class:`InputFileError`.
    """
    model_name = model or row.text("model")
    try:
        at_s = parse_time(row.text("Tsub"))
    except (ValueError, OverflowError) as error:
        problem = f"Tsub is {row.text('Tsub')!r:.40}, expected a time like 2021-02-10 20:21:15"
        raise InputFileError(row.where, problem) from error
    try:
        # A pool of one-node tasks needs no curve: each node does the work of one node.
        if "pool" in row.cells and row.number("pool"):
            start_s = row.number("Tstart" if "Tstart" in row.cells else "Tcup")
            return Arrival(at_s, one_node_pool(row.text("job"), row.count("Jmax"), start_s))
        trainer = Trainer(
            id=row.text("job"),
            curve=find_curve(model_name, curves),
            min_nodes=row.count("Jmin"),
            max_nodes=row.count("Jmax"),
            scale_up_s=row.number("Tcup"),
            scale_down_s=row.number("Tcdw"),
            samples_total=row.number("Pmax"),
            priority=row.number("priority") if "priority" in row.cells else 1.0,
            model=model_name,
            start_s=row.number("Tstart") if "Tstart" in row.cells else None,
        )
    except (InvalidValueError, UnknownNameError) as error:
        raise InputFileError(row.where, str(error)) from error
    return Arrival(at_s, trainer, user=row.text("user") if "user" in row.cells else "")


def one_node_pool(name: str, max_nodes: int, start_s: float) -> Trainer:
    """Return a pool of independent one-node tasks that fills up to ``max_nodes`` nodes.

    Each task takes ``start_s`` to start; the unit of work is the work of one node in a second.
    """
    curve = Curve((1,), (1.0,))
    if max_nodes > 1:
        curve = Curve((1, max_nodes), (1.0, float(max_nodes)))
    return Trainer(
        id=name,
        curve=curve,
        min_nodes=1,
        max_nodes=max_nodes,
        scale_up_s=0.0,
        scale_down_s=0.0,
        start_s=start_s,
        fill=True,
    )


@dataclass(frozen=True, slots=True)
class RescaleCosts:
    """The rescale costs of generated trainers: R_up and R_dw or, with ``start_s``, the start of new
    nodes and the stalls at the switch.
    """

    up_s: float = 18.0
    down_s: float = 12.0
    start_s: float | None = None


def hpo(
    model: str,
    submissions_s: Sequence[float],
    curves: Mapping[str, Curve] = TABLE_2,
    costs: RescaleCosts | None = None,
) -> tuple[Arrival, ...]:
    """Return the trainers of a hyperparameter optimization (paper 5.1): identical trials.

    One is submitted at each of ``submissions_s``. R_up is 18 s and R_dw 12 s unless other costs are
    given.
    """
    curve = find_curve(model, curves)
    costs = costs or RescaleCosts()
    return tuple(
        Arrival(at_s, _built_trainer(f"{model}-{number:04d}", model, curve, costs))
        for number, at_s in enumerate(submissions_s)
    )


def trainers_of_many_users(
    submissions_s: Sequence[float], seed: int, curves: Mapping[str, Curve] = TABLE_2
) -> tuple[Arrival, ...]:
    """Return the trainers of many users (paper 5.2): the models in turn, with random rescale costs.

    R_up is uniform in 17-19 s and R_dw in 11-13 s, as in the authors' table.
    """
    rng = np.random.default_rng(np.random.PCG64(seed))
    models = sorted(curves)
    arrivals = []
    for number, at_s in enumerate(submissions_s):
        model = models[number % len(models)]
        up_s, down_s = round(rng.uniform(17.0, 19.0), 3), round(rng.uniform(11.0, 13.0), 3)
        costs = RescaleCosts(up_s, down_s)
        trainer = _built_trainer(f"{model}-{number:04d}", model, curves[model], costs)
        arrivals.append(Arrival(at_s, trainer))
    return tuple(arrivals)


def submissions(
    start_s: float, count: int, spacing_s: float, *, poisson_seed: int | None = None
) -> tuple[float, ...]:
    """Return ``count`` submission times from ``start_s`` on, in seconds since 1970.

    They are ``spacing_s`` apart, or a Poisson process with that mean spacing.
    """
    if poisson_seed is None:
        return tuple(start_s + i * spacing_s for i in range(count))
    rng = np.random.default_rng(np.random.PCG64(poisson_seed))
    spacings_s = rng.exponential(spacing_s, size=count)
    spacings_s[0] = 0.0  # the first submission is at start_s
    return tuple(float(round(start_s + offset_s, 3)) for offset_s in np.cumsum(spacings_s))


def write_workload(path: Path, arrivals: Sequence[Arrival]) -> None:
    """Write a trainer table that :func:`read_workload` can read.

    It has a column Tstart if every trainer has a start time. Users, priorities and pools are not
    written.
    """
    has_starts = all(arrival.trainer.start_s is not None for arrival in arrivals)
    header = ["job", "model", *REQUIRED[1:]]
    if has_starts:
        header.append("Tstart")
    write_atomically(
        path, csv_bytes(header, (_row_of_trainer(arrival, has_starts) for arrival in arrivals))
    )


def _row_of_trainer(arrival: Arrival, has_start: bool) -> list[object]:
    """Return the row of a trainer in its table."""
    trainer = arrival.trainer
    row: list[object] = [
        trainer.id,
        trainer.model,
        trainer.scale_up_s,
        trainer.scale_down_s,
        trainer.min_nodes,
        trainer.max_nodes,
        trainer.samples_total,
        format_time(arrival.at_s),
    ]
    if has_start:
        row.append(trainer.start_s)
    return row


def _built_trainer(name: str, model: str, curve: Curve, costs: RescaleCosts) -> Trainer:
    """Build a trainer that can run on 1 node up to as many as its curve has."""
    return Trainer(
        id=name,
        curve=curve,
        min_nodes=1,
        max_nodes=curve.nodes[-1],
        scale_up_s=costs.up_s,
        scale_down_s=costs.down_s,
        samples_total=SAMPLES_TOTAL,
        model=model,
        start_s=costs.start_s,
    )
