"""The order of actions when nodes join and leave, without a process."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from bftrainer.wires.hosts_file import HostSlots
from bftrainer_drivers.common.membership import Announce, Drop, Member, Membership, StartWarming

A, B, C, D = (HostSlots(name, 1, f"f{name}") for name in "abcd")


def started(*hosts: HostSlots) -> Membership:
    """A group that has trained on these hosts since time 0."""
    membership = Membership()
    for action in membership.order(hosts, 0.0):
        assert isinstance(action, StartWarming)
        membership.note_warm(action.member, 0.0)
    (announce,) = membership.tick(0.0)
    membership.note_group([member.label for member in announce.members])
    return membership


def hosts(members: tuple[Member, ...]) -> list[HostSlots]:
    return sorted(member.host for member in members)


def test_nodes_that_join_are_announced_together_but_not_for_ever() -> None:
    membership = started(A)
    first, second = membership.order([A, B, C], 1.0)
    assert isinstance(first, StartWarming)
    assert isinstance(second, StartWarming)
    membership.note_warm(first.member, 2.0)
    assert membership.tick(6.9) == []
    (announce,) = membership.tick(7.0)
    assert hosts(announce.members) == [A, B]


def test_three_orders_while_one_warms_are_one_announcement() -> None:
    membership = started(A)
    (b,) = membership.order([A, B], 1.0)
    assert isinstance(b, StartWarming)
    assert membership.order([A, C], 1.3)[0] == Drop(b.member)
    (d,) = membership.order([A, C, D], 1.6)
    assert isinstance(d, StartWarming)
    for member in list(membership.warming):
        membership.note_warm(member, 3.0)
    (announce,) = membership.tick(3.0)
    assert hosts(announce.members) == [A, C, D]


def test_a_leaving_node_is_taken_out_at_once() -> None:
    membership = started(A, B)
    (announce,) = membership.order([B], 1.0)
    assert hosts(announce.members) == [B]
    assert membership.order([B], 1.2) == []


def test_a_node_that_stays_until_the_reset_keeps_its_name_and_another_stay_gets_a_new_one() -> None:
    membership = started(A, B)
    label = next(member.label for member in membership.group if member.host == B)
    membership.order([A], 1.0)
    (again,) = membership.order([A, B], 1.1)  # Horovod has not acted yet
    assert label in {member.label for member in again.members}
    membership.order([A], 1.2)
    membership.note_group([member.label for member in membership.announced])
    (start,) = membership.order([A, B], 2.0)
    assert isinstance(start, StartWarming)
    assert start.member.label != label


def test_a_lost_fragment_is_not_used_again_but_its_node_is() -> None:
    membership = started(A, B)
    lost = next(member for member in membership.group if member.host == B)
    assert membership.withhold(lost)
    assert not membership.withhold(lost), "told once"
    assert lost not in membership.announced
    membership.note_group([member.label for member in membership.announced])
    assert membership.order([A, B], 9.0) == []
    (start,) = membership.order([A, HostSlots("b", 1, "other")], 10.0)
    assert isinstance(start, StartWarming)


def test_no_node_of_the_group_left_means_leave_once() -> None:
    for hosts, reason in (
        ([], "no nodes"),
        ([B], "none of its nodes is left"),
        ([HostSlots("a", 1, "new")], "none"),
    ):
        membership = started(A)
        (leave,) = membership.order(hosts, 1.0)
        assert leave.reason.startswith(reason)
        assert membership.order([A], 2.0) == []


def test_a_group_of_which_nobody_lives_is_not_asked_to_leave() -> None:
    membership = started(A, B)
    for member in membership.group:
        membership.withhold(member)
    assert membership.order([A, B], 1.0) == []
    assert membership.order([], 1.0) == []


def test_what_horovod_may_just_take_is_kept_for_a_second() -> None:
    membership = started(A)
    (start,) = membership.order([A, B], 1.0)
    assert isinstance(start, StartWarming)
    membership.note_warm(start.member, 2.0)
    membership.tick(2.0)
    (announce,) = membership.order([A], 3.0)
    assert isinstance(announce, Announce)
    assert membership.tick(3.9) == []
    assert membership.tick(4.0) == [Drop(start.member)]


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["order", "warm", "form", "lose"]),
            st.sets(st.sampled_from([A, B, C, D])),
        )
    )
)
def test_whatever_happens_nothing_unwanted_or_dead_is_announced(
    story: list[tuple[str, set[HostSlots]]],
) -> None:
    membership = Membership()
    wanted: list[HostSlots] = []
    for now_s, (what, some) in enumerate(story):
        if what == "order":
            wanted = sorted(some)
            actions = membership.order(wanted, now_s)
        else:
            if what == "warm":
                for member in [member for member in membership.warming if member.host in some]:
                    membership.note_warm(member, now_s)
            elif what == "form" and membership.announced and not membership.leaving:
                membership.note_group([member.label for member in membership.announced])
            elif what == "lose":
                for member in [member for member in membership.group if member.host in some]:
                    membership.withhold(member)
            actions = membership.tick(now_s)
        for action in actions:
            if isinstance(action, Announce):
                assert all(member.host in wanted for member in action.members)
                assert not {member.host.fragment for member in action.members} & membership.withheld
        labels = [
            member.label
            for member in (*membership.announced, *membership.warming, *membership.warm)
        ]
        assert len(labels) == len(set(labels))


def test_a_node_whose_worker_was_ended_through_no_fault_of_its_own_joins_again() -> None:
    membership = started(A, B)
    (excused,) = (member for member in membership.group if member.host == B)
    membership.excuse(excused)
    assert membership.withheld == set()
    assert membership.tick(0.5) == [], "its stay is over, and its node waits for the next group"
    membership.note_group([member.label for member in membership.announced])
    assert [member.host for member in membership.group] == [A]
    (start,) = membership.tick(1.0)
    assert isinstance(start, StartWarming)
    assert start.member.host == B
    assert start.member != excused, "a label is never used twice"
