"""The requirements of every policy, one function each. They build policies and raise AssertionError
with the violation.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from bftrainer.counted import counted
from bftrainer.decide.allocation.check_decision import check_decision
from bftrainer.decide.core.loop import run
from bftrainer.decide.domain.events import Event, PoolChanged, TimerDue
from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.decide.domain.ports import Policy
from bftrainer.decide.domain.state import Active, Decision, Losses, Plan, State
from bftrainer.decide.policies.requirements import is_rigid
from bftrainer.decide.policies.wrapped import Wrapped, innermost
from bftrainer.errors import RejectedAnswerError
from bftrainer.pilot.persistence import codec
from bftrainer_replay.logs.model import LogWindow, PoolEvent
from bftrainer_replay.simulation.losses import FAMILIES
from bftrainer_replay.simulation.play import Scenario
from bftrainer_replay.simulation.progress import CostModel
from bftrainer_replay.simulation.replay_world import Arrival, ReplayWorld

Build = Callable[[], Policy]
DECISION_LIMIT_S = (
    2.0  # for one decision, 35 trainers on 800 nodes, on any machine; 0.05 is good for a pilot
)


def check_name(build: Build) -> None:
    """Check that the name is one word, the same every time."""
    name = build().name
    assert isinstance(name, str), f"name is {name!r}, expected text"
    assert len(name.split()) == 1, f"name is {name!r}, expected one word"
    assert build().name == name, "two policies built alike have different names"


def check_counts_are_legal(build: Build) -> None:
    """Check that each trainer gets one legal count, with a sum within the pool (Eqns 3, 5).

    Whatever the trainers hold, and for pools from no node on. Where the policy names nodes, they
    are as many as the count, each in the pool and with one trainer, and nested (Eqns 5, 6): a
    trainer that grows keeps all its nodes, one that shrinks gets no new one. A wake-up is later
    than the decision.
    """
    for seed in range(150):
        rng = random.Random(seed)
        state = a_state(rng, rng.randint(0, 8), rng.randint(0, 40))
        decision, _ = decision_on(build(), state)
        try:
            check_decision(state, decision)
        except RejectedAnswerError as error:
            raise AssertionError(f"case {seed}: {error}") from error
        assert all(type(n) is int for n in decision.counts), (
            f"case {seed}: counts {decision.counts} are not all int"
        )
        wake = decision.wake_at_s
        assert wake is None or wake > state.at_s, (
            f"case {seed}: wake_at_s is {wake}, expected more than {state.at_s}"
        )


def check_nothing_to_give(build: Build) -> None:
    """Check that there are no counts without trainers, and no nodes from an empty pool."""
    assert decision_on(build(), State(4))[0].counts == (), "counts without trainers"
    state = a_state(random.Random(1), 5, 0)
    assert decision_on(build(), state)[0].counts == (0,) * 5, "nodes from an empty pool"


def check_pure(build: Build) -> None:
    """Check that equal states give equal decisions and memories, from one policy asked twice and
    from two policies.
    """
    for seed in range(40):
        rng = random.Random(seed)
        state = a_state(rng, rng.randint(1, 8), rng.randint(1, 40))
        policy = build()
        first = decision_on(policy, state)
        # Another question in between, which must leave no trace.
        decision_on(policy, a_state(random.Random(seed + 1000), 3, 9))
        assert _comparable_answer(decision_on(policy, state)) == _comparable_answer(first), (
            f"case {seed}: it keeps state outside of its memory"
        )
        assert _comparable_answer(decision_on(build(), state)) == _comparable_answer(first), (
            f"case {seed}: a newly built policy decides differently"
        )


def check_memory_survives(build: Build) -> None:
    """Check that a policy decides the same after its memory was written as text and read back.

    The pilot's journal does that when the pilot restarts; here, at every event of a replay.
    """
    # The journal reads back only types of modules that it has been told of.
    codec.allow(type(innermost(build())).__module__)
    for seed in range(8):
        scenario = a_scenario(random.Random(seed), fixed=False)
        assert plans(scenario, build()) == plans(scenario, Forgetful(build())), (
            f"case {seed}: a restart changes decisions"
        )


def check_replays(build: Build) -> None:
    """Check that whole replays keep the rules of every plan, and that equal replays have equal
    plans.

    The pool changes in half of them, and is constant in the others.
    """
    for seed in range(12):
        scenario = a_scenario(random.Random(seed), fixed=seed % 2 == 0)
        assert plans(scenario, build()) == plans(scenario, build()), (
            f"case {seed}: two equal replays differ"
        )


def check_a_lone_trainer_runs(build: Build) -> None:
    """Check that a lone trainer gets nodes eventually, on a fixed pool that fits it."""
    scenario = a_scenario(random.Random(3), fixed=True)
    alone = replace(scenario, arrivals=scenario.arrivals[:1])
    trainer = replace(alone.arrivals[0].trainer, sizes=None, requested_nodes=1, min_nodes=1)
    alone = replace(alone, arrivals=(replace(alone.arrivals[0], trainer=trainer, at_s=0.0),))
    assert any(n for counts, _ in plans(alone, build()) for n in counts), (
        "a lone trainer never got a node"
    )


def check_speed(build: Build) -> None:
    """Check that the median decision for 35 trainers on 800 nodes takes less than two seconds."""
    rng = random.Random(35)
    took = []
    for _ in range(3):
        state, policy = a_state(rng, 35, 800, 64), build()
        began = time.perf_counter()
        decision_on(policy, state)
        took.append(time.perf_counter() - began)
    assert sorted(took)[1] < DECISION_LIMIT_S, f"a decision took {sorted(took)[1]:.2f} s"


CHECKS = (
    check_name,
    check_counts_are_legal,
    check_nothing_to_give,
    check_pure,
    check_memory_survives,
    check_replays,
    check_a_lone_trainer_runs,
    check_speed,
)


def decision_on(policy: Policy, state: State) -> tuple[Decision, object]:
    """Return the policy's decision on a state at a timer event."""
    return policy.decide(state, Event(state.at_s, (TimerDue(),)))


