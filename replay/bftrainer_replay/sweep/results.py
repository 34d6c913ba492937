"""The results of a sweep: a row per cell, in the order of the grid, without anything that depends
on the machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum

from bftrainer.errors import BFTrainerError
from bftrainer_replay.sweep.cell import POOL, Cell, Inputs, task
from bftrainer_replay.sweep.result_files import Result, ResultStore

SUMMED = (
    "span_h",
    "resource_integral_node_h",
    "decisions",
    "outcome_samples",
    "outcome_one_node_h",
    "rescale_cost_samples",
    "preemption_cost_samples",
    "preemptions",
    "rescales",
    "unused_node_h",
    "completed",
    "submitted",
    "pool_events",
)
"""Results of a replay that are sums over its parts: pieces of the log."""


class WorkRanOutError(BFTrainerError):
    """Generated trainers did not last as long as the log: nodes without work would count as nodes
    that trainings cannot use.
    """


def check_work_lasted(ends: Iterable[str | None]) -> None:
    """Raise :class:`WorkRanOutError` if a replay of generated trainers ran out of work.

    ``ends`` are the times at which each did, None for those that did not.
    """
    early_ends = [end for end in ends if end is not None]
    if early_ends:
        raise WorkRanOutError(
            f"the generated trainers ran out of work on {min(early_ends)} of the log's time, so "
            "the shares of use would be too low; "
            "use a shorter part of the log (--hours), or trainers of your own (--trainers)"
        )


@dataclass(frozen=True, slots=True)
class SweepRow:
    """A cell and its results.

    ``parts`` are the rows of the pieces of a log of which this is the sum. ``usable_node_h``: what
    P_jmax trainers of the largest size could use of the idle node-hours of such a piece, or of all;
    ``log_usable_share``: of the idle node-hours of the whole log. ``pool_node_h``: one-node hours
    of a pool beside the trainings, if it was replayed.
    """

    cell: Cell
    result: Result
    parts: tuple[SweepRow, ...] = ()
    usable_node_h: float = 0.0
    log_usable_share: float | None = None
    pool_node_h: float | None = None

    @property
    def work_share(self) -> float | None:
        """The outcome in one-node hours per idle node-hour."""
        idle_h = float(self.result["resource_integral_node_h"])
        return float(self.result["outcome_one_node_h"]) / idle_h if idle_h else None


def rows_of(cells: Sequence[Cell], inputs: Inputs, store: ResultStore) -> tuple[SweepRow, ...]:
    """Return a row for each cell that has a result in the store, in the order of the cells."""
    rows = []
    for cell in cells:
        result = store.get(task(cell, inputs))
        pool = store.get(task(cell, inputs, POOL)) or {}
        if result is not None:
            rows.append(SweepRow(cell, result, pool_node_h=pool.get("pool_node_h")))
    return tuple(rows)


def summed(cell: Cell, parts: Sequence[SweepRow], shown: int = 0) -> SweepRow:
    """Return the row of ``cell``, which is the sum over the pieces of a log.

    Values that do not add up, such as the data for pictures, are those of the piece with the index
    ``shown``.
    """
    if len(parts) == 1:
        return replace(parts[0], cell=cell)
    results = [part.result for part in parts]
    total = {**results[shown], **added_up(results)}
    pool_h = [part.pool_node_h for part in parts if part.pool_node_h is not None]
    pool_total_h = sum(pool_h) if len(pool_h) == len(parts) else None
    return SweepRow(cell, total, tuple(parts), pool_node_h=pool_total_h)


def added_up(results: Sequence[Result]) -> dict[str, object]:
    """Return the sums of the results of parts that together are one replay.

    Parts are pieces of a log, or pilots that divide its nodes. Of the times at which work ran out,
    the first one is kept.
    """
    ended_at = [result["work_ran_out_at"] for result in results]
    return {
        **_summed_results(results),
        "mean_runtime_h": _mean_runtime_h(results),
        "work_ran_out_at": min((at for at in ended_at if at is not None), default=None),
    }


def _summed_results(results: Sequence[Result]) -> dict[str, float]:
    """Return the sums of the results that add up, such as samples and node-hours."""
    sums = {}
    for name in (*SUMMED, "wall_s"):
        sums[name] = sum(result[name] for result in results)
    return sums


def _mean_runtime_h(results: Sequence[Result]) -> float | None:
    """Return the mean run time of all completed trainers, in hours; None without any."""
    runtimes = [
        (float(result["mean_runtime_h"]), int(result["completed"]))
        for result in results
        if result["mean_runtime_h"] is not None
    ]
    completed = sum(count for _, count in runtimes)
    if not completed:
        return None
    return sum(hours * count for hours, count in runtimes) / completed


def as_dict(row: SweepRow) -> dict[str, object]:
    """Return the settings and results of a row as a JSON object."""
    settings = {}
    for field in fields(Cell):
        if field.name != "detail":
            value = getattr(row.cell, field.name)
            settings[field.name] = value.value if isinstance(value, Enum) else value
    # Left out: the time depends on the machine.
    result = {name: value for name, value in row.result.items() if name not in ("detail", "wall_s")}
    return {
        **settings,
        "max_parallel": row.cell.max_parallel or "auto",
        "work_share": row.work_share,
        **result,
    }
