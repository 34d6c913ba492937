"""The data for the figure of a single replay, small enough for a result file: means per step of
time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bftrainer_replay.simulation.play import ReplayOutcome, Scenario

_STEPS = 2016  # of five minutes each in a week: enough to zoom in

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Detail:
    """The data for figures of a single replay: ``idle`` and ``used`` are mean nodes in each of the
    equal steps between ``edges_s`` (seconds since 1970).
    """

    edges_s: Array
    idle: Array
    used: Array


def detail_of(scenario: Scenario, outcome: ReplayOutcome) -> dict[str, object]:
    """Return the :class:`Detail` of a replay as a JSON object, for its figure."""
    window, entries = scenario.window, outcome.entries
    edges_s = np.linspace(window.start_s, window.end_s, _STEPS + 1)
    at_s = np.array([*(entry.at_s for entry in entries), window.end_s])
    lengths = np.diff(at_s)

    def means(nodes: list[int]) -> list[float]:
        """Return the mean of a number of nodes in each step; ``nodes`` holds from decision to
        decision.
        """
        node_s = np.concatenate(([0.0], np.cumsum(np.array(nodes) * lengths)))
        means_of_steps = np.diff(np.interp(edges_s, at_s, node_s)) / np.diff(edges_s)
        return [round(float(mean), 2) for mean in means_of_steps]

    return {
        "edges_s": edges_s.tolist(),
        "idle": means([entry.pool_nodes for entry in entries]),
        "used": means([entry.used_nodes for entry in entries]),
    }


def read_detail(values: dict[str, Any]) -> Detail:
    """Read what :func:`detail_of` returned."""
    names = ("edges_s", "idle", "used")
    return Detail(*(np.array(values[name], dtype=np.float64) for name in names))
