"""Decisions about nodes: what is known in, steps out. One line a case, and what holds whatever is
known.
"""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.live_house import configuration

from bftrainer.cluster.model import Fragment, FragmentPhase, LimitWait, NodeRequest
from bftrainer.config.pilot import PilotConfig
from bftrainer.decide.core.demand_cap import DemandCap
from bftrainer.fragment_names import fragment_name, id_in_job
from bftrainer.pilot.nodes.classifier import PoolDemand
from bftrainer.pilot.nodes.decisions import (
    Ask,
    GiveBack,
    NodeDecision,
    Release,
    next_release,
    next_steps,
)
from bftrainer.pilot.nodes.held_fragments import HeldFragment
from bftrainer.pilot.nodes.node_facts import Candidate, LimitWaits, Moment, NodeFacts, NodeMemory

NOW_S = 1000.0
NOON = datetime(2026, 3, 2, 12, 0)  # a Monday
READY, PENDING, LEAVING = FragmentPhase.READY, FragmentPhase.PENDING, FragmentPhase.LEAVING


def at(now_s: float = NOW_S, silent_s: float = 0.0, local_time: datetime = NOON) -> Moment:
    return Moment(now_s, local_time, silent_s)


def config(**nodes: Any) -> PilotConfig:
    return configuration({"nodes": {"unused_after_s": 5.0} | nodes})


def held(
    number: int, phase: FragmentPhase = READY, node_class: str | None = "", **more: Any
) -> HeldFragment:
    return HeldFragment(
        Fragment(fragment_name(f"n{number}", str(number)), phase),
        f"n{number}",
        900.0 + number,
        node_class,
        **more,
    )


def free(
    number: int, window_s: float = math.inf, node_class: str = "", not_before_s: float = 0.0
) -> Candidate:
    return Candidate(NodeRequest(f"n{number}", window_s), node_class, not_before_s)


def names(*numbers: int) -> frozenset[str]:
    return frozenset(fragment_name(f"n{n}", str(n)) for n in numbers)


def known(
    *fragments: HeldFragment, used: frozenset[str] | None = None, want: int = 0, **more: Any
) -> NodeFacts:
    """Facts in which all of the pool is used, and trainers could use ``want`` nodes."""
    pool = frozenset(h.name for h in fragments if h.is_ready and h.node_class is not None)
    facts: dict[str, Any] = {
        "config": config(),
        "trainers": frozenset("a"),
        "demand": PoolDemand(((want, None),)),
    }
    return NodeFacts(
        fragments=fragments, pool=pool, used=pool if used is None else used, **(facts | more)
    )


def ask(*numbers: int) -> Ask:
    return Ask(tuple(NodeRequest(f"n{n}") for n in numbers))


def back(reason: str, *numbers: int, back_off: tuple[tuple[str, float], ...] = ()) -> GiveBack:
    return GiveBack(tuple(sorted(names(*numbers))), reason, back_off)


def test_what_is_released_for_one_job_leaves_together() -> None:
    """And no later than its own patience, whatever a move may take."""
    group = [held(n, given_back_s=NOW_S, group="job 7", patience_s=5.0) for n in (1, 2)]
    alone = held(3, given_back_s=NOW_S)
    fragments = [*group, alone]
    assert next_release(fragments, names(2), 60.0, NOW_S + 1) == Release(names(3))
    assert next_release(fragments, names(), 60.0, NOW_S + 1) == Release(names(1, 2, 3))
    assert next_release(fragments, names(2, 3), 60.0, NOW_S + 5) == Release(names(1, 2))
    assert next_release(fragments, names(1, 2, 3), 60.0, NOW_S + 4) is None


def shared(number: int, job: str, **more: Any) -> HeldFragment:
    """A fragment of a holder of several nodes."""
    one = held(number, **more)
    name = fragment_name(one.node, id_in_job(job, one.node))
    return replace(one, fragment=replace(one.fragment, name=name))


