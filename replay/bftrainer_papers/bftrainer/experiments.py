"""The paper's experiments as cells of a sweep: the part of the log, the trainers, the settings.

As in the authors' replayer, decisions are made only when the pool changes, and a rescale subtracts
a number of samples from the progress of a trainer (cost model ``paper``). There are three windows
of the same nodes: the week of 5.1, its first 60 h (5.4.1), and the whole log, for experiments that
run until all trainers complete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bftrainer.decide.domain.model import Curve
from bftrainer.errors import UserError
from bftrainer_papers.bftrainer.cells import BOUND, REPLAY, STATIC, STATIC_BINS, paper_task
from bftrainer_papers.bftrainer.claims import PARALLEL
from bftrainer_replay.analysis.window_fragments import pool_sizes_of
from bftrainer_replay.logs.event_log import format_time, parse_time
from bftrainer_replay.logs.model import EventLog, LogWindow, restricted_log
from bftrainer_replay.logs.node_list import hashed_sample
from bftrainer_replay.simulation.progress import CostModel
from bftrainer_replay.simulation.replay_world import Arrival, DecideOn
from bftrainer_replay.sweep.cell import Cell, Inputs, Task, each_once
from bftrainer_replay.workload.workload import hpo, submissions, trainers_of_many_users

START_S = parse_time("2021-02-10T20:21:15")
"""Row 1,000 of the authors' log, where their replayer begins."""
NODES = 1024
WEEK_H, SHORT_H = 168.0, 60.0
TRIALS, SPACING_S = 1000, 36.0
BASE_MODEL = "shufflenet"
DIVERSE = "diverse"
HIGH_UP = f"hpo-{BASE_MODEL}, R_up dearer"  # part of the cells' keys
OBJECTIVES = ("throughput", "scaling-efficiency")
BASE_FORWARD_S = 120.0
REPLAYER_FORWARD_S = 10.0
"""The default of the authors' replayer; the paper does not state the T_fwd of 5.3."""


@dataclass(frozen=True, slots=True)
class ExperimentSources:
    """The log, the nodes in order of preference, the curves, and the authors' diverse trainers if
    they are available.
    """

    log: EventLog
    nodes: Sequence[str]
    curves: Mapping[str, Curve]
    trainers: tuple[Arrival, ...] | None = None


@dataclass(frozen=True, slots=True)
class ExperimentGrid:
    """The values of the settings; ``trials`` and ``solves`` are smaller in tests only."""

    forward_s: tuple[float, ...]
    parallel: tuple[int, ...]
    cost_factors: tuple[float, ...]
    solver_trainers: tuple[int, ...] = (5, 10, 20, 35)
    solver_nodes: tuple[int, ...] = (100, 200, 400, 800)
    solves: int = 10
    trials: int = TRIALS


QUICK = ExperimentGrid(
    (10.0, 60.0, 120.0, 300.0), (5, 10, 35), (1.0, 2.0, 10.0), (5, 10, 35), (100, 400, 800), 3
)
FULL = ExperimentGrid(
    (10.0, 20.0, 30.0, 60.0, 90.0, 120.0, 180.0, 240.0, 300.0, 480.0, 600.0),
    PARALLEL,
    (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0),
)


def windows_of(sources: ExperimentSources) -> dict[str, LogWindow]:
    """Cut the windows of the experiments out of the log: ``machine`` is all nodes from the paper's
    start on; ``week``, ``60 h`` and ``whole`` are the first 1,024 of the nodes.

    A log that does not contain the paper's start is used from its own start. A log with fewer nodes
    is used whole.
    """
    first_s, last_s = sources.log.events[0].at_s, sources.log.events[-1].at_s
    start_s = START_S if first_s <= START_S < last_s else first_s
    if start_s >= last_s:
        raise UserError(
            f"the log has only one row ({format_time(first_s)}), expected at least two rows"
        )
    chosen = sources.nodes[:NODES]

    def part(hours: float | None) -> LogWindow:
        end_s = last_s if hours is None else min(start_s + hours * 3600, last_s)
        return replace(
            restricted_log(sources.log, start_s=start_s, end_s=end_s, nodes=chosen), queue=None
        )

    # A window without idle nodes has A_s 0, and no efficiency could be computed.
    if not pool_sizes_of(part(SHORT_H)).node_s():
        raise UserError(
            f"none of the {len(chosen):,} nodes is idle in the first {SHORT_H:g} h from "
            f"{format_time(start_s)}"
        )
    machine = restricted_log(sources.log, start_s=start_s, nodes=sources.nodes)
    return {"machine": machine, "week": part(WEEK_H), "60 h": part(SHORT_H), "whole": part(None)}


def order_of(log: EventLog, listed: Sequence[str] | None) -> tuple[str, ...]:
    """Return the node names of a log in the order in which experiments take their first 1,024.

    ``listed`` are the columns of the authors' log. Without them, the order is that of the hashes of
    the names, which is arbitrary but the same in every run.
    """
    seen = log.nodes()
    if listed is None:
        return hashed_sample(seen, len(seen))
    if set(seen).isdisjoint(listed[:NODES]):
        raise UserError(
            f"none of the first {NODES} nodes of --node-list is in the log, which has names "
            f"such as {seen[0]}"
        )
    return tuple(listed)


