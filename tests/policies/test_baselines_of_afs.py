"""Tiresias-L and Themis: their queues, promotions, leases and auctions, worked by hand."""

from __future__ import annotations

import math

import pytest
from support.policy_states import active, decide, fresh, state

from bftrainer.decide.domain.model import Curve
from bftrainer_papers.policies.themis import Contention, Leases, Themis
from bftrainer_papers.policies.tiresias import TiresiasL

LINEAR = Curve((1, 16), (1.0, 16.0))


def test_a_job_is_demoted_by_its_gpu_time_and_the_second_queue_runs_what_is_left() -> None:
    trainers = [
        active("served", 4, requested=4, node_s=3600.0, run_s=900.0),
        active("new", requested=4),
        active("small", requested=2),
    ]
    assert decide(TiresiasL(), fresh(trainers, 4)).counts == (0, 4, 0)
    assert decide(TiresiasL(), fresh(trainers, 6)).counts == (0, 4, 2)
    assert decide(TiresiasL(), fresh(trainers, 8)).counts == (0, 4, 2), "2 left: served is too big"
    assert decide(TiresiasL(), fresh(trainers, 10)).counts == (4, 4, 2)


def test_within_a_queue_no_job_preempts_another() -> None:
    policy = TiresiasL()
    _, memory = policy.decide(
        fresh([active("a", requested=8), active("b", requested=2)], 4), decide.event(0.0)
    )
    running = [
        active("a", requested=8),
        active("b", 2, requested=2, node_s=20.0, run_s=10.0),
        active("c", requested=4),
    ]
    decision, _ = policy.decide(state(running, 6, at_s=10.0, memory=memory), decide.event(10.0))
    assert decision.counts == (0, 2, 4), "a arrived first, but b has started first"


def test_the_policy_wakes_when_a_running_job_reaches_the_threshold() -> None:
    busy = active("a", 4, requested=4, node_s=1600.0, run_s=400.0)
    waiting = active("b", requested=4)
    decision, memory = TiresiasL().decide(fresh([busy, waiting], 4, at_s=50.0), decide.event(50.0))
    assert decision.counts == (4, 0)
    assert decision.wake_at_s == 50.0 + 2000.0 / 4
    later = active("a", 4, requested=4, node_s=3600.0 - 1e-5, run_s=900.0)
    decision, _ = TiresiasL().decide(
        fresh([later, waiting], 4, at_s=550.0, memory=memory), decide.event(550.0)
    )
    assert decision.counts == (0, 4), "rounding must not keep the job in the first queue"
    alone, _ = TiresiasL().decide(fresh([busy], 4), decide.event(50.0))
    assert alone.wake_at_s is None, "nobody waits: the queue of a job does not matter"


def test_a_demoted_job_that_waits_eight_times_its_run_time_is_promoted() -> None:
    policy = TiresiasL()
    starved = active("a", requested=4, node_s=4000.0, run_s=1000.0)
    others = active("b", 4, requested=4, node_s=100.0, run_s=25.0)
    decision, memory = policy.decide(fresh([starved, others], 4, at_s=100.0), decide.event(100.0))
    assert decision.counts == (0, 4)
    assert decision.wake_at_s == 100.0 + 3500.0 / 4, "b reaches the threshold before"
    # b stays in the first queue here, as if it had been replaced by a job like it.
    for at_s, counts in ((8099.0, (0, 4)), (8100.0, (4, 0))):
        decision, _ = policy.decide(
            fresh([starved, others], 4, at_s=at_s, memory=memory), decide.event(at_s)
        )
        assert decision.counts == counts
    never = TiresiasL(promote_knob=0.0)
    assert never.decide(fresh([starved, others], 4, at_s=1e6, memory=memory), decide.event(1e6))[
        0
    ].counts == (0, 4)


def test_rho_orders_the_jobs_and_none_gets_more_than_it_requests() -> None:
    trainers = [
        active("late", requested=2, samples=1e3, curve=LINEAR),
        active("long", requested=4, samples=1e6, curve=LINEAR),
    ]
    # Both have waited 1,000 s: for a short job that is worse.
    before = fresh(trainers, 2, at_s=1000.0)
    assert decide(Themis(), before).counts == (2, 0)
    assert decide(Themis(), fresh(trainers, 16, at_s=1000.0)).counts == (2, 4)


def test_a_lease_keeps_its_nodes_until_it_ends() -> None:
    policy = Themis(lease_s=600.0)
    first = active("a", requested=4, samples=1e4, curve=LINEAR)
    _, memory = policy.decide(fresh([first], 4, at_s=0.0), decide.event(0.0))
    assert isinstance(memory, Leases)
    assert memory.ends_s == (("a", 600.0),)
    both = [
        active("a", 4, requested=4, samples=1e4, done=400.0, curve=LINEAR),
        active("b", requested=4, samples=1e2, curve=LINEAR),
    ]
    decision, memory = policy.decide(fresh(both, 4, at_s=100.0, memory=memory), decide.event(100.0))
    assert (decision.counts, decision.wake_at_s) == ((4, 0), 600.0)
    decision, memory = policy.decide(fresh(both, 4, at_s=600.0, memory=memory), decide.event(600.0))
    assert decision.counts == (0, 4), "b has the worse rho by now"


def test_the_offer_goes_to_the_worst_fifth_and_the_rest_takes_what_is_left() -> None:
    trainers = [active(f"t{i}", requested=4, samples=10.0**i, curve=LINEAR) for i in range(1, 6)]
    counts = decide(Themis(), fresh(trainers, 6, at_s=1e4)).counts
    assert counts[0] == 4, "the offer is to one job of five"
    assert sum(counts) == 6
    assert sum(decide(Themis(), fresh(trainers, 100, at_s=1e4)).counts) == 20


def test_the_auction_maximizes_the_product_of_valuations() -> None:
    """Two bidders, by brute force over all divisions of the nodes."""
    flat = Curve(tuple(range(1, 17)), tuple(n**0.4 for n in range(1, 17)))
    trainers = [
        active("flat", samples=1e4, curve=flat),
        active("linear", samples=1e4, curve=LINEAR),
    ]
    counts = decide(Themis(fairness=0.0), fresh(trainers, 12)).counts

    def product(n: int) -> float:
        rates = (n**0.4, float(12 - n))
        return math.prod(rates)  # nobody has waited: 1 / rho is in proportion to the rate

    assert counts[0] == max(range(1, 12), key=product)
    assert sum(counts) == 12


def test_contention_is_the_mean_number_of_jobs_of_a_life() -> None:
    one, two = [active("a")], [active("a"), active("b")]
    contention = Contention().then(fresh(one, 4, at_s=0.0)).then(fresh(two, 4, at_s=100.0))
    contention = contention.then(fresh(two, 4, at_s=200.0))
    assert contention.job_s == pytest.approx(100.0 + 200.0)
    assert dict(contention.began) == {"a": 0.0, "b": 100.0}
