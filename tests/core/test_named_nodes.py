"""A policy that names nodes: they are checked like every placement, and everything around a policy
respects them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import pytest

from bftrainer.decide.core.coordinator import adopt, decide, observe
from bftrainer.decide.domain.events import Event, PoolChanged
from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.decide.domain.state import Active, Decision, Nodes, State
from bftrainer.decide.policies.gather import Gathered
from bftrainer.decide.policies.guard import Guarded
from bftrainer.decide.policies.keeping import Keeping
from bftrainer.errors import RejectedAnswerError
from bftrainer.pilot.persistence import codec

CURVE = Curve((1, 8), (1.0, 8.0))
NOW = Event(10.0, ())


def trainer(
    name: str, sizes: tuple[int, ...] | None = None, node_class: str | None = None
) -> Trainer:
    return Trainer(name, CURVE, 1, 8, 18.0, 12.0, 1e6, sizes=sizes, node_class=node_class)


STATE = State(
    max_parallel=3,
    at_s=10.0,
    pool=frozenset("abcdef"),
    active=(
        Active(trainer("t1"), frozenset("ab")),
        Active(trainer("t2"), frozenset("c")),
        Active(trainer("t3", sizes=(2, 4))),
    ),
)


@dataclass(frozen=True)
class Naming:
    """Always the same counts and names, written as {trainer: nodes}."""

    counts: tuple[int, ...]
    named: dict[str, str]
    name: str = "naming"

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        return Decision(
            self.counts, nodes=tuple((name, frozenset(nodes)) for name, nodes in self.named.items())
        ), None


def placed(policy: Naming, state: State = STATE) -> tuple[Nodes, ...]:
    plan = decide(state, policy, NOW)
    assert adopt(state, plan).active[0].nodes == plan.nodes[0]
    return plan.nodes


def test_the_named_nodes_are_the_ones_given_and_the_others_are_placed_around_them() -> None:
    assert placed(Naming((2, 2, 2), {"t2": "cf"})) == (
        frozenset("ab"),
        frozenset("cf"),
        frozenset("de"),
    )


def test_a_trainer_gives_up_the_nodes_that_the_policy_names() -> None:
    assert placed(Naming((1, 2, 0), {"t1": "b", "t2": "ac"}))[:2] == (
        frozenset("b"),
        frozenset("ac"),
    )


@pytest.mark.parametrize(
    ("counts", "named", "message"),
    [
        ((2, 2, 0), {"t2": "c"}, "trainer t2 got 2 nodes, but 1 were named"),
        ((2, 2, 0), {"t2": "cz"}, "trainer t2 got node z, which it cannot have"),
        ((2, 2, 0), {"t2": "ef"}, "the named nodes move trainer t2 from c to e"),
        ((2, 2, 0), {"t2": "bc"}, "node b of trainer t2 belongs to another trainer"),
        (
            (1, 2, 0),
            {"t2": "bc"},
            "node b of trainer t2 belongs to another trainer",
        ),  # t1 may give up a or b
        ((2, 2, 2), {"t2": "cd", "t3": "de"}, "node d of trainer t3 belongs to another trainer"),
        ((2, 1, 3), {"t3": "def"}, "trainer t3 got 3 nodes, which is not one of its legal sizes"),
        (
            (2, 1, 2),
            {"t3": "de", "t9": "f"},
            "nodes were named for t9, which is no admitted trainer",
        ),
    ],
)
def test_names_that_break_a_rule_are_refused_before_they_are_placed(
    counts: tuple[int, ...], named: dict[str, str], message: str
) -> None:
    with pytest.raises(RejectedAnswerError, match=re.escape(message)):
        decide(STATE, Naming(counts, named), NOW)
    kept, _ = Keeping(Naming(counts, named)).decide(STATE, NOW)
    assert kept.counts == (2, 1, 0), "a pilot goes on"
    assert message in kept.kept


def test_one_trainer_is_named_once() -> None:
    @dataclass(frozen=True)
    class Twice:
        name: str = "twice"

        def decide(self, state: State, event: Event) -> tuple[Decision, object]:
            return Decision(
                (2, 1, 0), nodes=(("t1", frozenset("ab")), ("t1", frozenset("ab")))
            ), None

    with pytest.raises(RejectedAnswerError, match="named twice"):
        decide(STATE, Twice(), NOW)


def test_a_node_of_another_class_is_refused() -> None:
    """The policy is asked once per class, and sees the nodes of that class only."""
    classes = (("x", frozenset("abc")), ("y", frozenset("def")))
    state = replace(
        STATE, classes=classes, active=(Active(trainer("t1", node_class="x"), frozenset("ab")),)
    )
    with pytest.raises(
        RejectedAnswerError,
        match=r"got node d, which it cannot have: .* not of the trainer.s class",
    ):
        decide(state, OnlyWithTrainers((3,), {"t1": "abd"}), NOW)
    assert placed(OnlyWithTrainers((3,), {"t1": "abc"}), state) == (frozenset("abc"),)


@dataclass(frozen=True)
class OnlyWithTrainers(Naming):
    """Nothing for a class without trainers."""

    def decide(self, state: State, event: Event) -> tuple[Decision, object]:
        return Naming.decide(self, state, event) if state.active else (Decision(()), None)


def test_growth_that_cannot_pay_off_before_a_window_ends_is_dropped_from_named_nodes() -> None:
    state = replace(STATE, window_ends=(("f", 20.0),))  # 10 s from now; growing stalls for 18 s
    plan = decide(state, Naming((2, 3, 0), {"t1": "ab", "t2": "cdf"}), NOW)
    assert plan.nodes[1] == frozenset("cd")
    assert plan.decision.counts == (2, 2, 0)
    assert plan.decision.nodes == (("t1", frozenset("ab")),), (
        "the journal names no nodes that were not given"
    )


def test_the_names_are_journaled() -> None:
    plan = decide(STATE, Naming((2, 2, 0), {"t2": "cf"}), NOW)
    assert codec.loads(codec.dumps(plan)) == plan


def test_gathered_arrivals_keep_the_names_of_a_trainer_that_starts() -> None:
    """t2 would grow onto d and e and has to wait; t3 starts on the nodes that the policy chose for
    it.
    """
    joins = Event(10.0, (PoolChanged(joined=frozenset("def")),))
    state = observe(replace(STATE, pool=frozenset("abc")), joins)
    plan = decide(state, Gathered(Naming((2, 2, 2), {"t2": "cd", "t3": "ef"}), 1.0), joins)
    assert plan.nodes == (frozenset("ab"), frozenset("c"), frozenset("ef"))


def test_the_guard_takes_nodes_from_a_named_trainer_and_keeps_the_names_of_the_others() -> None:
    policy = Guarded(Naming((4, 2, 0), {"t1": "abde", "t2": "cf"}), patience_s=100.0)
    _, memory = policy.decide(STATE, NOW)
    later = replace(STATE, at_s=200.0, memory=memory)
    plan = decide(later, policy, Event(200.0, ()))
    assert plan.decision.counts == (2, 2, 2)
    assert plan.nodes == (frozenset("ab"), frozenset("cf"), frozenset("de"))
