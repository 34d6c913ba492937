"""Replays a workload on a log, and the *static* run that its efficiency refers to (paper 4.1).

The static run gives A_s, the outcome of N_eq constant nodes (Eqn 18) under equal share without
rescale costs.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.core.loop import run
from bftrainer.decide.domain.model import Trainer
from bftrainer.decide.domain.ports import Policy
from bftrainer.decide.domain.state import State
from bftrainer.decide.policies.equal_share import EqualShare
from bftrainer.decide.policies.requirements import (
    check_needs,
    has_priority_order,
    is_rigid,
    is_unlimited,
)
from bftrainer.decide.policies.timed import TimedPolicy
from bftrainer_replay.analysis.window_fragments import pool_sizes_of
from bftrainer_replay.logs.model import LogWindow
from bftrainer_replay.simulation.engine.library import Engine, installed
from bftrainer_replay.simulation.engine.outcome import EngineRows, runs_of, totals_of
from bftrainer_replay.simulation.engine.scenario import code_of, is_served, pack
from bftrainer_replay.simulation.ledger import Ledger, LedgerRow
from bftrainer_replay.simulation.meter import Meter
from bftrainer_replay.simulation.progress import CostModel, ReplayedTrainer
from bftrainer_replay.simulation.replay_world import Arrival, DecideOn, ReplayTotals, ReplayWorld

OnTime = Callable[[float], None]
"""Called with the replayed time (s) of every event, for a progress bar."""
USUAL = 10
"""The paper's P_jmax on 1,024 nodes of Summit."""
MOST = 100
"""A replay of more trainers at once takes long: the time of a decision grows with their number."""
_SPARE_NODES = 2.0  # about half of the idle node-time is on days with more nodes than on average
_ALLOCATIONS = 20_000  # between two collections


@dataclass(frozen=True, slots=True)
class Scenario:
    """The input of a replay: nodes, trainers, the number admitted at once (P_jmax), and the cost of
    a rescale.

    P_jmax None: the policy decides how many train; a policy that cannot gets
    :func:`enough_trainers`.

    A trainer that loses its nodes writes a checkpoint at the notice of the scheduler. With
    ``checkpoint_s`` there is no notice: it repeats the work since its last checkpoint, one every so
    often, under every policy. Where curves are learned, ``noise`` is the relative standard
    deviation of one measurement, drawn with ``noise_seed``. ``until_done``: the replay ends with
    the last trainer of a known length, not with the window.
    """

    window: LogWindow
    arrivals: tuple[Arrival, ...]
    max_parallel: int | None = 10
    cost_model: CostModel = CostModel.STALL
    decide_on: DecideOn = DecideOn.ALL
    checkpoint_s: float | None = None
    noise: float = 0.0
    noise_seed: int = 0
    until_done: bool = False


@dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """The result of a replay: totals, trainers, journal entries, and timings (``decision_s`` and
    ``wall_s``).
    """

    totals: ReplayTotals
    runs: tuple[ReplayedTrainer, ...]
    entries: Sequence[LedgerRow]
    decisions: int
    decision_s: tuple[float, ...]
    wall_s: float


