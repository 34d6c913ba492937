"""Who takes part in a step, decided without a clock of its own, a network or torch."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from bftrainer.wires.replicas import Turn
from bftrainer_drivers.common.legal_sizes import LegalSizes
from bftrainer_drivers.torchft.lighthouse import turns
from bftrainer_drivers.torchft.quorum import Quorum, StepQuorum, StepRequest


def asks(
    quorum: Quorum, *replicas: str, step: int = 0, failures: int = 0, now_s: float = 0.0
) -> StepQuorum | None:
    """The quorum after the last of these requests."""
    for replica in replicas:
        assert quorum.ask(StepRequest(replica, step, failures))
    return quorum.form(now_s)


def trained(*replicas: str, least: int = 1) -> Quorum:
    """A group that has made its first step."""
    quorum = Quorum(LegalSizes(least))
    quorum.admit(replicas)
    assert asks(quorum, *replicas) is not None
    return quorum


def test_the_first_step_waits_for_all_that_were_started_but_not_for_long() -> None:
    quorum = Quorum(LegalSizes(2), straggler_s=1.0)
    quorum.admit(["1", "2", "3"])
    assert asks(quorum, "3", now_s=10.0) is None
    assert quorum.form(20.0) is None, "fewer than min_nodes"
    found = asks(quorum, "1", now_s=20.0)
    assert found == StepQuorum(1, ("1", "3"), changed=True, released=(), steps=(0, 0))
    assert asks(quorum, "2", now_s=20.0) is None, "the others are in their step"
    assert asks(quorum, "1", "3", step=1) == StepQuorum(
        2, ("1", "2", "3"), changed=True, released=(), steps=(1, 0, 1)
    )


def test_a_step_begins_with_the_last_member_and_keeps_its_number_while_nothing_changes() -> None:
    quorum = trained("1", "2")
    assert asks(quorum, "1", step=1) is None
    assert quorum.missing() == {"2"}
    assert asks(quorum, "2", step=1) == StepQuorum(
        1, ("1", "2"), changed=False, released=(), steps=(1, 1)
    )


def test_the_loss_of_a_member_begins_the_step_of_those_that_wait() -> None:
    quorum = trained("1", "2", "3")
    assert asks(quorum, "1", "3", step=0, failures=1) is None
    quorum.lose("2")
    assert quorum.form(0.0) == StepQuorum(2, ("1", "3"), changed=True, released=(), steps=(0, 0))


def test_connections_are_made_again_after_a_failed_step() -> None:
    quorum = trained("1", "2")
    assert asks(quorum, "1", "2", step=0, failures=1) == StepQuorum(
        2, ("1", "2"), changed=False, released=(), steps=(0, 0)
    )


def test_a_dismissed_replica_leaves_between_two_steps() -> None:
    quorum = trained("1", "2", "3")
    quorum.dismiss(["1"])
    assert asks(quorum, "2", "3", step=1) is None, "it may be in the same step"
    assert asks(quorum, "1", step=1) == StepQuorum(
        2, ("2", "3"), changed=True, released=("1",), steps=(1, 1)
    )
    assert quorum.admitted == {"2", "3"}


def test_a_dismissed_replica_stays_while_it_alone_has_the_latest_weights() -> None:
    quorum = trained("1")
    quorum.admit(["2"])
    assert asks(quorum, "2") is None
    quorum.dismiss(["1"])
    weights = StepQuorum(2, ("1", "2"), changed=True, released=(), steps=(1, 0))
    assert asks(quorum, "1", step=1) == weights, "2 gets its weights from 1"
    assert asks(quorum, "1", "2", step=2) == StepQuorum(
        3, ("2",), changed=True, released=("1",), steps=(2,)
    )


def test_who_is_not_admitted_asks_twice_or_is_ahead_of_the_group_is_refused() -> None:
    assert not Quorum(LegalSizes()).ask(StepRequest("stranger", 0, 0))
    quorum = trained("1", "2")
    assert not quorum.ask(StepRequest("1", 2, 0))
    assert not quorum.ask(StepRequest("1", -1, 0))
    assert quorum.ask(StepRequest("1", 1, 0))
    assert not quorum.ask(StepRequest("1", 1, 0))


def test_replicas_that_are_behind_copy_from_those_that_are_not() -> None:
    places = {name: f"host:{name}" for name in "1234"}
    told = turns(
        StepQuorum(5, ("1", "2", "3", "4"), changed=True, released=(), steps=(6, 7, 7, 0)), places
    )
    assert {name: (turn.source, turn.copies) for name, turn in told.items()} == {
        "1": ("host:2", 0),
        "2": ("", 1),
        "3": ("", 1),
        "4": ("host:3", 0),
    }
    assert told["4"] == Turn(5, 3, 4, 7, "host:3", 0)
    told = turns(StepQuorum(1, ("1", "2", "3"), changed=True, released=(), steps=(0, 0, 0)), places)
    assert [turn.source for turn in told.values()] == ["", "host:1", "host:1"], (
        "their weights may be drawn at random"
    )


def test_nodes_join_together_where_only_some_sizes_are_legal() -> None:
    quorum = Quorum(LegalSizes(1, 4, (2, 4)))
    for node, replicas in {"a": "12", "b": "34", "c": "56", "d": "78"}.items():
        quorum.admit(replicas, node)
    first = asks(quorum, *"1234567", now_s=10.0) or quorum.form(11.0)
    assert first is not None
    assert first.replicas == tuple("1234"), "8 has not asked, so d is not there"
    assert asks(quorum, *"1234", step=1) == StepQuorum(
        1, tuple("1234"), changed=False, released=(), steps=(1,) * 4
    )
    assert quorum.ask(StepRequest("8", 0, 0))
    both = asks(quorum, *"1234", step=2)
    assert both is not None
    assert both.replicas == tuple("12345678")
    for lost in "78":
        quorum.lose(lost)
    assert asks(quorum, *"123456", step=2, failures=1) is None, "three nodes"
    quorum.dismiss("56")
    two = quorum.form(20.0)
    assert two is not None
    assert (two.replicas, two.released) == (tuple("1234"), tuple("56"))


def test_a_group_of_no_legal_size_forms_only_to_save() -> None:
    quorum = Quorum(LegalSizes(2))
    quorum.admit("12")
    assert asks(quorum, *"12") is not None
    quorum.lose("2")
    assert asks(quorum, "1", failures=1) is None
    quorum.any_size = True
    assert quorum.form(0.0) == StepQuorum(2, ("1",), changed=True, released=(), steps=(0,))


NAMES = st.sampled_from("123456")
ACTS = st.tuples(
    st.sampled_from(["admit", "dismiss", "lose", "ask", "withdraw"]), NAMES, st.integers(0, 3)
)


@given(st.lists(ACTS, max_size=60))
def test_whatever_happens(acts: Sequence[tuple[str, str, int]]) -> None:
    """A quorum holds only living replicas that asked, every living member of the one before, and
    the latest weights.
    """
    quorum, number, now_s = Quorum(LegalSizes()), 0, 0.0
    for act, name, step in acts:
        now_s += 1.0
        match act:
            case "admit":
                quorum.admit([name])
            case "dismiss":
                quorum.dismiss([name])
            case "lose":
                quorum.lose(name)
            case "withdraw":
                quorum.withdraw(name)
            case "ask":
                fits = name not in quorum.asked and (
                    quorum.latest is None or step <= quorum.latest + 1
                )
                assert quorum.ask(StepRequest(name, step, 0)) == (name in quorum.admitted and fits)
        before, asked, alive = quorum.group, dict(quorum.asked), set(quorum.admitted)
        formed = quorum.form(now_s)
        if formed is None:
            continue
        assert formed.replicas
        assert set(formed.replicas) | set(formed.released) == asked.keys() <= alive
        assert not set(formed.replicas) & set(formed.released)
        assert {member for member in before if member in alive} <= asked.keys()
        assert max(asked[r].step for r in formed.replicas) == max(
            request.step for request in asked.values()
        )
        assert list(formed.replicas) == sorted(formed.replicas)
        assert formed.changed == (formed.replicas != before)
        assert formed.number == number + formed.changed
        number = formed.number