def test_an_unused_node_is_kept_while_its_job_has_others_in_use() -> None:
    three = [shared(n, "7") for n in (1, 2, 3)]
    idle_since = NodeMemory(unused_since=tuple((h.name, 0.0) for h in three))
    in_use = frozenset({three[0].name})
    kept = next_steps(known(*three, used=in_use, memory=idle_since), at())
    assert [step for step in kept.steps if isinstance(step, GiveBack)] == []
    (gone,) = next_steps(known(*three, used=frozenset(), memory=idle_since), at()).steps
    assert isinstance(gone, GiveBack)
    assert set(gone.names) == {h.name for h in three}


def test_what_leaves_takes_the_other_nodes_of_its_job_with_it() -> None:
    fragments = [shared(1, "7"), shared(2, "7"), held(3)]
    ends = ((fragments[0].name, NOW_S - 1.0),)
    (step,) = next_steps(known(*fragments, window_ends=ends), at()).steps
    assert isinstance(step, GiveBack)
    assert set(step.names) == {fragments[0].name, fragments[1].name}
    assert step.renewals == ()


CAP = NodeMemory(caps=(DemandCap("", frozenset("a"), 1, 4, 9),))
IDLE_SINCE = NodeMemory(unused_since=(("n1#1", 994.0), ("n2#2", 998.0)))
FREE = (free(10), free(2), free(1))
WAITS = LimitWaits(990.0, (LimitWait("7", 2, "AssocGrpNodeLimit"),))
LIMIT = "job 7 waits for a limit that holders use up (AssocGrpNodeLimit)"
CASES: dict[str, tuple[NodeFacts, Moment, tuple[Ask | GiveBack, ...]]] = {
    "nothing": (known(), at(), ()),
    "as many as are wanted, in name order": (known(want=2, candidates=FREE), at(), (ask(1, 2),)),
    "long windows first": (
        known(want=1, candidates=(free(1, 100.0), free(2, 200.0))),
        at(),
        (Ask((NodeRequest("n2", 200.0),)),),
    ),
    "none without demand": (known(candidates=FREE), at(), ()),
    "what is held counts": (known(held(7), want=2, candidates=FREE), at(), (ask(1),)),
    "what is given back does not": (
        known(held(7, given_back_s=1.0), want=1, candidates=FREE),
        at(),
        (ask(1),),
    ),
    "not the node that is held": (known(held(1), want=3, candidates=FREE), at(), (ask(2, 10),)),
    "not above max_nodes": (
        known(want=9, candidates=FREE, config=config(max_nodes=2)),
        at(),
        (ask(1, 2),),
    ),
    "not above max_pending": (
        known(held(7, PENDING), want=9, candidates=FREE, config=config(max_pending=2)),
        at(),
        (ask(1),),
    ),
    "not above the shared cap": (
        known(want=9, candidates=FREE, config=config(site_max_nodes=3), peer_holders=("1", "2")),
        at(),
        (ask(1),),
    ),
    "not in quiet hours": (
        known(want=9, candidates=FREE, config=config(quiet_hours=["08:00-18:00"])),
        at(),
        (),
    ),
    "room for a job that waits for a limit": (
        known(held(1), held(2), held(3), want=9, candidates=FREE, limit_waits=WAITS),
        at(),
        (back(LIMIT, 2, 3),),
    ),
    "what is unused, leaving or has not started first": (
        known(
            held(1),
            held(2),
            held(3),
            held(4, PENDING),
            held(5, given_back_s=1.0),
            used=names(2, 3),
            limit_waits=WAITS,
        ),
        at(),
        (back(LIMIT, 1, 4),),
    ),
    "once, until the job may have started": (
        known(
            held(1),
            want=9,
            candidates=FREE,
            limit_waits=WAITS,
            memory=NodeMemory(room=2, room_s=989.6),
        ),
        at(),
        (),
    ),
    "again, as it has not": (
        known(held(1), want=9, limit_waits=WAITS, memory=NodeMemory(room=2, room_s=989.0)),
        at(),
        (back(LIMIT, 1),),
    ),
    "more than are leaving, whatever else has left": (
        known(
            held(1),
            held(2),
            held(3, given_back_s=1.0),
            limit_waits=replace(WAITS, jobs=(replace(WAITS.jobs[0], size=4),)),
            memory=NodeMemory(room=3),
        ),
        at(),
        (back(LIMIT, 2),),
    ),
    "not backed off": (
        known(want=9, candidates=(free(1, not_before_s=NOW_S + 1), free(2))),
        at(),
        (ask(2),),
    ),
    "not while polls fail": (known(want=9, candidates=FREE, answers=False), at(), ()),
    "only classes in demand": (
        known(
            candidates=(free(1, node_class="x"), free(2, node_class="y")),
            demand=PoolDemand(((3, "y"),)),
        ),
        at(),
        (ask(2),),
    ),
    "not above a demand cap": (known(held(7), want=9, candidates=FREE, memory=CAP), at(), ()),
    "unless fewer are left than the cap": (
        known(held(7, LEAVING), held(8, given_back_s=1.0), want=3, candidates=FREE, memory=CAP),
        at(),
        (ask(1, 2),),
    ),
    "unless they could use more, as one that failed is tried again": (
        known(held(7), want=10, candidates=FREE, memory=CAP),
        at(),
        (ask(1, 2, 10),),
    ),
    "unless there are other trainers": (
        known(held(7), want=3, candidates=FREE, memory=CAP, trainers=frozenset("ab")),
        at(),
        (ask(1, 2),),
    ),
    "all when the scheduler is silent": (
        known(held(1), held(2, PENDING), held(3, node_class=None)),
        at(silent_s=21.0),
        (back("the scheduler does not answer", 1, 3),),
    ),
    "what the scheduler plans to use": (
        known(held(1), held(2), want=2, window_ends=(("n1#1", 999.0), ("n2#2", 1001.0))),
        at(),
        (back("planned: the scheduler's window ends", 1),),
    ),
    "above max_nodes: the latest": (
        known(held(1), held(2), want=2, config=config(max_nodes=1)),
        at(),
        (back("above nodes.max_nodes", 2),),
    ),
    "above max_nodes: an unused one first": (
        known(held(1), held(2), want=2, used=names(2), config=config(max_nodes=1)),
        at(),
        (back("above nodes.max_nodes", 1),),
    ),
    "above the shared cap: by job id": (
        known(held(1), held(5), want=2, config=config(site_max_nodes=2), peer_holders=("3",)),
        at(),
        (back("above nodes.site_max_nodes", 5),),
    ),
    "unused for too long": (
        known(held(1), held(2), want=2, used=names(), memory=IDLE_SINCE),
        at(),
        (back("unused", 1),),
    ),
    "unused and of no use at all": (
        known(held(1), held(2), want=0, used=names(), memory=IDLE_SINCE),
        at(),
        (back("unused", 1, 2),),
    ),
    "unused before its window ends": (
        known(held(1), want=2, used=names(), memory=IDLE_SINCE, window_ends=(("n1#1", 1100.0),)),
        at(),
        (back("unused", 1, back_off=(("n1", 1100.0),)),),
    ),
    "no request while unused nodes go": (
        known(held(7), want=3, used=names(), candidates=FREE, memory=NodeMemory((("n7#7", 0.0),))),
        at(),
        (back("unused", 7),),
    ),
    "give back and request at once": (
        known(held(7), want=1, candidates=FREE, window_ends=(("n7#7", 999.0),)),
        at(),
        (back("planned: the scheduler's window ends", 7), ask(1)),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_steps(case: str) -> None:
    facts, moment, expected = CASES[case]
    assert next_steps(facts, moment).steps == expected


def test_what_is_unused_is_remembered_and_given_back_after_a_while() -> None:
    facts = known(held(1), want=1, used=names())
    first = next_steps(facts, at())
    assert (first.steps, first.memory.unused_since, first.again_after_s) == (
        (),
        (("n1#1", NOW_S),),
        5.0,
    )
    later = next_steps(replace(facts, memory=first.memory), at(NOW_S + 5))
    assert later.steps == (back("unused", 1),)
    assert later.memory.caps == (DemandCap("", frozenset("a"), 0, 1, 1),), (
        "it could have used the node, and did not"
    )
    used = next_steps(replace(facts, memory=first.memory, used=names(1)), at(NOW_S + 5))
    assert used.steps == ()
    assert used.memory.unused_since == ()


def test_a_window_that_ends_is_no_reason_for_a_cap() -> None:
    facts = known(held(1), want=1, used=names(), memory=IDLE_SINCE, window_ends=(("n1#1", 1100.0),))
    assert next_steps(facts, at()).memory.caps == ()


def test_release_when_it_is_left_or_after_a_while() -> None:
    leaving = (held(1, given_back_s=990.0), held(2, given_back_s=990.0))
    assert next_release(leaving, names(), 60.0, NOW_S) == Release(names(1, 2))
    assert next_release(leaving, names(1), 60.0, NOW_S) == Release(names(2))
    assert next_release(leaving, names(1, 2), 60.0, NOW_S) is None
    assert next_release(leaving, names(1, 2), 10.0, NOW_S) == Release(names(1, 2))
    assert next_release((), names(), 60.0, NOW_S) is None


NUMBERS = st.integers(1, 12)
CLASSES = st.sampled_from(["", "x", "y"])


@st.composite
def situations(draw: st.DrawFn) -> NodeFacts:
    numbers = draw(st.lists(NUMBERS, unique=True, max_size=8))
    fragments = tuple(
        held(
            n,
            draw(st.sampled_from([READY, READY, PENDING, LEAVING])),
            draw(CLASSES | st.none()),
            given_back_s=draw(st.none() | st.just(990.0)),
        )
        for n in numbers
    )
    pool = frozenset(h.name for h in fragments if h.is_ready and h.node_class is not None)
    some = st.sets(st.sampled_from(sorted(pool))) if pool else st.just(set())
    times = st.sampled_from([900.0, 994.0, 998.0, NOW_S, 1003.0, 1100.0])
    trainers = draw(st.sampled_from([frozenset("a"), frozenset("ab")]))
    caps = {
        c: DemandCap(c, frozenset("a"), draw(st.integers(0, 4)), draw(NUMBERS), draw(NUMBERS))
        for c in draw(st.sets(CLASSES))
    }
    cap = draw(st.none() | st.integers(1, 8))
    return NodeFacts(
        config=config(
            max_nodes=draw(st.integers(1, 8)),
            max_pending=draw(st.integers(1, 4)),
            quiet_hours=draw(st.sampled_from([[], ["08:00-18:00"]])),
            **({} if cap is None else {"site_max_nodes": cap}),
        ),
        fragments=fragments,
        pool=pool,
        used=frozenset(draw(some)),
        window_ends=tuple((name, draw(times)) for name in sorted(draw(some))),
        candidates=tuple(
            free(n, draw(st.sampled_from([60.0, math.inf])), draw(CLASSES), draw(times))
            for n in sorted(draw(st.sets(st.integers(1, 20), max_size=8)))
        ),
        peer_holders=tuple(map(str, draw(st.sets(NUMBERS, max_size=4)))),
        trainers=trainers,
        demand=PoolDemand(
            tuple(draw(st.lists(st.tuples(st.integers(0, 6), CLASSES | st.none()), max_size=3)))
        ),
        answers=draw(st.booleans()),
        memory=NodeMemory(
            tuple((name, draw(times.filter(lambda t: t <= NOW_S))) for name in sorted(draw(some))),
            tuple(caps[c] for c in sorted(caps)),
        ),
    )


SILENCE = st.sampled_from([0.0, 19.0, 21.0])


def asked(decision: NodeDecision) -> list[NodeRequest]:
    return [r for step in decision.steps if isinstance(step, Ask) for r in step.requests]


def given_back(decision: NodeDecision) -> list[str]:
    return [name for step in decision.steps if isinstance(step, GiveBack) for name in step.names]


@settings(max_examples=150, deadline=None)
@given(situations(), SILENCE)
def test_whatever_is_known(facts: NodeFacts, silent_s: float) -> None:
    decision = next_steps(facts, at(silent_s=silent_s))
    nodes, requests, gone = facts.config.nodes, asked(decision), given_back(decision)
    kept = {h.name for h in facts.fragments if h.given_back_s is None}
    assert next_steps(facts, at(silent_s=silent_s)) == decision, "pure"
    assert len(gone) == len(set(gone)), "a fragment goes once"
    assert set(gone) <= kept
    assert all(
        step.names if isinstance(step, GiveBack) else step.requests for step in decision.steps
    ), "no empty step"
    after = kept.difference(gone)
    assert silent_s > 20 or len(after) + len(requests) <= nodes.max_nodes
    if requests:
        allowed = {c.request.node: c for c in facts.candidates}
        assert all(allowed[r.node].not_before_s <= NOW_S for r in requests), "backed off"
        assert {r.node for r in requests}.isdisjoint(h.node for h in facts.fragments), (
            "held already"
        )
        assert not nodes.quiet_hours
        assert facts.answers
        assert silent_s < 20
        pending = sum(h.fragment.phase is PENDING for h in facts.fragments)
        assert pending + len(requests) <= nodes.max_pending
        assert len(after) + len(requests) <= facts.demand.total
        for name in {allowed[r.node].node_class for r in requests}:
            there = sum(h.node_class == name for h in facts.fragments if h.name in after)
            more = sum(allowed[r.node].node_class == name for r in requests)
            assert there + more <= facts.demand.of(name)
            held = {h.node for h in facts.fragments}
            idle = sum(
                c.node_class == name and n not in held and c.not_before_s <= NOW_S
                for n, c in allowed.items()
            )
            kept_of = sum(
                (h.node_class or "") == name and h.given_back_s is None for h in facts.fragments
            )
            at_rest = (
                h for h in facts.fragments if h.name in after and h.fragment.phase is not LEAVING
            )
            stays = sum(h.node_class == name for h in at_rest)
            assert all(
                there + more <= c.nodes or kept_of + idle > c.tried
                for c in facts.memory.caps
                if c.node_class == name and c.is_valid(facts.trainers, facts.demand.of(name), stays)
            )
        if nodes.site_max_nodes is not None:
            assert len(after) + len(requests) + len(facts.peer_holders) <= max(
                nodes.site_max_nodes, len(after) + len(facts.peer_holders)
            )
    if silent_s > 20:
        assert set(gone) == {h.name for h in facts.fragments if h.is_ready}
    else:
        assert {n for n, end_s in facts.window_ends if end_s < NOW_S} <= set(gone)
        unused = [
            s.names for s in decision.steps if isinstance(s, GiveBack) and s.reason == "unused"
        ]
        assert all(facts.pool - facts.used >= set(found) for found in unused), "what is used stays"


@settings(deadline=None)
@given(situations(), SILENCE, st.floats(0.0, 0.999))
def test_before_it_is_due_again_there_is_nothing_to_do(
    facts: NodeFacts, silent_s: float, share: float
) -> None:
    """That is what lets the manager skip decisions as long as nothing has changed."""
    decision = next_steps(facts, at(silent_s=silent_s))
    if decision.steps or decision.memory != facts.memory:
        return
    passed_s = share * min(decision.again_after_s, 1e6)
    later = next_steps(facts, at(NOW_S + passed_s, silent_s + passed_s))
    assert later.steps == ()


@settings(deadline=None)
@given(situations(), st.sets(NUMBERS), st.sampled_from([NOW_S, 1049.0, 1051.0]))
def test_nothing_in_use_is_released_before_its_time(
    facts: NodeFacts, in_use: set[int], now_s: float
) -> None:
    leaving = [h for h in facts.fragments if h.given_back_s is not None]
    step = next_release(leaving, names(*in_use), 60.0, now_s)
    released = set() if step is None else step.names
    assert released <= {h.name for h in leaving}
    if now_s < 1050:
        assert released.isdisjoint(names(*in_use))
    assert {h.name for h in leaving} - names(*in_use) <= released
    if now_s > 1050:
        assert released == {h.name for h in leaving}


def test_a_node_that_its_job_can_give_back_leaves_alone() -> None:
    """The first one cannot: its job ends with it."""
    first, *others = (shared(n, "7") for n in (1, 2, 3))
    second, third = (
        replace(each, fragment=replace(each.fragment, is_separable=True)) for each in others
    )
    ends = ((third.name, NOW_S - 1.0),)
    (step,) = next_steps(known(first, second, third, window_ends=ends), at()).steps
    assert isinstance(step, GiveBack)
    assert step.names == (third.name,)
    ends = ((first.name, NOW_S - 1.0),)
    (step,) = next_steps(known(first, second, third, window_ends=ends), at()).steps
    assert isinstance(step, GiveBack)
    assert len(step.names) == 3
