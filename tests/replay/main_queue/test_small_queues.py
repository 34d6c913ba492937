"""Queues of a few jobs, worked by hand: when each starts, and for how long held nodes delay it."""

from __future__ import annotations

import pytest

from bftrainer.config.pilot import NodesConfig
from bftrainer.decide.yielding.node_sets import NumberedNodes
from bftrainer.errors import UserError
from bftrainer_replay.main_queue.backfill import BACKFILLS, Conservative, Easy, free_for
from bftrainer_replay.main_queue.cluster import Schedule, simulate
from bftrainer_replay.main_queue.holders import HeldNodes
from bftrainer_replay.main_queue.jobs import MainJobs
from bftrainer_replay.main_queue.ways import FreeingWay, PilotRules, rules_of

EASY = Easy()


def queue(nodes: int, *jobs: tuple[float, float, float, int]) -> MainJobs:
    """Jobs as (submission, run time, limit, nodes), on so many nodes."""
    submit_s, run_s, limit_s, sizes = zip(*jobs, strict=True)
    return MainJobs(submit_s, run_s, limit_s, sizes, nodes)


def beside(way: str, jobs: MainJobs, **more: float) -> Schedule:
    """Simulate jobs beside a pilot that looks every 2 s, without a low-water mark, unless other
    rules are asked for.
    """
    return simulate(jobs, EASY, rules_of(way, **{"settled_s": 0.0, "look_s": 2.0, **more}))


HELD = queue(2, (0, 10, 10, 1), (100, 50, 50, 2))
"""At 2 s, the first look holds the idle node, and at 12 s the other: the first job has ended at 10.
The second job comes at 100 s and needs both.
"""


@pytest.mark.parametrize(
    ("way", "more", "start_s"),
    [
        ("site", {}, 100.0),
        ("yield", {}, 104.0),  # the look at 102 s, and 2 s until the nodes are idle
        ("yield", {"look_s": 10.0}, 112.0),
        ("blind", {"look_s": 1.0}, 104.0),  # glances at 101 and 102 s release a node each
        ("life:95", {}, 107.0),  # the younger holder began at 12 s
        ("life:20", {}, 100.0),
        ("keep", {"worst_wait_s": 300.0}, 312.0),
        ("keep", {}, 12.0 + 86400.0),
        ("windows", {"worst_wait_s": 700.0}, 712.0),
    ],
)
def test_when_a_job_gets_held_nodes(way: str, more: dict[str, float], start_s: float) -> None:
    schedule = beside(way, HELD, **more)
    assert schedule.start_s[1] == pytest.approx(start_s)
    assert schedule.delay_s[1] == pytest.approx(start_s - 100.0)
    assert schedule.delay_s[0] == 0.0


def test_without_a_pilot_nothing_is_held() -> None:
    schedule = simulate(HELD, EASY)
    assert schedule.start_s == (0.0, 100.0)
    assert schedule.delay_s == (0.0, 0.0)
    assert schedule.tally.held_node_s == 0.0
    assert schedule.tally.available_node_s == 10 * 1 + 90 * 2


def test_the_harvest_is_counted_until_the_last_submission() -> None:
    tally = beside("yield", HELD).tally
    assert tally.held_node_s == (100 - 2) + (100 - 12)
    assert (tally.holder_starts, tally.releases) == (2, 1)


def test_easy_backfill_delays_only_jobs_behind_the_first() -> None:
    jobs = queue(4, (0, 100, 100, 3), (1, 50, 50, 4), (2, 99, 200, 1), (3, 10, 90, 1))
    starts = simulate(jobs, EASY).start_s
    assert starts == (0.0, 100.0, 150.0, 3.0)


def test_conservative_backfill_delays_no_job_before() -> None:
    """The fourth job fits beside the reservation of the second, but not beside that of the third."""
    jobs = queue(4, (0, 100, 100, 3), (1, 50, 50, 2), (2, 100, 100, 4), (3, 1000, 1000, 1))
    assert simulate(jobs, BACKFILLS["easy"]).start_s == (0.0, 100.0, 1003.0, 3.0)
    assert simulate(jobs, BACKFILLS["conservative"]).start_s == (0.0, 100.0, 150.0, 250.0)


def test_reservations_take_their_nodes_out_of_the_plan() -> None:
    jobs = queue(4, (0, 100, 100, 3), (0, 100, 100, 2), (0, 100, 100, 1))

    def ends() -> list[tuple[float, int]]:
        return [(100.0, 3)]

    assert Easy().levels(0.0, 1, ends, [1], jobs) == [(0.0, 1), (100.0, 1)]
    assert Conservative().levels(0.0, 1, ends, [1, 2], jobs) == [(0.0, 0)]
    assert Conservative().starts(0.0, 1, ends, [1, 2], jobs) == [2]


def test_nodes_are_held_for_as_long_as_no_plan_needs_them() -> None:
    levels = [(10.0, 5), (110.0, 2), (310.0, 0)]
    assert free_for(10.0, levels, 5) == [(3, 100.0), (2, 300.0)]
    assert free_for(10.0, levels, 1) == [(1, 300.0)]
    assert free_for(10.0, [(10.0, 5)], 4) == [(4, float("inf"))]


def test_a_pilot_does_not_hold_what_the_plan_needs_soon() -> None:
    """The job of two nodes is planned for 100 s: the idle node is held for 98 s, and no longer. A
    holder that can be preempted later is in no plan, so the same node is held at 2 and 102 s.
    """
    jobs = queue(2, (0, 100, 100, 1), (1, 10, 10, 2))
    assert beside("keep", jobs).start_s[1] == 100.0
    assert beside("life:5000", jobs).start_s[1] == pytest.approx(5102.0)


