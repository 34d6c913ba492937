"""A cell of a sweep (one log, one workload, one combination of settings) and its tasks, named by their content.

A cell needs three replays: under its policy, on constant nodes (A_s), and without rescale costs (the no-cost bound); and the
bound of nodes that have had the time to start. Only the first depends on all settings, so cells share the others: tasks with
the same content have the same key and are computed once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from functools import cached_property

from bftrainer import __version__
from bftrainer.allocation.objectives import DEFAULT_OBJECTIVE
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.simulation.progress import CostModel
from bftrainer_replay.simulation.world import Arrival, DecideOn

_FORMAT = 7  # of a result: increase it whenever a result gets new content or a new meaning
# These policies ignore T_fwd, the objective and the solver: one replay serves all their values.
_WITHOUT_SETTINGS = ("equal-share",)


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of settings. ``log`` and ``workload`` are names in :class:`Inputs`.

    ``max_parallel`` 0: no P_jmax, the policy decides how many train. ``cost_factor`` multiplies R_up and R_dw. ``detail`` keeps
    the data for figures of a single replay.
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
    detail: bool = False

    def looks_beyond(self, rescale_s: float) -> bool:
        """Whether T_fwd is longer than a rescale that takes ``rescale_s`` before ``cost_factor`` applies."""
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
        return {name: _digest(map(repr, arrivals)) for name, arrivals in self.arrivals.items()}


class TaskKind(Enum):
    """What a task computes; ``STATIC_BINS`` is A_s for each bin of the figures."""

    REPLAY = "replay"
    STATIC = "static"
    BOUND = "bound"
    START_BOUND = "start-bound"
    STATIC_BINS = "static-bins"


@dataclass(frozen=True, slots=True)
class Task:
    """One computation for a cell. ``key``, a hash of everything that it depends on, names its result file."""

    kind: TaskKind
    cell: Cell
    key: str


def task(kind: TaskKind, cell: Cell, inputs: Inputs) -> Task:
    """A task; its key leaves out the settings that it does not depend on."""
    told: dict[str, object] = asdict(cell)
    for name in ("log", "workload"):
        del told[name]
    if kind is not TaskKind.REPLAY:
        told = {"max_parallel": cell.max_parallel, "cost_model": cell.cost_model}
        if kind is TaskKind.START_BOUND:
            told["cost_factor"] = cell.cost_factor
    elif cell.policy in _WITHOUT_SETTINGS:
        for name in ("objective", "forward_s"):
            del told[name]
    content = {
        **told,
        "kind": kind,
        "version": __version__,
        "format": _FORMAT,
        "window": inputs.window_digests[cell.log],
        "arrivals": inputs.arrival_digests[cell.log, cell.workload, cell.seed],
    }
    text = json.dumps(content, sort_keys=True, default=lambda value: value.value)
    return Task(kind, cell, hashlib.sha256(text.encode()).hexdigest()[:24])


def tasks_of(cells: Iterable[Cell], inputs: Inputs, *, bounds: bool = True) -> tuple[Task, ...]:
    """All tasks of the cells, each once, in the order of the cells; ``bounds=False`` leaves out the bounds."""
    kinds = [TaskKind.REPLAY, TaskKind.STATIC, *((TaskKind.BOUND, TaskKind.START_BOUND) if bounds else ())]
    found: dict[str, Task] = {}
    for cell in cells:
        for kind in kinds if cell.max_parallel else kinds[:1]:  # U is relative to P_jmax
            each = task(kind, cell, inputs)
            found.setdefault(each.key, each)
    return tuple(found.values())


def _window_digest(window: LogWindow) -> str:
    head = (window.start_s, window.end_s, sorted(window.initial))
    events = ((e.at_s, sorted(e.change.joined), sorted(e.change.left)) for e in window.events)
    return _digest(map(repr, (head, *events)))


def _digest(lines: Iterable[str]) -> str:
    found = hashlib.sha256()
    for line in lines:
        found.update(line.encode())
        found.update(b"\n")
    return found.hexdigest()
