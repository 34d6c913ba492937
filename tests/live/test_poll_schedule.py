"""When the next look is: pure, with properties for any order of hints, ends and schedule."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import fields, replace
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.live_house import configuration

from bftrainer.cluster.model import (
    Availability,
    Hidden,
    LimitWait,
    NodeView,
    Observation,
    PeerPilot,
)
from bftrainer.cluster.windows import PilotJobs
from bftrainer.config.pilot import PilotConfig
from bftrainer.errors import BFTrainerError, PostponedError, SchedulerError
from bftrainer.pilot.nodes.cluster_view import ClusterView, EndedPoll, PollAnswer, after_poll, notes
from bftrainer.pilot.nodes.poll_schedule import (
    BURST,
    REPEATS_S,
    TRUSTED_AFTER,
    PollOutcome,
    PollRules,
    PollSchedule,
)

RULES = PollRules(poll_s=10.0, calm_s=30.0, per_minute=20.0)


def trusted() -> PollSchedule:
    schedule = PollSchedule(0.0)
    for number in range(TRUSTED_AFTER):
        schedule = schedule.polled(10.0 * number, PollOutcome.ANNOUNCED, RULES)
    return schedule


def test_without_hints_looks_are_poll_s_apart() -> None:
    schedule = PollSchedule(0.0)
    for number in range(20):
        assert schedule.due_s(RULES) == pytest.approx(10.0 * number)
        schedule = schedule.polled(
            10.0 * number, PollOutcome.UNANNOUNCED if number % 3 else PollOutcome.NOTHING, RULES
        )


def test_a_hint_brings_the_look_forward_and_a_look_that_finds_nothing_is_repeated() -> None:
    schedule = PollSchedule(0.0).polled(0.0, PollOutcome.NOTHING, RULES).hinted(2.0)
    for wait_s in REPEATS_S:
        assert schedule.due_s(RULES) == pytest.approx(2.0 + wait_s)
        schedule = schedule.polled(schedule.due_s(RULES), PollOutcome.NOTHING, RULES)
    assert schedule.due_s(RULES) == schedule.last_poll_s + 10.0


def test_a_look_that_finds_what_was_announced_is_not_repeated() -> None:
    schedule = PollSchedule(0.0).polled(0.0, PollOutcome.NOTHING, RULES).hinted(2.0)
    assert schedule.outcome(has_new_idle=True) is PollOutcome.ANNOUNCED
    assert schedule.polled(2.3, PollOutcome.ANNOUNCED, RULES).due_s(RULES) == pytest.approx(12.3)


def test_a_second_hint_shortly_before_the_look_is_answered_by_a_look_of_its_own() -> None:
    schedule = PollSchedule(0.0).polled(0.0, PollOutcome.NOTHING, RULES).hinted(2.0).hinted(2.1)
    assert schedule.due_s(RULES) == pytest.approx(2.15)
    assert schedule.polled(2.15, PollOutcome.ANNOUNCED, RULES).due_s(RULES) == pytest.approx(2.25)


def test_where_hints_announce_the_changes_unhinted_looks_are_rarer_until_one_does_not() -> None:
    schedule = trusted()
    assert schedule.is_calm
    assert schedule.due_s(RULES) == schedule.last_poll_s + 30.0
    assert schedule.outcome(has_new_idle=False) is PollOutcome.NOTHING
    schedule = schedule.polled(schedule.due_s(RULES), PollOutcome.NOTHING, RULES)
    assert schedule.is_calm, "no change is no missing hint"
    assert schedule.outcome(has_new_idle=True) is PollOutcome.UNANNOUNCED
    schedule = schedule.polled(schedule.due_s(RULES), PollOutcome.UNANNOUNCED, RULES)
    assert schedule.due_s(RULES) == schedule.last_poll_s + 10.0


def test_while_the_scheduler_does_not_answer_hints_do_not_bring_looks_forward() -> None:
    schedule = trusted().polled(40.0, PollOutcome.FAILED, RULES, 2.0)
    assert schedule.due_s(RULES) == 60.0
    assert schedule.hinted(41.0).due_s(RULES) == 60.0


def test_a_hinted_look_waits_for_the_budget_of_calls() -> None:
    schedule = PollSchedule(0.0).polled(0.0, PollOutcome.NOTHING, RULES).hinted(1.0).postponed(7.0)
    assert schedule.due_s(RULES) == 7.0


def test_a_known_end_is_looked_at_and_announces_nothing() -> None:
    schedule = PollSchedule(0.0).polled(0.0, PollOutcome.NOTHING, RULES).expecting(4.0)
    assert schedule.due_s(RULES) == 4.0
    assert schedule.expecting(6.0) is schedule
    assert schedule.outcome(has_new_idle=True) is PollOutcome.UNANNOUNCED


def test_without_an_allowance_hints_do_nothing() -> None:
    rules = PollRules(10.0, 30.0, 0.0)
    assert (
        PollSchedule(0.0).polled(0.0, PollOutcome.NOTHING, rules).hinted(1.0).due_s(rules) == 10.0
    )


steps = st.lists(
    st.tuples(
        st.sampled_from(["hint", "end", "look", "look"]),
        st.floats(0.0, 5.0),
        st.sampled_from(list(PollOutcome)),
        st.floats(0.9, 1.1),
    ),
    max_size=120,
)
all_rules = st.builds(PollRules, st.floats(1.0, 20.0), st.floats(0.1, 60.0), st.floats(1.0, 120.0))


@given(steps, all_rules)
@example([("hint", 0.01, PollOutcome.NOTHING, 1.0)] * 120, RULES)
def test_never_more_looks_than_allowed_and_never_later_than_without_hints(
    given_steps: list[tuple[str, float, PollOutcome, float]], rules: PollRules
) -> None:
    """PollSchedule are made as soon as they are due; whatever comes, comes between them."""
    schedule, now_s = PollSchedule(0.0), 0.0
    early: list[float] = []
    for what, wait_s, news, stretch in given_steps:
        now_s += wait_s
        while (due_s := schedule.due_s(rules)) <= now_s:
            assert due_s <= max(schedule.next_unhinted_s, schedule.not_before_s)
            assert (
                due_s - schedule.last_poll_s <= max(rules.poll_s, rules.calm_s) * 1.1 + 1e-9
                or schedule.last_poll_s == -math.inf
            )
            if due_s < schedule.next_unhinted_s:
                early.append(due_s)
            schedule = schedule.polled(due_s, news, rules, stretch)
            assert schedule.due_s(rules) > due_s, "time goes on"
        if what == "hint":
            schedule = schedule.hinted(now_s)
        elif what == "end":
            schedule = schedule.expecting(now_s + wait_s)
    for first, at_s in enumerate(early):
        for span_s in (1.0, 10.0, 60.0):
            there = bisect_left(early, at_s + span_s) - first
            assert there <= BURST + span_s * rules.per_minute / 60.0 + 1e-6


# --- The view of the cluster after polls: a poll that fails, at whatever point, changes nothing of
# what is known

CONFIG = configuration({"nodes": {"site_max_nodes": 4, "confirm_s": 0.0}})
NODES = tuple(NodeView(f"n{i}", Availability.FREE) for i in range(3))
SEEN = Observation(1000.0, NODES)
POLLS = {"failures", "error", "silent_s", "schedule", "is_postponed", "budget"}


class Lookup:
    def of_node(self, node: str) -> str | None:
        return "cpu"

    def gpus(self, node: str) -> int:
        return 0


def polled(
    view: ClusterView,
    at_s: float,
    answer: PollAnswer | BFTrainerError,
    config: PilotConfig = CONFIG,
) -> ClusterView:
    return after_poll(
        view,
        EndedPoll(at_s, at_s, 1000.0 + at_s, 0.5, answer),
        config,
        PilotJobs(),
        Lookup(),
        frozenset(),
    )


def test_jobs_that_wait_for_a_limit_did_so_when_a_broker_asked() -> None:
    waits = replace(SEEN, limit_waits=(LimitWait("7", 1, "QOSGrpNodeLimit"),), evidence_s=13.0)
    assert (
        polled(ClusterView(PollSchedule(0.0)), 20.0, PollAnswer(waits, 1020.0, ())).limit_waits.at_s
        == 1013
    )


@pytest.mark.parametrize(("unit", "cost"), [("node", 0.25), ("gpu", 1.0)])
def test_a_poll_for_a_broker_s_news_costs_less_where_it_asks_nothing(
    unit: str, cost: float
) -> None:
    config, view = (
        configuration(
            {"nodes": {"unit": unit, "holder": "slurm"}, "hints": {"looks_per_minute": 1e-9}}
        ),
        ClusterView(PollSchedule(0.0)),
    )
    for at_s in (0.0, 0.5):
        view = polled(
            view, at_s, PollAnswer(replace(SEEN, evidence_s=at_s), 1000.0 + at_s, ()), config
        )
    assert view.schedule.allowance == pytest.approx(BURST - cost)


@pytest.mark.parametrize(
    "bad",
    [
        SchedulerError("no answer"),
        PostponedError("later", 30.0),
        PollAnswer(
            Observation(1010.0, NODES[:1], hidden=frozenset({Hidden.JOBS})), 1010.0, None
        ),  # windows unknown
        PollAnswer(
            Observation(1010.0, NODES[:1], hidden=frozenset({Hidden.JOBS})), 1010.0, ()
        ),  # holders not counted
    ],
)
def test_a_poll_that_fails_changes_nothing_of_what_is_known(
    bad: PollAnswer | BFTrainerError,
) -> None:
    known = polled(ClusterView(PollSchedule(0.0)), 0.0, PollAnswer(SEEN, 1000.0, ()))
    assert [c.request.node for c in known.candidates] == ["n0", "n1", "n2"]
    after = polled(known, 10.0, bad)
    assert {
        it.name for it in fields(after) if getattr(after, it.name) != getattr(known, it.name)
    } <= POLLS
    assert after.silent_s == 0.5


def test_where_the_site_hides_jobs_nodes_are_not_split_and_that_is_noted_once() -> None:
    config = configuration({"nodes": {"confirm_s": 0.0}, "slurm": {"assume_window_s": 600}})
    ours, bea = PilotJobs(assume_window_s=600.0), PeerPilot("b", "bea", wants=8)
    views = [ClusterView(PollSchedule(0.0))]
    for at_s, hidden in ((0, False), (10, True), (20, True)):
        seen = Observation(
            1000.0 + at_s, NODES, hidden=frozenset({Hidden.JOBS}) if hidden else frozenset()
        )
        poll = EndedPoll(
            float(at_s), float(at_s), 1000.0 + at_s, 0.5, PollAnswer(seen, 1000.0 + at_s, (bea,))
        )
        views.append(after_poll(views[-1], poll, config, ours, Lookup(), frozenset()))
    assert [len(view.rivals) for view in views] == [0, 1, 0, 0]
    found = [[kind for kind, _ in notes(before, after)] for before, after in pairwise(views)]
    assert found == [[], ["share"], []]


def test_an_outage_is_noted_at_its_begin_and_at_its_end() -> None:
    views = [ClusterView(PollSchedule(0.0))]
    for at_s, answer in (
        (0, None),
        (10, "no answer"),
        (20, "no answer"),
        (30, "refused"),
        (40, None),
        (50, None),
    ):
        result = PollAnswer(SEEN, 1000.0 + at_s, ()) if answer is None else SchedulerError(answer)
        views.append(polled(views[-1], float(at_s), result))
    views.append(
        polled(
            views[-1], 60.0, PollAnswer(replace(SEEN, remark="squeue: is 13.0 s old"), 1060.0, ())
        )
    )
    views.append(
        polled(
            views[-1], 70.0, PollAnswer(replace(SEEN, remark="squeue: is 23.0 s old"), 1070.0, ())
        )
    )
    found = [[text for _, text in notes(before, after)] for before, after in pairwise(views)]
    told = [["the pilot polls the scheduler itself: squeue: is 13.0 s old"], []]
    assert found[-2:] == told, "of a broker"
    assert found[:-2] == [
        [],
        ["no answer"],
        [],
        ["refused"],
        ["the scheduler responds again after 3 failed polls"],
        [],
    ]


def test_a_partition_without_nodes_is_told_once() -> None:
    config = configuration({"nodes": {"partitions": ["nope"], "confirm_s": 0.0}})
    views = [ClusterView(PollSchedule(0.0))]
    for at_s in (0.0, 10.0):
        views.append(polled(views[-1], at_s, PollAnswer(SEEN, 1000.0 + at_s, ()), config))
    ((said,), again) = (list(notes(before, after)) for before, after in pairwise(views))
    assert said[1].startswith(
        "none of the 3 nodes may be held: check the partition of the holders, and [nodes]"
    )
    assert again == []