def plans(scenario: Scenario, policy: Policy) -> list[tuple[tuple[int, ...], float | None]]:
    """Return the counts and wake-up time of every decision of a replay, each checked against its
    state.
    """
    world = ReplayWorld(
        scenario.window,
        scenario.arrivals,
        scenario.cost_model,
        checkpoint_s=600.0,
        rigid=is_rigid(policy),
    )
    journal = Watching()
    run(world, State(max_parallel=scenario.max_parallel), policy, journal)
    return journal.plans


@dataclass
class Watching:
    """A journal that checks every plan: nodes of the pool only, one trainer per node, legal sizes,
    nested rescales.
    """

    pool: frozenset[str] = frozenset()
    plans: list[tuple[tuple[int, ...], float | None]] = field(default_factory=list)

    def record(self, event: Event, state: State, plan: Plan) -> None:
        """Check a decision's plan against the pool of the log, and keep its counts and wake-up
        time.

        ``self.pool`` follows the log by itself, so that a fault of the loop shows as well.
        """
        for change in event.changes:
            if isinstance(change, PoolChanged):
                self.pool = (self.pool - change.left) | change.joined
        assert state.pool == self.pool, "the pool differs from the log"
        given: set[str] = set()
        for active, nodes in zip(state.active, plan.nodes, strict=True):
            assert nodes <= state.pool, f"{active.trainer.id} got a node outside the pool"
            assert given.isdisjoint(nodes), "a node was allocated to two trainers"
            assert active.trainer.is_legal(len(nodes)), (
                f"{active.trainer.id} got {counted(len(nodes), 'node')}, not a legal size"
            )
            assert nodes <= active.nodes or nodes >= active.nodes, "a rescale is not nested"
            given |= nodes
        self.plans.append((plan.decision.counts, plan.decision.wake_at_s))
        assert len(self.plans) < 100_000, "the policy asks for wake-ups without end"


