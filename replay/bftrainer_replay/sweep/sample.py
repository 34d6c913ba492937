"""Pieces of a long log that stand for all of it: drawn over the log, replayed one by one, and added
up.

A replay costs about half a millisecond per decision, so a year of a busy cluster would take an hour
for one report. The log is divided into strata of equal length, and one piece is drawn in each at
random, with a fixed seed: every season has its part, and no weekday or hour is preferred. Every
piece begins with the whole queue of trainers and none of them running.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bftrainer.decide.domain.model import Trainer
from bftrainer_replay.analysis.window_fragments import pool_sizes_of
from bftrainer_replay.logs.model import LogWindow, pieces
from bftrainer_replay.sweep.cell import Cell, Inputs
from bftrainer_replay.sweep.result_files import ResultStore
from bftrainer_replay.sweep.results import SweepRow, rows_of, summed
from bftrainer_replay.workload.curves import best_rate_per_node

SEED = 0
LOG = "log"
"""``Cell.log`` of a replay of the whole log, and the beginning of the names of its pieces."""
# Long pieces: every piece begins without trainers, and what an objective does to slow ones shows
# after days only. Hours of a piece, and how many of them are the least that stands for a log: three
# weeks, else two days, else three times six hours. The last is for machines with tens of thousands
# of idle nodes, where two days take a quarter of an hour.
_LENGTHS_H = ((168.0, 3), (24.0, 2), (6.0, 3))
_MAX_SHARE = 0.8  # of the log: a larger part is not worth the doubt


@dataclass(frozen=True)
class LogSample:
    """The part of a log that is replayed: its ``pieces``, in order of time, or all of it (one
    piece).
    """

    log: LogWindow
    pieces: tuple[LogWindow, ...]

    @property
    def is_whole(self) -> bool:
        """Whether all of the log is replayed."""
        return len(self.pieces) == 1 and self.pieces[0] is self.log

    @cached_property
    def windows(self) -> dict[str, LogWindow]:
        """The pieces by the name that cells have for them."""
        if self.is_whole:
            return {LOG: self.log}
        return {f"{LOG}-{k:02d}": piece for k, piece in enumerate(self.pieces, start=1)}

    @cached_property
    def shown(self) -> str:
        """The name of the piece with the median number of idle nodes: its pictures stand for
        all.
        """
        names = list(self.windows)
        idle = [pool_sizes_of(piece).node_hours() / piece.span_s for piece in self.pieces]
        return names[int(np.argsort(idle, kind="stable")[len(idle) // 2])]

    @property
    def replayed_h(self) -> float:
        """The length of all pieces."""
        return sum(piece.span_s for piece in self.pieces) / 3600

    @property
    def text(self) -> str:
        """What is replayed, in words; empty if it is the whole log."""
        if self.is_whole:
            return ""
        length_h = self.pieces[0].span_s / 3600
        unit = {168.0: "one week", 24.0: "one day"}.get(length_h, f"{length_h:g} hours")
        return (
            f"{len(self.pieces)} pieces of {unit} each, {self.replayed_h / 24:,.3g} of the log's "
            f"{self.log.span_s / 86400:,.3g} days, one drawn at random in each part of the log"
        )

    def cells(self, cell: Cell) -> tuple[Cell, ...]:
        """Return the cell on every piece of the log.

        Only the piece that is shown has the data for pictures.
        """
        return tuple(
            replace(cell, log=name, detail=cell.detail and name == self.shown)
            for name in self.windows
        )

    def rows(
        self, cells: Sequence[Cell], inputs: Inputs, store: ResultStore
    ) -> dict[Cell, SweepRow]:
        """Return the results of the cells, summed over the pieces of the log.

        The rows of the pieces are their ``parts``.
        """
        shown = list(self.windows).index(self.shown)
        rows = {
            cell: summed(cell, rows_of(self.cells(cell), inputs, store), shown) for cell in cells
        }
        if self.is_whole:
            return rows
        return {cell: self._with_usable(row, inputs) for cell, row in rows.items()}

    def _with_usable(self, row: SweepRow, inputs: Inputs) -> SweepRow:
        """Return a row with how many idle node-hours the trainers could use, also in its parts.

        The pieces may have more or fewer idle nodes than the log, and places for trainers limit how
        many can be used.
        """
        arrivals = inputs.arrivals_of(self.cells(row.cell)[0])
        max_nodes = row.cell.max_parallel * max(arrival.trainer.max_nodes for arrival in arrivals)
        usable_h = [pool_sizes_of(piece).node_s(max_nodes) / 3600 for piece in self.pieces]
        parts = tuple(
            replace(part, usable_node_h=hours)
            for part, hours in zip(row.parts, usable_h, strict=True)
        )
        sizes = pool_sizes_of(self.log)
        share = sizes.node_s(max_nodes) / (sizes.node_s() or 1.0)
        return replace(row, parts=parts, usable_node_h=sum(usable_h), log_usable_share=share)


def whole(log: LogWindow) -> LogSample:
    """Return the sample that is all of the log."""
    return LogSample(log, (log,))


def drawn(log: LogWindow, share: float, seed: int = SEED) -> LogSample:
    """Draw a sample of about ``share`` of the log, one piece at random in each equal part of it.

    Pieces are as long as possible (a week, a day ...) if there are then enough of them; they are at
    least three of six hours. A share of 80% or more is the whole log.
    """
    if share >= _MAX_SHARE:
        return whole(log)
    span_h = log.span_s / 3600
    short_enough = (option for option in _LENGTHS_H if share * span_h >= math.prod(option))
    length_h, min_count = next(short_enough, _LENGTHS_H[-1])
    count = max(round(share * span_h / length_h), min_count)
    if count * length_h >= _MAX_SHARE * span_h:
        return whole(log)
    rng = np.random.default_rng(np.random.PCG64(seed))
    slack_s = log.span_s / count - length_h * 3600  # of a piece in its stratum
    starts_s = [
        log.start_s + stratum * log.span_s / count + float(rng.random()) * slack_s
        for stratum in range(count)
    ]
    whole_minutes_s = [round(at_s / 60) * 60.0 for at_s in starts_s]
    return LogSample(log, pieces(log, whole_minutes_s, length_h * 3600))


def decisions_of(window: LogWindow, trainers: Sequence[Trainer], max_parallel: int) -> float:
    """Return about how many decisions a replay makes.

    There is one per change of the pool, and one per trainer that the used nodes complete.
    ``trainers`` may be a few of the workload, of every model.
    """
    largest = max(trainer.max_nodes for trainer in trainers)
    usable_s = pool_sizes_of(window).node_s(max_parallel * largest)
    node_s = [
        trainer.samples_total / best_rate_per_node(trainer.curve)
        for trainer in trainers
        if trainer.samples_total
    ]
    return 1 + len(window.events) + (usable_s / float(np.mean(node_s)) if node_s else 0.0)


def cost_s(window: LogWindow, trainers: Sequence[Trainer], max_parallel: int) -> float:
    """Return about how many seconds a replay takes on one core.

    Fitted to replays of Summit, KTH-SP2, Theta, Mira and LLNL-Thunder: 0.4 ms per decision with ten
    trainers on a few hundred idle nodes; twice that with 40 trainers, or with 12,000 idle nodes.
    """
    idle = pool_sizes_of(window).node_hours() * 3600 / window.span_s if window.span_s else 0.0
    decision_s = 0.0004 * (0.7 + 0.03 * max_parallel) * (1 + idle / 12_000)
    return decision_s * decisions_of(window, trainers, max_parallel)
