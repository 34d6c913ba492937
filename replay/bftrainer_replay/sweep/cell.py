"""A cell of a sweep (one log, one workload, one combination of settings) and its replay, a task
named by its content.

Tasks with the same content have the same key and are computed once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Literal

from bftrainer import __version__
from bftrainer.decide.allocation.objectives import DEFAULT_OBJECTIVE
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.simulation.progress import CostModel
from bftrainer_replay.simulation.replay_world import Arrival, DecideOn

REPLAY, POOL = "replay", "pool"
"""The kinds of task that replay a cell under its policy, and with a pool beside its trainings."""
CurveKnowledge = Literal["known", "learn"]
_FORMAT = 10  # of a result: increase it whenever a result gets new content or a new meaning
# These policies ignore T_fwd, the objective and the solver: one replay serves all their values.
_WITHOUT_SETTINGS = ("equal-share",)


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of settings. ``log`` and ``workload`` are names in :class:`Inputs`.

    ``max_parallel`` 0: no P_jmax, the policy decides how many train. ``cost_factor`` multiplies
    R_up and R_dw. ``split`` divides the nodes, the trainers and P_jmax among so many pilots.
    ``checkpoint_s`` is the time between checkpoints of a trainer, 0: it writes one at the notice.
    ``curves``: the policy is told them, or measures them with the relative error ``noise``.
    ``detail`` keeps the data for figures of a single replay.
    """

    log: str
    workload: str
    policy: str = "bftrainer"
    objective: str = DEFAULT_OBJECTIVE
    forward_s: float = 120.0
    max_parallel: int = 10
    cost_factor: float = 1.0
    seed: int = 0
    cost_model: CostModel = CostModel.STALL
    decide_on: DecideOn = DecideOn.ALL
    split: int = 1
    checkpoint_s: float = 0.0
    curves: CurveKnowledge = "known"
    noise: float = 0.0
    detail: bool = False

    def looks_beyond(self, rescale_s: float) -> bool:
        """Whether T_fwd is longer than a rescale that takes ``rescale_s`` before ``cost_factor``
        applies.
        """
        return self.forward_s > self.cost_factor * rescale_s


@dataclass(frozen=True)
class Inputs:
    """The objects that cells name: windows by log, arrivals by (log, workload, seed)."""

    windows: Mapping[str, LogWindow]
    arrivals: Mapping[tuple[str, str, int], tuple[Arrival, ...]]

    def arrivals_of(self, cell: Cell) -> tuple[Arrival, ...]:
        """The trainers of a cell, before ``cost_factor`` applies."""
        return self.arrivals[cell.log, cell.workload, cell.seed]

    @cached_property
    def window_digests(self) -> dict[str, str]:
        """A hash of the content of each window, independent of its file name."""
        return {name: _window_digest(window) for name, window in self.windows.items()}

    @cached_property
    def arrival_digests(self) -> dict[tuple[str, str, int], str]:
        """A hash of the content of each workload."""
        return {
            name: _lines_digest(map(repr, arrivals)) for name, arrivals in self.arrivals.items()
        }


@dataclass(frozen=True, slots=True)
class Task:
    """One computation for a cell. ``key``, a hash of everything that it depends on, names its
    result file.
    """

    cell: Cell
    key: str
    kind: str


def task(cell: Cell, inputs: Inputs, kind: str = REPLAY, on: Iterable[str] | None = None) -> Task:
    """Return the computation of ``kind`` for a cell, with a key that names its result file.

    The key is a hash of the inputs and of the settings named in ``on``; by default of those that
    the policy uses, so that cells which differ in others share a result.
    """
    unused = {"log", "workload"}
    if cell.policy in _WITHOUT_SETTINGS:
        unused |= {"objective", "forward_s"}
    settings: dict[str, object] = {
        name: value
        for name, value in asdict(cell).items()
        if name not in unused and (on is None or name in on)
    }
    content = {
        **settings,
        "kind": kind,
        "version": __version__,
        "format": _FORMAT,
        "window": inputs.window_digests[cell.log],
        "arrivals": inputs.arrival_digests[cell.log, cell.workload, cell.seed],
    }
    text = json.dumps(content, sort_keys=True, default=lambda value: value.value)
    return Task(cell, hashlib.sha256(text.encode()).hexdigest()[:24], kind)


def each_once(tasks: Iterable[Task]) -> tuple[Task, ...]:
    """The tasks in their order, without those that compute the same."""
    return tuple({task.key: task for task in tasks}.values())


def _window_digest(window: LogWindow) -> str:
    """Return a hash of all that a replay uses of a window."""
    head = (window.start_s, window.end_s, sorted(window.initial))
    events = (
        (event.at_s, sorted(event.change.joined), sorted(event.change.left))
        for event in window.events
    )
    return _lines_digest(map(repr, (head, *events)))


def _lines_digest(lines: Iterable[str]) -> str:
    """A hash of the lines and their order."""
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line.encode())
        digest.update(b"\n")
    return digest.hexdigest()