def play(
    scenario: Scenario,
    policy: Policy,
    *,
    on_time: OnTime | None = None,
    keep_entries: bool = True,
    skip_queueing: bool = False,
    engine: Callable[[], Engine | None] = installed,
) -> ReplayOutcome:
    """Replay a scenario under a policy; return the outcome, of which all but timings is
    deterministic.

    Raises if the policy cannot serve a trainer. The engine that ``engine()`` returns (a compiled
    library) replays what it serves, with the same results; all else is replayed in Python.
    ``skip_queueing``: no decision where a submission only lengthens the queue, for policies that
    change nothing then. ``keep_entries``: the outcome has a journal entry for each decision.
    """
    arrivals = _started_as(policy, scenario.arrivals)
    for arrival in arrivals:
        check_needs(policy, scenario.cost_model.costs_of(arrival.trainer))
    began = time.perf_counter()
    max_parallel = _max_parallel(policy, scenario)
    world = ReplayWorld(
        scenario.window,
        arrivals,
        scenario.cost_model,
        scenario.decide_on,
        scenario.checkpoint_s,
        Meter(scenario.noise, scenario.noise_seed),
        max_parallel if skip_queueing and max_parallel is not None else math.inf,
        is_rigid(policy),
        scenario.until_done,
    )
    library = engine()
    if library is not None:
        outcome = _by_engine(library, world, arrivals, policy, max_parallel, keep_entries)
        if outcome is not None:
            if on_time is not None:
                # The engine tells no progress before its end.
                on_time(scenario.window.end_s)
            return replace(outcome, wall_s=time.perf_counter() - began)
    timed = TimedPolicy(policy, time.perf_counter)
    ledger = Ledger(world, timed, on_time, keep_entries)
    with _rarely_collected():
        run(world, State(max_parallel), timed, ledger)
    return ReplayOutcome(
        totals=world.totals(),
        runs=tuple(world.runs.values()),
        entries=tuple(ledger.entries),
        decisions=len(ledger.took_s),
        decision_s=tuple(ledger.took_s),
        wall_s=time.perf_counter() - began,
    )


def _by_engine(
    engine: Engine,
    world: ReplayWorld,
    arrivals: Sequence[Arrival],
    policy: Policy,
    max_parallel: int | None,
    keep_entries: bool,
) -> ReplayOutcome | None:
    """Return the outcome of a replay by the engine; None if it does not serve this one.

    It may not serve the world, the trainers or the policy.
    """
    code = code_of(policy)
    if code is None or not is_served(world, arrivals):
        return None
    packed = pack(world, arrivals, max_parallel, code, keep_rows=keep_entries)
    if packed is None:
        return None
    result = engine.run(packed.structure)
    if result is None:
        return None
    solver = None if code.objective is None else Exact().name
    ids = [arrival.trainer.id for arrival in packed.arrivals]
    return ReplayOutcome(
        totals=totals_of(result),
        runs=runs_of(packed, result, world.cost_model, rigid=world.rigid),
        entries=EngineRows(result, ids, solver),
        decisions=len(result.took_s),
        decision_s=tuple(result.took_s.tolist()),
        wall_s=0.0,
    )


def trainings_of(scenario: Scenario) -> Scenario:
    """Return the scenario without the trainers that are pools of independent tasks (``fill``)."""
    return replace(
        scenario,
        arrivals=tuple(arrival for arrival in scenario.arrivals if not arrival.trainer.fill),
    )


def _max_parallel(policy: Policy, scenario: Scenario) -> int | None:
    """P_jmax of the scenario, or enough for its trainers; None if the policy has no limit."""
    if is_unlimited(policy) or (scenario.max_parallel is None and has_priority_order(policy)):
        return None
    trained = [arrival.trainer for arrival in trainings_of(scenario).arrivals]
    return scenario.max_parallel or enough_trainers(scenario.window, trained)


def enough_trainers(window: LogWindow, trainers: Sequence[Trainer]) -> int:
    """Twice N_eq over the largest size of a trainer, from :data:`USUAL` to :data:`MOST`."""
    largest = max((trainer.max_nodes for trainer in trainers), default=1)
    return min(max(math.ceil(_SPARE_NODES * equivalent_nodes(window) / largest), USUAL), MOST)


def _started_as(policy: Policy, arrivals: tuple[Arrival, ...]) -> tuple[Arrival, ...]:
    """Return the trainers with the policy's own time to start, if it has one, as plain jobs do.

    Pools keep theirs.
    """
    start_s = getattr(policy, "start_s", None)
    if start_s is None:
        return arrivals
    started = []
    for arrival in arrivals:
        if not arrival.trainer.fill:
            trainer = replace(arrival.trainer, scale_up_s=start_s, start_s=None)
            arrival = replace(arrival, trainer=trainer)
        started.append(arrival)
    return tuple(started)