class Forgetful(Wrapped):
    """A policy whose memory passes through the text of the journal at every event, as after a
    crash.
    """

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        decision, memory = self.policy.decide(
            replace(state, memory=codec.loads(codec.dumps(state.memory))), event
        )
        return decision, memory


def _comparable_answer(answer: tuple[Decision, object]) -> tuple[object, ...]:
    """What has to be equal if a policy decides again on the same state."""
    decision, memory = answer
    return decision.counts, decision.nodes, decision.wake_at_s, memory


def a_trainer(rng: random.Random, name: str, largest: int = 16) -> Trainer:
    """Draw a trainer of any shape: dead zones, listed sizes, concave and convex curves.

    Curves are n**power; rescaling is free or takes seconds; a fifth has a list of sizes.
    """
    high = rng.randint(1, largest)
    low = rng.choice((1, 1, rng.randint(1, high)))
    power = rng.choice((0.5, 0.8, 1.0, 1.2))
    sizes = tuple(sorted(rng.sample(range(low, high + 1), rng.randint(1, min(3, high + 1 - low)))))
    listed = rng.random() < 0.2
    return Trainer(
        name,
        Curve(tuple(range(1, high + 1)), tuple(10.0 * n**power for n in range(1, high + 1))),
        low,
        high,
        rng.choice((0.0, 18.0)),
        rng.choice((0.0, 12.0)),
        samples_total=rng.choice((500.0, 2e4, 1e6)),
        sizes=sizes if listed else None,
        requested_nodes=rng.choice(sizes) if listed else rng.choice((None, low, high)),
        reports_loss=True,
    )


def a_state(rng: random.Random, trainers: int, nodes: int, largest: int = 16) -> State:
    """Draw a state with trainers in progress; it has no policy memory yet.

    Some trainers are below their minimum, as after a preemption.
    """
    free, active = [f"n{i:04d}" for i in range(nodes)], []
    for j in range(trainers):
        trainer = a_trainer(rng, f"t{j}", largest)
        held = min(rng.choice((0, rng.randint(0, trainer.max_nodes))), len(free))
        nodes_of_trainer, free = free[:held], free[held:]
        assert trainer.samples_total is not None
        done = rng.choice((0.0, rng.uniform(0, trainer.samples_total)))
        losses = None
        if done:
            losses = Losses(1.0, rng.random(), done, rng.choice((None, rng.random() / 1e3)))
        run_s = rng.uniform(0, 5e4)
        held_node_s = run_s * rng.uniform(1, 8)
        active.append(
            Active(trainer, frozenset(nodes_of_trainer), done, 0.0, run_s, held_node_s, losses)
        )
    pool = frozenset(free).union(*(admitted.nodes for admitted in active))
    return State(max(trainers, 1), rng.uniform(1e5, 2e5), pool, tuple(active))


def a_scenario(rng: random.Random, *, fixed: bool) -> Scenario:
    """Draw a scenario of two hours on up to 16 nodes with up to 8 trainers.

    ``fixed``: no node joins or leaves.
    """
    names = [f"n{i:02d}" for i in range(16)]
    pool = set(rng.sample(names, rng.randint(0 if not fixed else 1, 16)))
    initial, events = frozenset(pool), []
    times_s = [] if fixed else sorted(rng.sample(range(1, 7200), rng.randint(0, 25)))
    for at_s in times_s:
        flipped = set(rng.sample(names, rng.randint(1, 6)))
        change = PoolChanged(frozenset(flipped - pool), frozenset(flipped & pool))
        events.append(PoolEvent(float(at_s), change))
        pool ^= flipped
    families = sorted(FAMILIES)
    arrivals = tuple(
        Arrival(
            float(rng.randint(-60, 6000)),
            a_trainer(rng, f"t{i}", 8),
            losses=FAMILIES[rng.choice(families)],
        )
        for i in range(rng.randint(1, 8))
    )
    window = LogWindow(0.0, 7200.0, initial, tuple(events), 16, "generated")
    return Scenario(window, arrivals, rng.randint(1, 6), rng.choice(tuple(CostModel)))
