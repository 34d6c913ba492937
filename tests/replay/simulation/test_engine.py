"""The engine gives what the Python core gives, to the last bit, or refuses."""

from __future__ import annotations

import importlib.util
import math
import os
import random
import shutil
import signal
import threading
import time
import warnings
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from replay.windows import summit_window
from support.needs import need

from bftrainer.decide.allocation.chain import build_allocator
from bftrainer.decide.allocation.objectives import OBJECTIVES
from bftrainer.decide.domain.events import PoolChanged
from bftrainer.decide.domain.model import Curve, Learning, Trainer
from bftrainer.decide.domain.ports import Policy
from bftrainer.decide.policies.bftrainer import BFTrainer
from bftrainer.decide.policies.equal_share import EqualShare
from bftrainer.decide.policies.guard import Guarded
from bftrainer.decide.policies.plain import Plain
from bftrainer.errors import BFTrainerError, UserError
from bftrainer_replay.generation.generate import generate
from bftrainer_replay.logs.model import LogWindow, PoolEvent, restricted_log
from bftrainer_replay.simulation.engine import library
from bftrainer_replay.simulation.engine.library import Engine
from bftrainer_replay.simulation.engine.outcome import EngineRows
from bftrainer_replay.simulation.engine.scenario import PolicyCode, pack
from bftrainer_replay.simulation.play import ReplayOutcome, Scenario, play
from bftrainer_replay.simulation.progress import CostModel, ReplayedTrainer
from bftrainer_replay.simulation.replay_world import Arrival, DecideOn, ReplayWorld
from bftrainer_replay.workload.curves import TABLE_2

ROOT = Path(__file__).resolve().parents[3]
COMPILER = os.environ.get("CXX", "c++")
SERVED = ("relative-speed", "throughput", "scaling-efficiency", "priority", "fair", "soon", "most")
# The line of a trainer alone decides what it does: these fields only say how it came about.
DERIVED = {"_rescaling", "saved", "trains_since_s"}
FIELDS = [field.name for field in fields(ReplayedTrainer) if field.name not in DERIVED]


def builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("engine_builder", ROOT / "packaging/engine.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """The engine, compiled here. Without a compiler, the tests are skipped; in CI they fail."""
    need("" if shutil.which(COMPILER) else f"no {COMPILER}, which builds the engine")
    target = tmp_path_factory.mktemp("engine") / "libengine.so"
    builder().compile_engine(ROOT, target)
    return Engine(target)


def figures(outcome: ReplayOutcome) -> tuple[object, ...]:
    runs = [tuple(getattr(run, name) for name in FIELDS) for run in outcome.runs]
    return outcome.totals, outcome.decisions, runs, tuple(outcome.entries)


def assert_equal(
    engine: Engine, scenario: Scenario, policy: Policy, case: object = "", **options: bool
) -> None:
    core = play(scenario, policy, engine=lambda: None, **options)
    served = play(scenario, policy, engine=lambda: engine, **options)
    assert isinstance(core.entries, tuple)
    assert isinstance(served.entries, EngineRows), f"refused: {case}"
    assert figures(served) == figures(core), case


def a_curve(rng: random.Random, largest: int) -> Curve:
    """Concave, super-linear, with a dip, or with few breakpoints."""
    nodes = sorted({largest, *rng.sample(range(1, largest + 1), rng.randint(1, largest))})
    power, one_node = rng.choice((0.0, 0.5, 0.8, 1.0, 1.3)), rng.uniform(0.1, 3000)
    per_s = [one_node * n**power * rng.choice((1.0, 1.0, rng.uniform(0.5, 1.2))) for n in nodes]
    if rng.random() < 0.05:
        per_s = [0.0] * len(nodes)
    return Curve(tuple(nodes), tuple(per_s))


def a_trainer(rng: random.Random, name: str, curves: Sequence[Curve]) -> Trainer:
    curve = rng.choice(curves)
    low = rng.randint(curve.nodes[0], curve.nodes[-1])
    return Trainer(
        name,
        curve,
        low,
        rng.randint(low, curve.nodes[-1]),
        rng.choice((0.0, 18.0, rng.uniform(0, 60))),
        rng.choice((0.0, 12.0, rng.uniform(0, 60))),
        samples_total=rng.choice((None, 500.0, 2e4, rng.uniform(1e3, 1e7))),
        priority=rng.choice((1.0, 2.5)),
        start_s=rng.choice((None, None, 5.0)),
        from_zero_s=rng.choice((None, None, 40.0)),
    )


def a_window(rng: random.Random, n_nodes: int, n_events: int) -> LogWindow:
    names = [f"n{number}" for number in range(n_nodes)]  # n2 before n10
    pool = set(rng.sample(names, rng.randint(0, n_nodes)))
    initial, events = frozenset(pool), []
    for at_s in sorted(rng.sample(range(1, 72_000), n_events)):
        flipped = set(rng.sample(names, rng.randint(1, max(n_nodes // 3, 1))))
        change = PoolChanged(frozenset(flipped - pool), frozenset(flipped & pool))
        events.append(PoolEvent(at_s / 10, change))
        pool ^= flipped
    return LogWindow(0.0, 7200.0, initial, tuple(events), n_nodes, "made")


def a_policy(rng: random.Random) -> Policy:
    choice = rng.random()
    if choice < 0.1:
        return EqualShare()
    if choice < 0.2:
        return Plain(rng.choice((0, 2, 5)), rng.choice((None, 33.0)))
    objective = OBJECTIVES[rng.choice(SERVED)]
    forward_s = rng.choice((objective.forward_s, 0.0, 30.0, 900.0))
    return BFTrainer(build_allocator("exact", 10.0), objective, forward_s)


def a_case(seed: int) -> tuple[Scenario, Policy, dict[str, bool]]:
    """Draw a scenario that the engine serves, with a policy."""
    rng = random.Random(seed)
    n_nodes = rng.choice((1, 5, 16, 100))
    curves = [a_curve(rng, rng.choice((1, 4, 16, 40))) for _ in range(rng.randint(1, 4))]
    arrivals = tuple(
        Arrival(float(rng.randint(-60, 6000)), a_trainer(rng, f"t{number}", curves))
        for number in range(rng.randint(0, rng.choice((8, 60))))
    )
    policy = a_policy(rng)
    decides_number = isinstance(policy, BFTrainer) and policy.objective.kappa is not None
    scenario = Scenario(
        a_window(rng, n_nodes, rng.randint(0, 40)),
        arrivals,
        None if decides_number and rng.random() < 0.8 else rng.randint(1, 30),
        CostModel.STALL,
        rng.choice((DecideOn.ALL, DecideOn.ALL, DecideOn.POOL)),
        until_done=rng.random() < 0.2,
    )
    return scenario, policy, {"skip_queueing": rng.random() < 0.2}


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_random_scenarios_have_equal_outcomes(engine: Engine, first: int) -> None:
    for seed in range(first, first + 50):
        scenario, policy, options = a_case(seed)
        assert_equal(engine, scenario, policy, seed, **options)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(200, 1000, 100))
def test_a_thousand_random_scenarios_have_equal_outcomes(engine: Engine, first: int) -> None:
    for seed in range(first, first + 100):
        scenario, policy, options = a_case(seed)
        assert_equal(engine, scenario, policy, seed, **options)


def submitted(window: LogWindow, count: int, every_s: float) -> tuple[Arrival, ...]:
    """Trainers of the models of Table 2 in turn, with the costs of the paper."""
    curves = [TABLE_2[name] for name in sorted(TABLE_2)]
    return tuple(
        Arrival(
            window.start_s + every_s * k,
            Trainer(f"t{k:04d}", curves[k % len(curves)], 1, 64, 18.0, 12.0, 1.3e8),
        )
        for k in range(count)
    )


@pytest.mark.parametrize("objective", ["fair", "relative-speed"])
def test_a_generated_log_has_equal_outcomes(engine: Engine, objective: str) -> None:
    window = restricted_log(generate(256, 0.5, 1))
    policy = BFTrainer(build_allocator("auto", 10.0), OBJECTIVES[objective], 240.0)
    places = None if objective == "fair" else 10
    assert_equal(engine, Scenario(window, submitted(window, 60, 600.0), places), policy)


@pytest.mark.data
def test_hours_of_summit_have_equal_outcomes(engine: Engine) -> None:
    window = summit_window(3.0)
    arrivals = submitted(window, 120, 90.0)
    fair = OBJECTIVES["fair"]
    policy = BFTrainer(build_allocator("exact", 10.0), fair, fair.forward_s)
    assert_equal(engine, Scenario(window, arrivals, None), policy)
    assert_equal(engine, Scenario(window, arrivals, 10), EqualShare())


WINDOW = LogWindow(
    0.0,
    600.0,
    frozenset({"n1", "n2"}),
    (PoolEvent(60.0, PoolChanged(frozenset({"n3"}), frozenset({"n1"}))),),
    3,
    "by hand",
)
TRAINER = Trainer("a", Curve((1, 4), (10.0, 30.0)), 1, 4, 18.0, 12.0, 1e4)
PLAIN_SCENARIO = Scenario(WINDOW, (Arrival(0.0, TRAINER),), 2)


def with_trainer(trainer: Trainer, **more: object) -> Scenario:
    return replace(PLAIN_SCENARIO, arrivals=(Arrival(0.0, trainer, **more),))


@pytest.mark.parametrize(
    "scenario",
    [
        replace(PLAIN_SCENARIO, cost_model=CostModel.PAPER),
        replace(PLAIN_SCENARIO, cost_model=CostModel.OVERLAP),
        replace(PLAIN_SCENARIO, checkpoint_s=60.0),
        with_trainer(replace(TRAINER, sizes=(1, 2, 4))),
        with_trainer(replace(TRAINER, fill=True)),
        with_trainer(replace(TRAINER, learning=Learning())),
        with_trainer(TRAINER, actual_samples=5e3),
        with_trainer(TRAINER, stops_after_s=50.0),
        with_trainer(TRAINER, actual=replace(TRAINER, scale_up_s=30.0)),
        replace(
            PLAIN_SCENARIO,
            window=replace(WINDOW, initial=frozenset({"n1#7.g0", "n1#7.g1"}), events=()),
        ),
    ],
)
def test_what_the_engine_does_not_serve_runs_in_python(engine: Engine, scenario: Scenario) -> None:
    outcome = play(scenario, EqualShare(), engine=lambda: engine)
    assert not isinstance(outcome.entries, EngineRows)
    assert figures(outcome) == figures(play(scenario, EqualShare(), engine=lambda: None))


def test_a_policy_that_the_engine_does_not_know_runs_in_python(engine: Engine) -> None:
    policies = (
        Guarded(EqualShare(), 3600.0),
        BFTrainer(build_allocator("highs", 10.0), OBJECTIVES["throughput"], 120.0),
        BFTrainer(build_allocator("exact", 10.0), OBJECTIVES["progress"], 120.0),
        BFTrainer(build_allocator("exact", 10.0), OBJECTIVES["ageing"], 120.0),
    )
    for policy in policies:
        outcome = play(PLAIN_SCENARIO, policy, engine=lambda: engine)
        assert not isinstance(outcome.entries, EngineRows), policy


@pytest.mark.parametrize("objective", ["relative-speed", "priority", "throughput"])
def test_rates_so_different_that_a_quotient_overflows_have_the_error_of_the_core(
    engine: Engine, objective: str
) -> None:
    rates = {"a": 1e-300, "b": 1e20, "c": 1.7e308}
    trainers = [
        replace(TRAINER, id=name, curve=Curve((1, 4), (rate / 4, rate)), samples_total=None)
        for name, rate in rates.items()
    ]
    arrivals = tuple(Arrival(0.0, trainer) for trainer in trainers)
    policy = BFTrainer(build_allocator("exact", 10.0), OBJECTIVES[objective], 1e6)
    scenario = replace(PLAIN_SCENARIO, arrivals=arrivals)
    assert ended(scenario, policy, engine) == ended(scenario, policy, None)


def ended(scenario: Scenario, policy: Policy, engine: Engine | None) -> str:
    """The figures, or the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of the core's arithmetic
        try:
            return repr(figures(play(scenario, policy, engine=lambda: engine)))
        except (BFTrainerError, ArithmeticError) as error:
            return repr(error)


def test_a_contradictory_log_has_the_error_of_the_core(engine: Engine) -> None:
    twice = PoolEvent(90.0, PoolChanged(left=frozenset({"n1"})))
    scenario = replace(PLAIN_SCENARIO, window=replace(WINDOW, events=(*WINDOW.events, twice)))
    with pytest.raises(Exception, match="n1 left but was not in the pool"):
        play(scenario, EqualShare(), engine=lambda: engine)


def test_rows_can_be_left_out(engine: Engine) -> None:
    outcome = play(PLAIN_SCENARIO, EqualShare(), engine=lambda: engine, keep_entries=False)
    assert (len(outcome.entries), outcome.decisions) == (0, len(outcome.decision_s))
    assert outcome.totals == play(PLAIN_SCENARIO, EqualShare(), engine=lambda: None).totals
    assert outcome.decisions > 0


def test_a_trainer_without_a_value_counts_once_it_is_submitted(engine: Engine) -> None:
    late = replace(TRAINER, id="late", priority=1e300, curve=Curve((1, 4), (1e20, 3e20)))
    scenario = replace(PLAIN_SCENARIO, arrivals=(Arrival(0.0, TRAINER), Arrival(700.0, late)))
    policy = BFTrainer(build_allocator("exact", 10.0), OBJECTIVES["priority"], 120.0)
    assert ended(scenario, policy, engine) == ended(scenario, policy, None)


def test_ctrl_c_ends_a_replay_of_the_engine(engine: Engine) -> None:
    """The time of an event is not a number, so that the replay would never end."""
    world = ReplayWorld(replace(WINDOW), PLAIN_SCENARIO.arrivals)
    code = PolicyCode(2)
    packed = pack(world, PLAIN_SCENARIO.arrivals, 2, code, keep_rows=False)
    assert packed is not None
    packed.window.event_s[0] = math.nan
    main = threading.get_ident()
    timer = threading.Timer(0.2, lambda: signal.pthread_kill(main, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        engine.run(packed.structure)
    timer.join()


def test_ctrl_c_waits_until_the_engine_has_let_go_of_the_memory(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = threading.get_ident()
    returned = []

    def interrupted_replay(scenario: object) -> None:
        time.sleep(0.2)  # until the main thread waits
        signal.pthread_kill(main, signal.SIGINT)
        time.sleep(0.5)
        returned.append(scenario)

    monkeypatch.setattr(engine, "_library", SimpleNamespace(bftrainer_replay=interrupted_replay))
    with pytest.raises(KeyboardInterrupt):
        engine.run(library.ReplayIn())
    assert returned


def test_a_library_of_an_earlier_source_is_refused(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an update of an editable installation: its figures would be those of before."""
    later = tmp_path / "engine.cpp"
    later.write_bytes(library.SOURCE.read_bytes() + b"// later\n")
    monkeypatch.setattr(library, "SOURCE", later)
    with pytest.raises(OSError, match=r"was not built from .*engine\.cpp; build it again"):
        Engine(engine.path)


def test_a_library_of_something_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "libengine.so"
    path.write_bytes(b"no library")
    with pytest.raises(OSError, match=r"libengine\.so"):
        Engine(path)
    monkeypatch.setenv(library.CHOICE, str(path))
    with pytest.raises(UserError, match=r"^BFTRAINER_ENGINE: .*libengine\.so"):
        library.installed.__wrapped__()
    monkeypatch.chdir(tmp_path)  # the library of this name of the system is another one
    monkeypatch.setenv(library.CHOICE, "libc.so.6")
    with pytest.raises(UserError, match=f"^BFTRAINER_ENGINE: {tmp_path}"):
        library.installed.__wrapped__()
