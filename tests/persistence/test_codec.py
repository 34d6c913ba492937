"""Values as JSON: what comes back, under which names, and what is refused."""

from __future__ import annotations

import dataclasses
import json
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
from bftrainer.decide.domain.problem import Answer, Fallback, Status
from bftrainer.decide.domain.state import Active, Decision, Losses, Plan, State
from bftrainer.decide.policies import guard
from bftrainer.errors import InvalidValueError, Reason
from bftrainer.pilot.persistence import codec
from bftrainer.slots import Grain
from bftrainer_papers.policies import flowcon, loss_phase


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
        State(3, x, nodes, (active,), (trainer,), memory, grain=Grain.GPU),
    ):
        assert codec.loads(codec.dumps(value)) == value


def test_every_class_on_the_list_is_frozen_and_has_a_name_of_its_own() -> None:
    assert len({kind.__name__ for kind in codec.CLASSES}) == len(codec.CLASSES)
    for kind in codec.CLASSES:
        assert issubclass(kind, Enum) or (
            dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen
        )  # type: ignore[attr-defined]


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
        memory = '{"$":"their_policy.memory:Seen","names":["a"]}'
        text = codec.dumps(Plan(Decision(()), (), 1)).replace('"memory":1', f'"memory":{memory}')
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


def test_an_unknown_class_is_passed_on_in_a_memory_only() -> None:
    unknown = '{"$":"subprocess:Popen"}'
    plan = codec.dumps(Plan(Decision(()), (), 1))
    for place in ('"memory":1', '"answer":null'):
        assert place in plan
        text = plan.replace(place, f"{place.partition(':')[0]}:{unknown}")
        with pytest.raises(InvalidValueError, match="names a class 'subprocess:Popen'"):
            codec.loads(text)
        if "memory" in place:
            assert codec.dumps(codec.loads(text, strict=False)) == text
        else:
            with pytest.raises(InvalidValueError, match="names a class 'subprocess:Popen'"):
                codec.loads(text, strict=False)


def test_our_own_packages_are_never_admitted_as_a_whole() -> None:
    codec.allow(guard.__name__)
    codec.allow(flowcon.__name__)
    assert codec.loads(codec.dumps(flowcon.Lists())) == flowcon.Lists()
    for foreign in (
        "bftrainer.decide.policies.guard:StarvationClock",
        f"{loss_phase.__name__}:TrainingPhase",
        "bftrainer_papers.policies.flowcon:PolicySettings",
        "bftrainer_papers.policies.flowcon:State",
    ):
        with pytest.raises(InvalidValueError, match="names a class"):
            codec.loads(json.dumps({"$": foreign}))


def test_the_types_in_a_memory_of_ours_are_checked() -> None:
    codec.allow(flowcon.__name__)
    text = codec.dumps(flowcon.Lists()).replace('"interval_s":0.0', '"interval_s":"soon"')
    with pytest.raises(InvalidValueError, match="interval_s is 'soon'"):
        codec.loads(text)
