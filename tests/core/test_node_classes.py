"""Node classes: a trainer runs on one class at a time, each class is decided by itself, and one
class changes nothing.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.allocation.objectives import DEFAULT_OBJECTIVE, OBJECTIVES
from bftrainer.decide.core.coordinator import adopt, decide, observe
from bftrainer.decide.core.node_classes import Part, changed_classes, check_one_class, parts
from bftrainer.decide.domain.events import Event, PoolChanged, TrainerFinished, TrainerSubmitted
from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.decide.domain.ports import Policy
from bftrainer.decide.domain.problem import Status
from bftrainer.decide.domain.state import Active, ClassMemories, Nodes, State
from bftrainer.decide.policies.guard import Guarded
from bftrainer.decide.policies.settings import PolicySettings
from bftrainer.errors import InvalidValueError, RejectedAnswerError
from bftrainer.pilot.persistence import codec
from bftrainer.plugins import build_policy

SETTINGS = PolicySettings(Exact(), OBJECTIVES[DEFAULT_OBJECTIVE], forward_s=120.0, seed=7)
POLICIES = ("bftrainer", "equal-share", "afs-p", "srtf", "modelarts-greedy")
CLASSES = ("a100", "h100", "cpu")
NODES = {name: tuple(f"{name}-{i}" for i in range(5)) for name in CLASSES}


def names(*nodes: str) -> Nodes:
    return frozenset(nodes)


def trainer(
    name: str, high: int = 4, low: int = 1, node_class: str | None = None, rate: float = 10.0
) -> Trainer:
    curve = Curve(tuple(range(1, high + 1)), tuple(rate * n**0.9 for n in range(1, high + 1)))
    return Trainer(name, curve, low, high, 5.0, 3.0, 1e6, node_class=node_class)


def joined(**classes: tuple[str, ...]) -> PoolChanged:
    pairs = tuple((name, frozenset(nodes)) for name, nodes in classes.items())
    return PoolChanged(frozenset().union(*(nodes for _, nodes in pairs)), classes=pairs)


def through(policy: Policy, *events: Event, max_parallel: int = 10) -> State:
    state = State(max_parallel)
    for event in events:
        before = observe(state, event)
        state = adopt(before, decide(before, policy, event))
    return state


def class_of(node: str) -> str:
    return node.partition("-")[0]


@st.composite
def stories(draw: st.DrawFn, classes: tuple[str, ...] = CLASSES) -> tuple[Event, ...]:
    """Nodes of some classes come and go; trainers come, some with a class of their own, and go."""
    pool: set[str] = set()
    there: list[str] = []
    events = []
    for i in range(draw(st.integers(1, 7))):
        flipped = draw(st.sets(st.sampled_from([n for c in classes for n in NODES[c]]), max_size=9))
        come, go = flipped - pool, flipped & pool
        pool = (pool | come) - go
        told = tuple((c, frozenset(n for n in come if class_of(n) == c)) for c in classes)
        changes: list[PoolChanged | TrainerSubmitted | TrainerFinished] = [
            PoolChanged(
                frozenset(come), frozenset(go), tuple((c, nodes) for c, nodes in told if nodes)
            )
        ]
        for j in range(draw(st.integers(0, 2))):
            high = draw(st.integers(1, 5))
            own = draw(st.sampled_from((None, None, *classes)))
            changes.append(
                TrainerSubmitted(trainer(f"t{i}{j}", high, draw(st.integers(1, high)), own))
            )
            there.append(f"t{i}{j}")
        if there and draw(st.booleans()):
            changes.append(TrainerFinished(there.pop(draw(st.integers(0, len(there) - 1)))))
        events.append(Event(100.0 * i, tuple(changes)))
    return tuple(events)


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=80, deadline=None)
@given(stories(), st.booleans())
def test_never_on_two_classes_and_each_class_counts_for_itself(
    policy: str, story: tuple[Event, ...], guarded: bool
) -> None:
    asked = build_policy(policy, SETTINGS)
    asked = Guarded(asked, patience_s=150.0) if guarded else asked
    state = State(6)
    for event in story:
        before = observe(state, event)
        found = parts(before)
        assert sorted(j for part in found for j in part.members) == list(range(len(before.active)))
        assert frozenset().union(*(part.pool for part in found)) == before.pool
        assert sum(len(part.pool) for part in found) == len(before.pool)
        for name, nodes in before.classes:
            assert {class_of(n) for n in nodes} == {name}
        plan = decide(before, asked, event)
        state = adopt(before, plan)
        for active in state.active:
            on = {class_of(n) for n in active.nodes}
            assert len(on) <= 1
            assert not active.trainer.node_class or on <= {active.trainer.node_class}
        for part in found:
            assert sum(len(state.active[j].nodes) for j in part.members) <= len(part.pool)
        assert plan.decision.answer is None or plan.decision.answer.counts == plan.decision.counts
        assert codec.loads(codec.dumps(state)) == state
        assert decide(before, asked, event) == plan


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=40, deadline=None)
@given(stories(("a100",)))
def test_one_class_is_bit_for_bit_no_class(policy: str, story: tuple[Event, ...]) -> None:
    def without(event: Event) -> Event:
        changes = tuple(
            replace(c, classes=())
            if isinstance(c, PoolChanged)
            else TrainerSubmitted(replace(c.trainer, node_class=None))
            if isinstance(c, TrainerSubmitted)
            else c
            for c in event.changes
        )
        return replace(event, changes=changes)

    classed = plain = State(3)
    asked = build_policy(policy, SETTINGS)
    for event in story:
        before, bare = observe(classed, event), observe(plain, without(event))
        plan, other = decide(before, asked, event), decide(bare, asked, without(event))
        assert (plan.nodes, plan.decision, plan.memory) == (
            other.nodes,
            other.decision,
            other.memory,
        )
        classed, plain = adopt(before, plan), adopt(bare, other)


def test_each_class_is_solved_by_itself() -> None:
    state = through(
        build_policy("bftrainer", SETTINGS),
        Event(
            0.0,
            (
                joined(a100=NODES["a100"], cpu=NODES["cpu"][:2]),
                TrainerSubmitted(trainer("fast", 8, node_class="a100", rate=100.0)),
                TrainerSubmitted(trainer("slow", 8, node_class="cpu", rate=1.0)),
            ),
        ),
    )
    assert [sorted(a.nodes) for a in state.active] == [list(NODES["a100"]), ["cpu-0", "cpu-1"]]


def test_a_class_without_nodes_is_waited_for() -> None:
    policy = build_policy("equal-share", SETTINGS)
    first = Event(
        0.0, (joined(cpu=NODES["cpu"]), TrainerSubmitted(trainer("t", node_class="a100")))
    )
    assert through(policy, first).active[0].nodes == frozenset()
    second = Event(1.0, (joined(a100=NODES["a100"][:1]),))
    assert through(policy, first, second).active[0].nodes == names("a100-0")


def part_of(state: State) -> dict[str, str]:
    return {state.active[j].trainer.id: part.name for part in parts(state) for j in part.members}


def test_without_a_name_it_goes_where_it_gains_most_and_stays_while_it_has_nodes() -> None:
    pools = (("a100", names(*NODES["a100"][:2])), ("cpu", names(*NODES["cpu"])))
    pool = frozenset().union(*(nodes for _, nodes in pools))
    new = Active(trainer("new"))
    assert part_of(State(9, pool=pool, active=(new,), classes=pools)) == {"new": "cpu"}
    old = Active(trainer("old"), names("a100-0"))
    assert part_of(State(9, pool=pool, active=(old, new), classes=pools)) == {
        "old": "a100",
        "new": "cpu",
    }
    # Four of five CPU nodes are taken, so one more trainer runs faster beside nobody.
    busy = Active(trainer("busy"), names(*NODES["cpu"][:4]))
    assert part_of(State(9, pool=pool, active=(busy, new), classes=pools)) == {
        "busy": "cpu",
        "new": "a100",
    }
    # First come, first served; what the first will take is not there for the second.
    both = (Active(trainer("first", 4)), Active(trainer("second", 4)))
    assert part_of(State(9, pool=pool, active=both, classes=pools)) == {
        "first": "cpu",
        "second": "a100",
    }
    # No node is idle anywhere: the larger fair share.
    full = (Active(trainer("a"), pools[0][1]), Active(trainer("c", 5), pools[1][1]), new)
    assert part_of(State(9, pool=pool, active=full, classes=pools))["new"] == "cpu"


def test_after_a_preemption_to_nothing_it_may_start_elsewhere_and_never_before() -> None:
    policy = build_policy("bftrainer", SETTINGS)
    events = (
        Event(0.0, (joined(a100=("a100-0",)), TrainerSubmitted(trainer("t", 4)))),
        Event(10.0, (joined(cpu=NODES["cpu"]),)),
        Event(20.0, (PoolChanged(left=names("a100-0")),)),
    )
    assert through(policy, *events[:2]).active[0].nodes == names("a100-0"), (
        "no migration while it runs"
    )
    assert through(policy, *events).active[0].nodes == names(*NODES["cpu"][:4])


def test_memories_are_kept_by_class_and_answers_are_one() -> None:
    policy = Guarded(build_policy("bftrainer", SETTINGS), patience_s=100.0)
    first = Event(
        0.0, (joined(a100=("a100-0",)), TrainerSubmitted(trainer("x", 4, node_class="a100")))
    )
    second = Event(
        1.0, (joined(cpu=("cpu-0",)), TrainerSubmitted(trainer("y", 4, node_class="cpu")))
    )
    third = Event(2.0, (PoolChanged(left=names("cpu-0")),))
    assert not isinstance(through(policy, first).memory, ClassMemories)
    memory = through(policy, first, second).memory
    assert [name for name, _ in memory.by_class] == ["a100", "cpu"]
    assert isinstance(through(policy, first, second, third).memory, ClassMemories)
    before = observe(through(policy, first), second)
    answer = decide(before, build_policy("bftrainer", SETTINGS), second).decision.answer
    assert (answer.counts, answer.solver, answer.status) == ((1, 1), "exact", Status.OPTIMAL)


def test_classes_follow_the_pool() -> None:
    classes = changed_classes((), joined(b=("n2",), a=("n1", "n3")))
    assert classes == (("a", names("n1", "n3")), ("b", names("n2")))
    assert changed_classes(classes, PoolChanged(left=names("n2", "n3"))) == (("a", names("n1")),)


def test_what_breaks_a_rule_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="one class"):
        PoolChanged(joined=names("n1"), classes=(("a", names("n1")), ("b", names("n1"))))
    with pytest.raises(InvalidValueError, match="one class"):
        PoolChanged(joined=names("n1"), classes=(("a", names("n2")),))
    with pytest.raises(RejectedAnswerError, match="n2 is not of class 'a'"):
        check_one_class(
            (Part("a", names("n1"), (0,)), Part("b", names("n2"), ())), [names("n1", "n2")]
        )
