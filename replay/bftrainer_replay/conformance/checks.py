"""What every policy must do, each as a function of how to build one. They raise AssertionError with what went wrong."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from bftrainer.allocation.check import check_counts
from bftrainer.core.loop import run
from bftrainer.domain.events import Event, PoolChanged, TimerDue
from bftrainer.domain.ports import Policy
from bftrainer.domain.state import Decision, Plan, State
from bftrainer.errors import RejectedAnswerError
from bftrainer.persistence import codec
from bftrainer.policies.guard import unguarded
from bftrainer.policies.needs import is_rigid
from bftrainer_replay.conformance.cases import a_scenario, a_state
from bftrainer_replay.simulation.play import Scenario
from bftrainer_replay.simulation.world import ReplayWorld

Build = Callable[[], Policy]
DECISION_LIMIT_S = 2.0  # of one decision for 35 trainers on 800 nodes, on any machine; a pilot wants 0.05


def check_name(build: Build) -> None:
    """It has a name without blanks, the same every time."""
    name = build().name
    assert isinstance(name, str), f"name is {name!r}, expected text"
    assert len(name.split()) == 1, f"name is {name!r}, expected one word"
    assert build().name == name, "two of them have two names"


def check_counts_are_legal(build: Build) -> None:
    """One legal count per trainer, together within the pool, whatever the trainers hold (Eqns 3, 5)."""
    for seed in range(150):
        rng = random.Random(seed)
        state = a_state(rng, rng.randint(0, 8), rng.randint(0, 40))
        decision, _ = asked(build(), state)
        try:
            check_counts([a.trainer for a in state.active], len(state.pool), decision.counts)
        except RejectedAnswerError as error:
            raise AssertionError(f"case {seed}: {error}") from error
        assert all(type(n) is int for n in decision.counts), f"case {seed}: counts {decision.counts} are not all int"
        wake = decision.wake_at_s
        assert wake is None or wake > state.at_s, f"case {seed}: asks to be woken at {wake}, it is {state.at_s}"


def check_nothing_to_give(build: Build) -> None:
    """No trainers: no counts. No nodes: nobody gets any."""
    assert asked(build(), State(4))[0].counts == (), "counts without trainers"
    state = a_state(random.Random(1), 5, 0)
    assert asked(build(), state)[0].counts == (0,) * 5, "nodes given out where there are none"


def check_pure(build: Build) -> None:
    """Equal states give equal decisions and memories, from one policy asked twice and from two."""
    for seed in range(40):
        rng = random.Random(seed)
        state = a_state(rng, rng.randint(1, 8), rng.randint(1, 40))
        policy = build()
        first = asked(policy, state)
        asked(policy, a_state(random.Random(seed + 1000), 3, 9))
        assert _told(asked(policy, state)) == _told(first), f"case {seed}: it remembers outside of its memory"
        assert _told(asked(build(), state)) == _told(first), f"case {seed}: a new one decides otherwise"


def check_memory_survives(build: Build) -> None:
    """Its memory can be journalled and read back at every event of a replay, and nothing changes by it."""
    codec.allow(type(unguarded(build())).__module__)
    for seed in range(8):
        scenario = a_scenario(random.Random(seed), fixed=False)
        assert plans(scenario, build()) == plans(scenario, Forgetful(build())), (
            f"case {seed}: a restart changes decisions"
        )


def check_replays(build: Build) -> None:
    """Whole replays keep the loop's invariants on a changing and on a fixed pool, and repeat exactly."""
    for seed in range(12):
        scenario = a_scenario(random.Random(seed), fixed=seed % 2 == 0)
        assert plans(scenario, build()) == plans(scenario, build()), f"case {seed}: two equal replays differ"


def check_somebody_trains(build: Build) -> None:
    """Where a trainer is alone on a fixed pool that fits it, it gets nodes sooner or later."""
    scenario = a_scenario(random.Random(3), fixed=True)
    alone = replace(scenario, arrivals=scenario.arrivals[:1])
    trainer = replace(alone.arrivals[0].trainer, sizes=None, requested_nodes=1, min_nodes=1)
    alone = replace(alone, arrivals=(replace(alone.arrivals[0], trainer=trainer, at_s=0.0),))
    assert any(n for counts, _ in plans(alone, build()) for n in counts), "a lone trainer never got a node"


def check_speed(build: Build) -> None:
    """35 trainers on 800 nodes: the median decision within two seconds."""
    rng = random.Random(35)
    took = []
    for _ in range(3):
        state, policy = a_state(rng, 35, 800, 64), build()
        began = time.perf_counter()
        asked(policy, state)
        took.append(time.perf_counter() - began)
    assert sorted(took)[1] < DECISION_LIMIT_S, f"a decision took {sorted(took)[1]:.2f} s"


CHECKS = (
    check_name,
    check_counts_are_legal,
    check_nothing_to_give,
    check_pure,
    check_memory_survives,
    check_replays,
    check_somebody_trains,
    check_speed,
)


def asked(policy: Policy, state: State) -> tuple[Decision, object]:
    """What it decides at this instant."""
    return policy.decide(state, Event(state.at_s, (TimerDue(),)))


def plans(scenario: Scenario, policy: Policy) -> list[tuple[tuple[int, ...], float | None]]:
    """Counts and wake-up of every decision of a replay; each is checked against the state that it was made for."""
    checkpoint_s = 600.0 if is_rigid(policy) else None
    world = ReplayWorld(scenario.window, scenario.arrivals, scenario.cost_model, checkpoint_s=checkpoint_s)
    journal = Watching()
    run(world, State(max_parallel=scenario.max_parallel), policy, journal)
    return journal.plans


@dataclass
class Watching:
    """A journal that checks every plan: nodes of the pool only, one trainer each, legal sizes, nested rescales."""

    pool: frozenset[str] = frozenset()
    plans: list[tuple[tuple[int, ...], float | None]] = field(default_factory=list)

    def record(self, event: Event, state: State, plan: Plan) -> None:
        """Called by the loop for every decision."""
        for change in event.changes:
            if isinstance(change, PoolChanged):
                self.pool = (self.pool - change.left) | change.joined
        assert state.pool == self.pool, "the pool is not what the log says"
        given: set[str] = set()
        for active, nodes in zip(state.active, plan.nodes, strict=True):
            assert nodes <= state.pool, f"{active.trainer.id} got a node outside the pool"
            assert given.isdisjoint(nodes), "a node was given to two trainers"
            assert active.trainer.is_legal(len(nodes)), f"{active.trainer.id} got {len(nodes)} nodes, not a legal size"
            assert nodes <= active.nodes or nodes >= active.nodes, "a rescale is not nested"
            given |= nodes
        self.plans.append((plan.decision.counts, plan.decision.wake_at_s))
        assert len(self.plans) < 100_000, "the policy asks to be woken without end"


@dataclass
class Forgetful:
    """A policy whose memory goes through the journal's text at every event, as it would after a crash."""

    policy: Policy

    @property
    def name(self) -> str:
        """The policy's."""
        return self.policy.name

    @property
    def rigid(self) -> bool:
        """The policy's."""
        return is_rigid(self.policy)

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        """Ask it with a memory that was written and read."""
        decision, memory = self.policy.decide(replace(state, memory=codec.loads(codec.dumps(state.memory))), event)
        return decision, memory


def _told(answer: tuple[Decision, object]) -> tuple[tuple[int, ...], float | None, object]:
    decision, memory = answer
    return decision.counts, decision.wake_at_s, memory