def inputs_of(sources: ExperimentSources, grid: ExperimentGrid) -> Inputs:
    """Return the windows and trainers of the experiments, by name.

    Trainers are ``hpo-MODEL`` for each model, the diverse trainers, and those of the base model
    with only R_up (the cost of growing) increased.
    """
    windows = windows_of(sources)
    start_s = windows["week"].start_s
    times = submissions(start_s, grid.trials, SPACING_S)
    mixed = sources.trainers or trainers_of_many_users(times, 1, sources.curves)
    arrivals: dict[tuple[str, str, int], tuple[Arrival, ...]] = {}
    for log in ("week", "60 h", "whole"):
        arrivals[log, DIVERSE, 0] = mixed
        for model in sources.curves:
            arrivals[log, f"hpo-{model}", 0] = hpo(model, times, sources.curves)
    factor = grid.cost_factors[-1]
    arrivals["week", HIGH_UP, 0] = tuple(
        replace(
            arrival,
            trainer=replace(arrival.trainer, scale_up_s=factor * arrival.trainer.scale_up_s),
        )
        for arrival in arrivals["week", f"hpo-{BASE_MODEL}", 0]
    )
    return Inputs(windows, arrivals)


@dataclass(frozen=True, slots=True)
class ExperimentPlan:
    """Cells by figure. ``base`` is the MILP at T_fwd 120, ``equal`` is equal share; both and
    ``forward`` store their detail.

    ``parallel_short`` is ``parallel`` at the default T_fwd of the authors' replayer; ``models_all``
    decides at every event; ``high_up`` is the last of ``costs`` with only R_up increased.
    """

    base: Cell
    equal: Cell
    forward: tuple[Cell, ...]
    until_done: Mapping[str, Cell]
    objectives: Mapping[str, tuple[Cell, ...]]
    parallel: Mapping[str, tuple[Cell, ...]]
    parallel_short: Mapping[str, tuple[Cell, ...]]
    models: Mapping[str, Cell]
    models_all: Mapping[str, Cell]
    costs: tuple[Cell, ...]
    high_up: Cell
    all_events: Cell
    stall: Cell

    @property
    def cells(self) -> tuple[Cell, ...]:
        """All cells, each once, the base first."""
        groups = (*self.objectives.values(), *self.parallel.values(), *self.parallel_short.values())
        every = [
            self.base,
            self.equal,
            *self.forward,
            *self.costs,
            *self.models.values(),
            *self.models_all.values(),
        ]
        every += [
            *self.until_done.values(),
            self.high_up,
            self.all_events,
            self.stall,
            *(cell for group in groups for cell in group),
        ]
        return tuple(dict.fromkeys(every))

    def tasks(self, inputs: Inputs) -> tuple[Task, ...]:
        """The replays, the runs on constant nodes, one no-cost bound, and A_s of each six hours."""
        wanted = [(kind, cell) for kind in (REPLAY, STATIC) for cell in self.cells]
        wanted += [(BOUND, self.base), (STATIC_BINS, self.base)]
        return each_once(paper_task(kind, cell, inputs) for kind, cell in wanted)


def plan_of(grid: ExperimentGrid, models: Sequence[str]) -> ExperimentPlan:
    """Return the cells (replays) that each figure of the paper needs, for a grid of settings.

    All start from ``base`` (the MILP at T_fwd 120 s on one week) and change one setting each. Only
    models that have a curve get cells.
    """
    base = Cell(
        "week",
        f"hpo-{BASE_MODEL}",
        objective="throughput",
        forward_s=BASE_FORWARD_S,
        cost_model=CostModel.PAPER,
        decide_on=DecideOn.POOL,
        detail=True,
    )
    bare = replace(base, detail=False)
    mixed = replace(bare, workload=DIVERSE)
    whole = replace(mixed, log="whole")

    parallel = {o: _with_parallel(replace(whole, objective=o), grid.parallel) for o in OBJECTIVES}
    by_model = {model: replace(bare, log="60 h", workload=f"hpo-{model}") for model in models}
    return ExperimentPlan(
        base=base,
        equal=replace(base, policy="equal-share"),
        forward=_with_forward((base,), grid.forward_s),
        until_done={
            m: replace(bare, log="whole", workload=f"hpo-{m}")
            for m in ("alexnet", BASE_MODEL)
            if m in models
        },
        objectives={
            o: _with_forward((replace(mixed, objective=o),), grid.forward_s) for o in OBJECTIVES
        },
        parallel=parallel,
        parallel_short={
            o: _with_forward(cells, (REPLAYER_FORWARD_S,)) for o, cells in parallel.items()
        },
        models=by_model,
        models_all={
            m: replace(by_model[m], decide_on=DecideOn.ALL)
            for m in ("alexnet", "densenet")
            if m in by_model
        },
        costs=tuple(
            base if factor == 1.0 else replace(bare, cost_factor=factor)
            for factor in grid.cost_factors
        ),
        high_up=replace(bare, workload=HIGH_UP),
        all_events=replace(bare, decide_on=DecideOn.ALL),
        stall=replace(bare, decide_on=DecideOn.ALL, cost_model=CostModel.STALL),
    )


def _with_forward(cells: Sequence[Cell], forward_s: Sequence[float]) -> tuple[Cell, ...]:
    """The cells at every T_fwd."""
    return tuple(replace(cell, forward_s=value) for cell in cells for value in forward_s)


def _with_parallel(cell: Cell, numbers: Sequence[int]) -> tuple[Cell, ...]:
    """The cell at every P_jmax."""
    return tuple(replace(cell, max_parallel=number) for number in numbers)