def test_the_low_water_mark_leaves_nodes_that_come_and_go() -> None:
    """One of two nodes is busy until 1,000 s, and again for 10 s every 100 s from 2,000 s on."""
    coming = [(float(2000 + 100 * turn), 10.0, 10.0, 1) for turn in range(20)]
    jobs = queue(2, (0, 1000, 1000, 1), *coming)
    without, marked = (beside("yield", jobs, settled_s=settled_s) for settled_s in (0.0, 300.0))
    assert sum(delay_s > 0 for delay_s in without.delay_s) == 20
    assert [delay_s > 0 for delay_s in marked.delay_s] == [False, True, *[False] * 19]
    assert marked.tally.held_node_s < without.tally.held_node_s


def test_the_mark_rises_when_the_low_has_passed() -> None:
    jobs = queue(2, (0, 1000, 1000, 2), (5000, 1, 1, 1))
    tally = beside("yield", jobs, settled_s=600.0, worst_wait_s=86400.0).tally
    assert tally.held_node_s == 2 * (5000 - 1602)


def test_an_offer_that_no_backfill_cycle_takes_is_void() -> None:
    """The third job waits for the reservation of the second, though it fits: the pilot offers a node
    for a backfill cycle, and holds it again; it offers one every 1,200 s, until the reservation
    begins. Twice the holder of a node has just ended.
    """
    jobs = queue(4, (0, 5000, 5000, 3), (100, 10, 10, 4), (200, 10, 9000, 1), (7000, 1, 1, 1))
    schedule = beside("yield", jobs)
    assert schedule.start_s[1:3] == (5000.0, 5010.0)
    assert schedule.delay_s == (0.0, 0.0, 0.0, 4.0)
    assert schedule.tally.releases == 2
    assert 4 * 15 < schedule.tally.available_node_s - schedule.tally.held_node_s < 5 * 32


def test_a_rare_backfill_cycle_keeps_offered_nodes_idle_for_longer() -> None:
    jobs = queue(4, (0, 5000, 5000, 3), (100, 10, 10, 4), (200, 10, 9000, 1), (7000, 1, 1, 1))
    tallies = [beside("yield", jobs, cycle_s=cycle_s).tally for cycle_s in (0.0, 30.0, 300.0)]
    idle_s = [tally.available_node_s - tally.held_node_s for tally in tallies]
    assert idle_s[0] + 30 < idle_s[1] < idle_s[2] - 60
    with pytest.raises(UserError, match="--cycle -1: expected 0"):
        rules_of("yield", cycle_s=-1.0)


def test_a_holder_ends_while_jobs_wait_at_its_lowered_limit() -> None:
    """The limits of a day become 600 s at the first look at which a job waits, at 102 s."""
    rules = PilotRules(FreeingWay.KEEP, worst_wait_s=86400.0, busy_limit_s=600.0, look_s=2.0)
    schedule = simulate(HELD, EASY, rules)
    assert schedule.start_s[1] == 702.0


def test_random_delays_are_those_of_the_seed() -> None:
    jobs = queue(1, *((float(k), 5.0, 5.0, 1) for k in range(50)))
    first, same, other = (simulate(jobs, EASY, noise_s=4.0, seed=seed) for seed in (1, 1, 2))
    assert first.start_s == same.start_s != other.start_s
    plain = simulate(jobs, EASY)
    assert all(late >= start for late, start in zip(first.start_s, plain.start_s, strict=True))


@pytest.mark.parametrize(
    ("way", "problem"),
    [
        ("never", "expected site, yield, blind, keep, windows, or life:SECONDS"),
        ("life", "expected site"),
        ("yield:5", "expected site"),
        ("life:soon", "expected seconds"),
        ("life:-1", "life -1: expected 0 to"),
        ("life:nan", "life nan: expected 0 to"),
    ],
)
def test_ways_that_do_not_exist(way: str, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        rules_of(way)


def test_defaults_are_those_of_the_pilot() -> None:
    assert (rules_of("yield").worst_wait_s, rules_of("yield").settled_s) == (1800.0, 300.0)
    assert (rules_of("blind").look_s, rules_of("blind").settled_s) == (1.0, 3600.0)
    assert rules_of("yield").look_s == NodesConfig().yield_poll_s
    assert rules_of("life:600").name == "life:600"
    with pytest.raises(UserError, match="--worst-wait 60: expected 120"):
        rules_of("yield", worst_wait_s=60.0)


def test_nodes_beside_a_reservation_are_given_once() -> None:
    jobs = queue(5, (0, 100, 100, 2), (1, 10, 10, 4), (2, 1000, 1000, 1), (3, 1000, 1000, 1))
    assert simulate(jobs, EASY).start_s == (0.0, 100.0, 2.0, 110.0)


def test_the_youngest_holders_end_first() -> None:
    held = HeldNodes()
    held.start(0.0, 100.0, NumberedNodes(0b001))
    held.start(5.0, 200.0, NumberedNodes(0b110))
    assert held.youngest(1, 1.0) == NumberedNodes(0b001)
    held.end(held.youngest(2, 10.0))
    assert (held.ends(-1.0), held.count, held.nodes) == ([(100.0, 1)], 1, NumberedNodes(0b001))
