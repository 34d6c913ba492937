"""ModelArts' optimal allocator as a policy: what goes into the model, and what happens between scaling moments."""

from __future__ import annotations

import math

from policy_states import active, decide, fresh, state

from bftrainer_papers.policies.modelarts_optimal import ModelArtsOptimal

POLICY = ModelArtsOptimal()


def test_counts_are_powers_of_two_within_the_cap_and_the_pool() -> None:
    counts = decide(POLICY, fresh([active(f"t{j}", samples=1e4 * (j + 1)) for j in range(5)], 37)).counts
    assert all(n and n & (n - 1) == 0 and n <= 16 for n in counts)
    assert sum(counts) <= 37


def test_more_jobs_than_nodes_only_the_head_of_the_queue_runs_and_who_runs_stays() -> None:
    trainers = [active("first"), active("second"), active("runs", 1), active("third")]
    assert decide(POLICY, fresh(trainers, 3)).counts == (1, 1, 1, 0)


def test_a_head_that_does_not_fit_holds_the_queue_up_unless_the_pool_is_too_small_for_it_at_all() -> None:
    runs = active("runs", 4, min_nodes=4)
    assert decide(POLICY, fresh([runs, active("large", min_nodes=4), active("small")], 6)).counts == (4, 0, 0)
    assert decide(POLICY, fresh([runs, active("huge", min_nodes=8), active("small")], 6)).counts == (4, 0, 2)


def test_the_first_step_is_the_one_carried_out_and_the_next_moment_is_a_full_five_minutes() -> None:
    decision, memory = POLICY.decide(state([active("a")], 4, at_s=610.0), decide.event(610.0))
    assert (decision.counts, decision.wake_at_s, memory) == ((4,), 900.0, 900.0)


def test_between_scaling_moments_a_freed_node_goes_to_the_queue_at_once() -> None:
    trainers = [active("a", 2), active("waits")]
    assert decide(POLICY, state(trainers, 5, at_s=700.0, memory=900.0)).counts == (2, 4)
    assert decide(POLICY, state(trainers[:1], 5, at_s=700.0, memory=900.0)).counts == (2,), "nobody is scaled"


def test_a_lost_node_drops_it_to_the_largest_power_of_two_at_once() -> None:
    assert decide(POLICY, state([active("a", 7)], 0, at_s=700.0, memory=900.0)).counts == (4,)


def test_who_is_past_its_estimate_does_not_outweigh_the_others() -> None:
    past, long = active("past", done=1e5, samples=1e5), active("long", samples=1e5)
    counts = decide(POLICY, fresh([past, long], 17)).counts
    assert counts == (1, 16)
    assert math.isfinite(sum(counts))