@contextmanager
def _rarely_collected() -> Iterator[None]:
    """Collect garbage less often until the end of the block: a replay creates frozen values by the
    million, and hardly any cycle.
    """
    before = gc.get_threshold()
    # 0: the caller has switched it off.
    allocations = max(before[0], _ALLOCATIONS) if before[0] else 0
    gc.set_threshold(allocations, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def equivalent_nodes(window: LogWindow) -> float:
    """N_eq of Eqn 18: the constant number of nodes with the same node-time."""
    return pool_sizes_of(window).node_s() / window.span_s if window.span_s else 0.0


def static_outcome(scenario: Scenario, *, on_time: OnTime | None = None) -> float:
    """Return A_s: the samples of the queue on N_eq constant nodes, under equal share without costs.

    N_eq is the mean number of idle nodes; a fraction of a node is interpolated. Pools of tasks are
    left out.

    The paper assumes that the queue outlasts the window. If it does not, its rate is extrapolated
    to the end, so that A_s is the capacity of the nodes, not the work that there was.
    """
    return on_constant_nodes(trainings_of(scenario), equivalent_nodes(scenario.window), on_time)


def on_constant_nodes(scenario: Scenario, nodes: float, on_time: OnTime | None = None) -> float:
    """Return the samples of the queue on this number of nodes, under equal share without costs.

    A fraction of a node is interpolated between two whole numbers.
    """
    low, part = math.floor(nodes), nodes - math.floor(nodes)
    outcome = _on_constant_nodes(scenario, low, on_time)
    if part:
        outcome += part * (_on_constant_nodes(scenario, low + 1, on_time) - outcome)
    return outcome


def ran_out_s(outcome: ReplayOutcome, scenario: Scenario) -> float | None:
    """Return when the work ran out: fewer than P_jmax trainers were left, with none to be admitted.

    None if the work lasted, or without P_jmax (the limit of concurrent trainers).
    """
    trainings = [run for run in outcome.runs if not run.trainer.fill]
    admitted_s = [run.admitted_s for run in trainings if run.admitted_s is not None]
    if scenario.max_parallel is None or not admitted_s:
        return None
    if len(admitted_s) < len(trainings_of(scenario).arrivals):
        return None
    places = min(scenario.max_parallel, len(admitted_s))
    finished_s = sorted(run.finished_s for run in outcome.runs if run.finished_s is not None)
    # The first of these ends leaves fewer than ``places`` trainers at work.
    emptied_s = finished_s[len(admitted_s) - places :]
    return max(emptied_s[0], max(admitted_s)) if emptied_s else None


def _on_constant_nodes(scenario: Scenario, nodes: int, on_time: OnTime | None) -> float:
    """Return the samples of the queue on a whole number of nodes, under equal share without costs.

    They are extrapolated to the window's end if the work runs out.
    """
    if nodes == 0:
        return 0.0
    window = scenario.window
    names = frozenset(f"n{i:06d}" for i in range(nodes))
    constant = LogWindow(window.start_s, window.end_s, names, (), nodes, f"{nodes} constant nodes")
    static = replace(
        scenario, window=constant, arrivals=free_of_costs(scenario.arrivals), decide_on=DecideOn.ALL
    )
    outcome = play(static, EqualShare(), on_time=on_time, skip_queueing=True)
    end_s = ran_out_s(outcome, static)
    if end_s is None:
        return outcome.totals.samples
    samples = next(entry.totals.samples for entry in outcome.entries if entry.at_s >= end_s)
    return samples * window.span_s / (end_s - window.start_s)


def free_of_costs(arrivals: tuple[Arrival, ...]) -> tuple[Arrival, ...]:
    """The same trainers with their true curves and without rescale costs."""
    return tuple(
        replace(arrival, trainer=_free_of_costs(arrival.actual or arrival.trainer), actual=None)
        for arrival in arrivals
    )


def _free_of_costs(trainer: Trainer) -> Trainer:
    """The trainer without rescale costs."""
    return replace(trainer, scale_up_s=0.0, scale_down_s=0.0, start_s=None, from_zero_s=None)
