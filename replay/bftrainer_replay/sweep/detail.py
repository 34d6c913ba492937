"""The data for figures of a single replay, small enough for a result file: means per bin of time, and a row per trainer."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bftrainer_replay.simulation.bins import Bins, bins_of
from bftrainer_replay.simulation.per_event import RescaleReturns, returns, taken_within
from bftrainer_replay.simulation.play import ReplayOutcome, Scenario

_STEPS = 2016  # of five minutes each in a week: enough to zoom in
_MOST_TRAINERS = 4000

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Detail:
    """Times are seconds since 1970. ``idle`` and ``used`` are mean nodes in each of the equal steps between ``edges_s``.

    ``samples``, ``lost_to_preemption`` and ``lost_to_rescale`` are sums in the coarser bins between ``bin_edges_s``.
    ``trainers`` has (id, model, start, end, done) of the trainers that started, and only every k-th of more than 4,000; a
    trainer that is not done ends with the window. ``taken_within`` and ``returns`` are those of
    :mod:`bftrainer_replay.simulation.per_event`.
    """

    edges_s: Array
    idle: Array
    used: Array
    bin_edges_s: Array
    samples: Array
    lost_to_preemption: Array
    lost_to_rescale: Array
    trainers: tuple[tuple[str, str, float, float, bool], ...]
    taken_within: tuple[tuple[float, float], ...]
    returns: RescaleReturns

    @property
    def bins(self) -> Bins:
        return Bins(self.bin_edges_s, self.samples, self.lost_to_preemption, self.lost_to_rescale)


def detail_of(scenario: Scenario, outcome: ReplayOutcome) -> dict[str, object]:
    """The detail as a JSON object."""
    window, entries = scenario.window, outcome.entries
    edges_s = np.linspace(window.start_s, window.end_s, _STEPS + 1)
    at_s = np.array([*(e.at_s for e in entries), window.end_s])
    lengths = np.diff(at_s)

    def means(nodes: list[int]) -> list[float]:
        node_s = np.concatenate(([0.0], np.cumsum(np.array(nodes) * lengths)))
        return [round(float(x), 2) for x in np.diff(np.interp(edges_s, at_s, node_s)) / np.diff(edges_s)]

    bins = bins_of(window, entries, outcome.totals)
    started = sorted((r for r in outcome.runs if r.started_s is not None), key=lambda r: (r.started_s, r.trainer.id))
    return {
        "edges_s": edges_s.tolist(),
        "idle": means([e.pool_nodes for e in entries]),
        "used": means([e.used_nodes for e in entries]),
        "bin_edges_s": bins.edges_s.tolist(),
        "samples": bins.samples.tolist(),
        "lost_to_preemption": bins.lost_to_preemption.tolist(),
        "lost_to_rescale": bins.lost_to_rescale.tolist(),
        "trainers": [
            [
                run.trainer.id,
                run.trainer.model,
                run.started_s,
                window.end_s if run.finished_s is None else run.finished_s,
                run.finished_s is not None,
            ]
            for run in started[:: -(-len(started) // _MOST_TRAINERS) or 1]
        ],
        "taken_within": taken_within(entries),
        "returns": asdict(returns(entries, outcome.totals)),
    }


def read_detail(told: dict[str, Any]) -> Detail:
    """The inverse of :func:`detail_of`."""

    def array(name: str) -> Array:
        return np.array(told[name], dtype=np.float64)

    return Detail(
        edges_s=array("edges_s"),
        idle=array("idle"),
        used=array("used"),
        bin_edges_s=array("bin_edges_s"),
        samples=array("samples"),
        lost_to_preemption=array("lost_to_preemption"),
        lost_to_rescale=array("lost_to_rescale"),
        trainers=tuple((name, model, start, end, done) for name, model, start, end, done in told["trainers"]),
        taken_within=tuple((span, share) for span, share in told["taken_within"]),
        returns=RescaleReturns(**told["returns"]),
    )
