"""ModelArts' greedy allocator: both tables of Fig. 4, and each of its four cases."""

from __future__ import annotations

from policy_states import active, decide, state

from bftrainer_papers.policies.modelarts_greedy import ModelArtsGreedy

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
    assert decide(GREEDY, state(larger, 0)).counts == (4, 0), "half of four does not start it: nothing changes"


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
