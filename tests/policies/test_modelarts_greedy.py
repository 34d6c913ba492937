"""ModelArts' greedy allocator: both tables of Fig. 4, and each of its four cases."""

from __future__ import annotations

import math

from support.policy_states import active, decide, fresh, state

from bftrainer_papers.policies.modelarts_greedy import ModelArtsGreedy
from bftrainer_papers.policies.modelarts_optimal import ModelArtsOptimal

GREEDY = ModelArtsGreedy()


def minutes(*rows: tuple[int, int]) -> list[tuple[float, int]]:
    return [(60.0 * m, nodes) for m, nodes in rows]


def fig_4(rows: list[tuple[float, int]], idle: int) -> tuple[int, ...]:
    """Jobs with (training time, nodes), at a scaling moment."""
    trainers = [active(f"job-{j}", nodes, run_s=run_s) for j, (run_s, nodes) in enumerate(rows)]
    return decide(GREEDY, state(trainers, idle)).counts


def test_fig_4_top_the_shortest_gets_the_idle_nodes() -> None:
    assert fig_4(minutes((15, 2), (12, 2), (5, 2), (1, 2)), idle=2) == (2, 2, 2, 4)


def test_fig_4_bottom_the_longest_is_halved_for_the_queue() -> None:
    assert fig_4(minutes((15, 4), (12, 4), (5, 2), (0, 0)), idle=0) == (2, 4, 2, 2)


def test_case_1_repeats_down_the_queue_and_nobody_is_scaled_up_while_it_lasts() -> None:
    assert fig_4(minutes((15, 2), (0, 0), (0, 0)), idle=20) == (2, 16, 4)


def test_case_2_repeats_from_the_shortest_on() -> None:
    assert fig_4(minutes((15, 2), (12, 2), (5, 10)), idle=20) == (2, 16, 16)


def test_case_3_takes_only_from_jobs_with_two_nodes_or_more() -> None:
    assert fig_4(minutes((15, 1), (12, 2), (0, 0)), idle=0) == (1, 1, 1)
    assert fig_4(minutes((15, 1), (12, 1), (0, 0)), idle=0) == (1, 1, 0)


def test_case_3_is_done_once_and_a_head_that_needs_more_gets_further_halves() -> None:
    assert fig_4(minutes((15, 4), (12, 4), (0, 0), (0, 0)), idle=0) == (2, 4, 2, 0)
    large = [active("a", 4, run_s=900), active("b", 4, run_s=720), active("c", 0, min_nodes=4)]
    assert decide(GREEDY, state(large, 0)).counts == (2, 2, 4)
    larger = [active("a", 4, run_s=900), active("c", 0, min_nodes=4)]
    assert decide(GREEDY, state(larger, 0)).counts == (4, 0), (
        "half of four does not start it: nothing changes"
    )


def test_case_4_changes_nothing() -> None:
    assert fig_4(minutes((15, 4), (12, 4)), idle=0) == (4, 4)


def test_between_scaling_moments_only_the_queue_is_served() -> None:
    trainers = [active("a", 2, run_s=60), active("b", 2, run_s=30)]
    decision, memory = GREEDY.decide(state(trainers, 0, at_s=600.0), decide.event(600.0))
    assert (decision.wake_at_s, memory) == (900.0, 900.0)
    later = state(trainers, 2, at_s=700.0, memory=memory)
    assert decide(GREEDY, later).counts == (2, 2)
    queued = state([*trainers, active("c", 0)], 2, at_s=700.0, memory=memory)
    assert decide(GREEDY, queued).counts == (2, 2, 2)
    full = state([*trainers, active("c", 0)], 0, at_s=700.0, memory=memory)
    assert decide(GREEDY, full).counts == (2, 2, 0)


def test_powers_of_two_are_an_option_and_a_loss_drops_to_one_at_once() -> None:
    powers = ModelArtsGreedy(powers_of_two=True)
    assert decide(powers, state([active("a", 7)], 0, at_s=700.0, memory=900.0)).counts == (4,)
    assert decide(powers, state([active("a", 0)], 7)).counts == (4,)
    assert decide(GREEDY, state([active("a", 0)], 7)).counts == (7,)


# --- ModelArts' optimal allocator as a policy: what goes into the model, and what happens between
# scaling moments

POLICY = ModelArtsOptimal()


def test_counts_are_powers_of_two_within_the_cap_and_the_pool() -> None:
    counts = decide(
        POLICY, fresh([active(f"t{j}", samples=1e4 * (j + 1)) for j in range(5)], 37)
    ).counts
    assert all(n and n & (n - 1) == 0 and n <= 16 for n in counts)
    assert sum(counts) <= 37


def test_more_jobs_than_nodes_only_the_head_of_the_queue_runs_and_who_runs_stays() -> None:
    trainers = [active("first"), active("second"), active("runs", 1), active("third")]
    assert decide(POLICY, fresh(trainers, 3)).counts == (1, 1, 1, 0)


def test_a_head_that_does_not_fit_holds_the_queue_up_unless_the_pool_is_too_small_for_it_at_all() -> (
    None
):
    runs = active("runs", 4, min_nodes=4)
    assert decide(
        POLICY, fresh([runs, active("large", min_nodes=4), active("small")], 6)
    ).counts == (4, 0, 0)
    assert decide(
        POLICY, fresh([runs, active("huge", min_nodes=8), active("small")], 6)
    ).counts == (4, 0, 2)


def test_the_first_step_is_the_one_carried_out_and_the_next_moment_is_a_full_five_minutes() -> None:
    decision, memory = POLICY.decide(state([active("a")], 4, at_s=610.0), decide.event(610.0))
    assert (decision.counts, decision.wake_at_s, memory) == ((4,), 900.0, 900.0)


def test_between_scaling_moments_a_freed_node_goes_to_the_queue_at_once() -> None:
    trainers = [active("a", 2), active("waits")]
    assert decide(POLICY, state(trainers, 5, at_s=700.0, memory=900.0)).counts == (2, 4)
    assert decide(POLICY, state(trainers[:1], 5, at_s=700.0, memory=900.0)).counts == (2,), (
        "nobody is scaled"
    )


def test_a_lost_node_drops_it_to_the_largest_power_of_two_at_once() -> None:
    assert decide(POLICY, state([active("a", 7)], 0, at_s=700.0, memory=900.0)).counts == (4,)


def test_who_is_past_its_estimate_does_not_outweigh_the_others() -> None:
    past, long = active("past", done=1e5, samples=1e5), active("long", samples=1e5)
    counts = decide(POLICY, fresh([past, long], 17)).counts
    assert counts == (1, 16)
    assert math.isfinite(sum(counts))
