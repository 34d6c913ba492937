"""The engine's arrays as the values that the Python core returns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import overload

from bftrainer.decide.domain.problem import Answer, Status
from bftrainer_replay.simulation.engine.library import Result
from bftrainer_replay.simulation.engine.scenario import PackedScenario
from bftrainer_replay.simulation.ledger import LedgerRow
from bftrainer_replay.simulation.progress import CostModel, ReplayedTrainer
from bftrainer_replay.simulation.replay_world import ReplayTotals

_COPIED = (
    "since_s",
    "samples",
    "stalled_until_s",
    "ready_s",
    "preempted_until_s",
    "lost_to_preemption",
    "lost_to_rescale",
    "node_s",
    "stalled_node_s",
    "waited_s",
    "preemptions",
    "rescales",
)
_OPTIONAL = ("admitted_s", "started_s", "finished_s", "waits_since_s")


class EngineRows(Sequence[LedgerRow]):
    """The journal of a replay; a row is made when it is asked for. ``solver`` is the name of the
    one that answered, None for policies without.
    """

    def __init__(self, result: Result, ids: Sequence[str], solver: str | None) -> None:
        self._result, self._ids, self._solver = result, ids, solver

    def __len__(self) -> int:
        return len(self._result.rows)

    @overload
    def __getitem__(self, index: int) -> LedgerRow: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[LedgerRow, ...]: ...
    def __getitem__(self, index: int | slice) -> LedgerRow | tuple[LedgerRow, ...]:
        """Return one row of the journal, or a tuple of rows for a slice."""
        if isinstance(index, slice):
            return tuple(self[k] for k in range(len(self))[index])
        k = range(len(self))[index]
        row = self._result.rows[k]
        # A row has only the ends of its counts and its answer: they begin where those of the row
        # before it end.
        counts_from, answer_from = 0, 0
        if k:
            before = self._result.rows[k - 1]
            counts_from, answer_from = int(before["counts_end"]), int(before["answer_end"])
        pairs = self._result.counts[counts_from : row["counts_end"]].tolist()
        answer = None
        if self._solver is not None:
            counts = tuple(self._result.answers[answer_from : row["answer_end"]].tolist())
            answer = Answer(counts, float(row["value"]), self._solver, Status.OPTIMAL)
        return LedgerRow(
            at_s=float(row["at_s"]),
            joined=int(row["joined"]),
            left=int(row["left"]),
            submitted=int(row["submitted"]),
            finished=int(row["finished"]),
            pool_nodes=int(row["pool_nodes"]),
            counts=tuple([(self._ids[trainer], nodes) for trainer, nodes in pairs]),
            answer=answer,
            totals=ReplayTotals(
                float(row["samples"]),
                float(row["lost_to_preemption"]),
                float(row["lost_to_rescale"]),
            ),
            taken_nodes=int(row["taken_nodes"]),
            invested_samples=float(row["invested"]),
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(other) != len(self):
            return False
        return all(row == other_row for row, other_row in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash((len(self), float(self._result.totals[0])))


def runs_of(
    scenario: PackedScenario, result: Result, cost_model: CostModel, *, rigid: bool
) -> tuple[ReplayedTrainer, ...]:
    """Return the trainers after a replay as the Python core has them, in order of submission.

    Trainers that were never submitted are left out. In the engine's arrays, NaN stands for None.
    """
    names = scenario.window.names
    runs, begin = [], 0
    rows = [
        dict(zip(result.trainers.dtype.names or (), row, strict=True))
        for row in result.trainers.tolist()
    ]
    for arrival, row in zip(scenario.arrivals, rows, strict=False):
        run = ReplayedTrainer(arrival.truth, cost_model, row["since_s"], rigid=rigid)
        for name in _COPIED:
            setattr(run, name, row[name])
        for name in _OPTIONAL:
            setattr(run, name, None if math.isnan(row[name]) else row[name])
        held = result.held[begin : row["held_end"]].tolist()
        begin = row["held_end"]
        run.node_names, run.nodes = frozenset(names[node] for node in held), len(held)
        run.refresh()
        runs.append(run)
    return tuple(runs)


def totals_of(result: Result) -> ReplayTotals:
    """Return outcome and costs of the whole replay."""
    return ReplayTotals(*result.totals.tolist())
