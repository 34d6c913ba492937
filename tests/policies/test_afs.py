"""AFS-L and AFS-P: each step has the sign that the derivation gives it; shares of small cases by
hand.
"""

from __future__ import annotations

import random

from support.policy_states import active, decide, fresh

from bftrainer.decide.domain.model import Curve
from bftrainer_papers.policies.afs import AfsL, AfsP, _Side, prefers

LINEAR = Curve((1, 16), (1.0, 16.0))


def sum_of_completions(w_a: float, w_b: float, p_a: float, p_b: float, p_b2: float) -> float:
    """a is done at t1 = w_a / p_a, b t2 = (w_b - p_b t1) / p_b2 later (the notes' t1 and t2)."""
    t1 = w_a / p_a
    return t1 + t1 + (w_b - p_b * t1) / p_b2


def side(p: float, more: float, left: float) -> _Side:
    made = _Side((1, 2), (0.0, p, more), left)
    made.take()
    return made


def test_each_step_of_afs_l_has_the_sign_of_the_two_job_difference() -> None:
    rng = random.Random(7)
    given_to_b = compared = 0
    while compared < 1000:
        p_a, p_b = rng.uniform(0.1, 10), rng.uniform(0.1, 10)
        more_a, more_b = p_a * rng.uniform(1.01, 2.5), p_b * rng.uniform(1.01, 2.5)
        w_a, w_b = rng.uniform(0.1, 100), rng.uniform(0.1, 100)
        if w_a / p_a >= w_b / p_b:  # a is the one with less remaining time at its present share
            continue
        compared += 1
        if_a = sum_of_completions(w_a, w_b, more_a, p_b, more_b)
        if_b = sum_of_completions(w_a, w_b, p_a, more_b, more_b)
        a, b = side(p_a, more_a, w_a), side(p_b, more_b, w_b)
        assert prefers(b, a) == (if_b < if_a)
        assert prefers(a, b) == (not if_b < if_a), (
            "the same trainer wins, whichever is the challenger"
        )
        given_to_b += if_b < if_a
    assert 100 < given_to_b < 900, "both outcomes must occur"


def test_more_trainers_than_nodes_afs_l_the_shortest_afs_p_the_least_served() -> None:
    trainers = [
        active("long", samples=900, node_s=0),
        active("short", samples=100, node_s=50),
        active("middle", samples=500, node_s=10),
    ]
    assert decide(AfsL(), fresh(trainers, 2)).counts == (0, 1, 1)
    assert decide(AfsP(), fresh(trainers, 2)).counts == (1, 0, 1)


def test_every_node_goes_out_and_the_better_scaling_gets_more() -> None:
    flat = Curve(tuple(range(1, 17)), tuple(n**0.3 for n in range(1, 17)))
    trainers = [
        active("flat", samples=100, curve=flat),
        active("linear", samples=100, curve=LINEAR),
    ]
    for policy in (AfsL(), AfsP()):
        counts = decide(policy, fresh(trainers, 12)).counts
        assert sum(counts) == 12
        assert counts[1] > counts[0]


def test_nodes_that_bring_nothing_stay_idle() -> None:
    saturated = Curve((1, 4, 16), (1.0, 3.0, 3.0))
    assert decide(AfsL(), fresh([active("a", curve=saturated)], 10)).counts == (4,)


def test_listed_sizes_go_up_by_their_own_steps() -> None:
    trainers = [
        active("a", sizes=(2, 4, 8), min_nodes=2),
        active("b", sizes=(2, 4, 8), min_nodes=2),
    ]
    assert decide(AfsL(), fresh(trainers, 11)).counts in ((8, 2), (4, 4), (2, 8))
    assert sum(decide(AfsL(), fresh(trainers, 12)).counts) == 12


def test_smallest_sizes_come_first() -> None:
    trainers = [active("a", samples=10), active("b", min_nodes=6, samples=1e6)]
    assert decide(AfsL(), fresh(trainers, 7)).counts == (1, 6)
    assert decide(AfsL(), fresh(trainers, 5)).counts == (5, 0), (
        "b does not fit; its nodes are not wasted"
    )


def test_ties_of_afs_p_are_drawn_and_the_draw_is_remembered() -> None:
    trainers = [active(f"t{i}") for i in range(3)]
    policy = AfsP(seed=5)
    first, memory = policy.decide(fresh(trainers, 10), decide.event(0.0))
    again, _ = policy.decide(fresh(trainers, 10), decide.event(0.0))
    assert first == again, "the same memory gives the same lots"
    shares = {first.counts}
    for _ in range(20):
        decision, memory = policy.decide(fresh(trainers, 10, memory=memory), decide.event(0.0))
        assert sorted(decision.counts) == [3, 3, 4]
        shares.add(decision.counts)
    assert len(shares) == 3, "each of the three has won the odd node"
