"""Values as JSON: what comes back, under which names, and what is refused."""

from __future__ import annotations

import dataclasses
import sys
from enum import Enum
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.live_house import spec

from bftrainer.decide.domain.events import (
    Event,
    PoolChanged,
    TimerDue,
    TrainerFinished,
    TrainerSubmitted,
)
from bftrainer.decide.domain.measurements import Measurements
from bftrainer.decide.domain.problem import Answer, Fallback, Status
from bftrainer.decide.domain.state import Active, Decision, Losses, Plan, State
from bftrainer.decide.policies.guard import StarvationClock
from bftrainer.errors import InvalidValueError, Reason
from bftrainer.pilot.persistence import codec


@dataclasses.dataclass(frozen=True)
class Memory:
    """A policy's."""

    seen: tuple[str, ...]
    by_name: tuple[tuple[str, float], ...]


NODES = st.frozensets(st.sampled_from(["n1#1", "n2#2", "n3#3"]))
FLOATS = st.floats(allow_nan=False)


@settings(deadline=None)
@given(NODES, FLOATS, st.integers(0, 9))
def test_values_come_back_as_they_were(nodes: frozenset[str], x: float, n: int) -> None:
    trainer = spec("a").trainer()
    answer = Answer(
        (n,), x, "highs", Status.TIME_LIMIT, 0.5, (Fallback("gurobi", Reason.NO_LICENSE, "x"),)
    )
    codec.allow(Memory.__module__)  # as a pilot does once it has built the policy
    memory = Memory(("a",), (("b", x),))
    changes = (PoolChanged(nodes), TrainerSubmitted(trainer), TrainerFinished("b"), TimerDue())
    active = Active(trainer, nodes, x, losses=Losses(x, x, 1.0))
    for value in (
        Event(x, changes, (("a", x),)),
        Plan(Decision((n,), x, answer), (nodes,), memory),
        State(3, x, nodes, (active,), (trainer,), memory),
    ):
        assert codec.loads(codec.dumps(value)) == value


def test_names_on_the_wire_do_not_follow_renamed_classes_and_fields() -> None:
    state = State(1, measurements=(("net", Measurements()),))
    assert '"lessons":[["net",{"$":"Lesson",' in codec.dumps(state)
    assert codec.dumps(Reason.NO_LICENSE) == '{"$enum":"Reason","name":"NO_LICENCE"}'
    assert codec.dumps(StarvationClock()) == (
        '{"$":"bftrainer.policies.guard:Patience","inner":null,"since":[],"turns":[]}'
    )
    for value in (state, Reason.NO_LICENSE, StarvationClock()):
        assert codec.loads(codec.dumps(value)) == value


def test_every_class_on_the_list_is_frozen_and_has_one_name() -> None:
    assert len(set(codec.WIRE.values())) == len(codec.WIRE)
    for kind in codec.WIRE.values():
        assert issubclass(kind, Enum) or (
            dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen
        )  # type: ignore[attr-defined]
    for kind, names in codec.RENAMED.items():
        assert kind in codec.WIRE.values()
        assert all(hasattr(kind, name) for name in names)


def test_what_is_not_frozen_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="a list cannot be journaled"):
        codec.dumps(Plan(Decision(()), (), [1]))


@pytest.mark.parametrize(
    "text",
    [
        '{"$": "os:system", "command": "true"}',
        '{"$": "fractions:Fraction", "numerator": 1}',
        '{"$": "bftrainer.pilot.persistence.store:Holder", "host": "x"}',
        '{"$": "bftrainer.decide.domain.measurements:Measurements"}',
        '{"$enum": "http:HTTPStatus", "name": "OK"}',
        '{"$": "Problem"}',
    ],
)
def test_a_class_that_is_not_on_the_list_is_refused_and_never_imported(text: str) -> None:
    sys.modules.pop("this", None)
    with pytest.raises(InvalidValueError, match="names a class"):
        codec.loads(text)
    with pytest.raises(InvalidValueError, match="names a class 'this:d'"):
        codec.loads('{"$": "this:d"}')
    assert "this" not in sys.modules


@pytest.mark.parametrize(
    "text", ["{", '{"$": "Curve", "nodes": [1]}', '{"$enum": "Reason", "name": "BORED"}', "{}"]
)
def test_a_damaged_row_is_one_line(text: str) -> None:
    with pytest.raises(InvalidValueError, match="cannot be read") as told:
        codec.loads(text)
    assert len(str(told.value).splitlines()) == 1


def test_a_memory_of_another_package_needs_its_policy_and_readers_without_it_pass_it_on() -> None:
    module = ModuleType("their_policy.memory")

    @dataclasses.dataclass(frozen=True)
    class Seen:
        names: tuple[str, ...]

    Seen.__module__, Seen.__qualname__ = module.__name__, "Seen"
    module.Seen = Seen  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    try:
        with pytest.raises(
            InvalidValueError, match=r"their_policy\.memory:Seen cannot be journaled"
        ):
            codec.dumps(Seen(("a",)))
        text = '{"$":"Plan","decision":{"$":"Decision","counts":[],"wake_at_s":null,"answer":null},"nodes":[],'
        text += '"memory":{"$":"their_policy.memory:Seen","names":["a"]}}'
        plan = codec.loads(text, strict=False)
        assert isinstance(plan.memory, codec.Unread)
        assert codec.dumps(plan) == text
        with pytest.raises(InvalidValueError, match=r"names a class 'their_policy\.memory:Seen'"):
            codec.loads(text)
        codec.allow("their_policy.policies")
        assert codec.loads(text).memory == Seen(("a",))
        assert codec.dumps(codec.loads(text)) == text
        with pytest.raises(InvalidValueError, match="names a class"):
            codec.loads('{"$": "their_policy.elsewhere:Seen"}')
    finally:
        del sys.modules[module.__name__]


def test_our_own_packages_are_never_admitted_as_a_whole() -> None:
    codec.allow("bftrainer.decide.policies.guard")
    with pytest.raises(InvalidValueError, match="names a class"):
        codec.loads('{"$": "bftrainer.policies.guard:StarvationClock"}')
