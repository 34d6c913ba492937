"""``bftrainer audit``: planted delays are found to the second, and an honest week has none."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from support.weeks_of_jobs import week, without_partitions

from bftrainer.cluster.main_delays import main_delays
from bftrainer.cluster.past_jobs import JobLog, Outage, PastJob

NODES = frozenset({"n1", "n2", "n3", "n4"})


def job(name: str, size: int, eligible_s: float, start_s: float | None, **more: object) -> PastJob:
    nodes = frozenset(sorted(NODES)[:size]) if start_s is not None else frozenset[str]()
    base = PastJob(name, "main", size, eligible_s, start_s, None, nodes, "ann", 3600.0)
    return replace(base, **more)  # type: ignore[arg-type]


def holder(node: str, start_s: float, end_s: float | None) -> PastJob:
    nodes = frozenset({node})
    return PastJob(
        f"h{node}{start_s:g}", "low", 1, start_s, start_s, end_s, nodes, "pilot", is_holder=True
    )


def log(*jobs: PastJob, end_s: float = 1000.0, **more: object) -> JobLog:
    base = JobLog(jobs, 0.0, end_s, {"main": NODES})
    return replace(base, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(6))
def test_an_honest_week_has_no_delay(seed: int) -> None:
    """Every idle node is held, also in the windows before planned jobs."""
    account, planted = week(seed)
    assert not planted
    waited = [each for each in account.jobs if each.start_s != each.eligible_s]
    assert len(waited) > 100
    assert main_delays(account) == ()
    assert main_delays(without_partitions(account)) == ()


@pytest.mark.parametrize("seed", range(6))
def test_planted_delays_are_found_to_the_second(seed: int) -> None:
    chance = random.Random(seed)
    late_s = {chance.randrange(400): 10.0 + 37.0 * place for place in range(8)}
    account, planted = week(seed, late_s=late_s)
    found = {delay.job.id: delay.seconds for delay in main_delays(account)}
    adjacent = {name for name, seconds in planted.items() if found[name] > seconds + 1.0}
    assert len(adjacent) <= 1, "two stretches may meet"
    for name in planted.keys() - adjacent:
        assert found[name] == pytest.approx(planted[name], abs=1.0)
    # Other jobs wait in the same stretches only.
    assert all(seconds <= sum(planted.values()) for seconds in found.values())
    assert max(found.values()) <= max(sum(planted.values()), 0.0)


def test_the_longest_stretch_counts_and_who_was_held() -> None:
    held = [holder("n1", 0.0, 150.0), holder("n2", 0.0, 150.0), holder("n3", 200.0, 320.0)]
    runs = [
        job("r3", 1, 0.0, 0.0, nodes=frozenset({"n3"}), end_s=200.0),
        job("r4", 1, 0.0, 0.0, nodes=frozenset({"n4"})),
        job("r1", 1, 150.0, 150.0, nodes=frozenset({"n1", "n2"})),
    ]
    waits = job("late", 1, 100.0, 320.0, nodes=frozenset({"n3"}), priority=-1.0)
    (delay,) = main_delays(log(*held, *runs, waits))
    assert (delay.begin_s, delay.end_s, delay.seconds) == (200.0, 320.0, 120.0)
    assert (delay.missing, delay.held) == (1, 1)


def test_idle_nodes_that_were_enough_are_not_the_pilots_fault() -> None:
    held = holder("n1", 0.0, 500.0)
    assert main_delays(log(held, job("a", 3, 10.0, 500.0))) == ()
    (delay,) = main_delays(log(held, job("a", 4, 10.0, 500.0)))
    assert delay.seconds == 490.0


def test_a_node_that_was_down_was_not_idle() -> None:
    held = holder("n1", 0.0, 500.0)
    waits = job("a", 3, 10.0, 500.0)
    down = (Outage("n4", 0.0, 400.0),)
    (delay,) = main_delays(log(held, waits, outages=down))
    assert (delay.begin_s, delay.end_s) == (10.0, 400.0)
    assert main_delays(log(held, waits, outages=(Outage("elsewhere", 0.0, None),))) == ()


def test_jobs_ahead_get_the_nodes_first() -> None:
    """A holder in a window that a job ahead leaves stands in nobody's way."""
    big = job("big", 4, 0.0, 300.0, nodes=NODES, priority=10.0)
    runs = job("runs", 3, 0.0, 0.0, nodes=frozenset({"n2", "n3", "n4"}), end_s=300.0, limit_s=300.0)
    held = holder("n1", 0.0, 300.0)
    long = job("long", 1, 20.0, 400.0, limit_s=3600.0)
    assert main_delays(log(big, runs, held, long)) == ()
    short = job("short", 1, 20.0, 400.0, limit_s=200.0)
    (delay,) = main_delays(log(big, runs, held, short))
    assert (delay.job.id, delay.begin_s) == ("short", 20.0)
    (urgent,) = main_delays(log(big, runs, held, replace(long, priority=20.0)))
    assert urgent.job.id == "long"
    # What waits for something else plans no nodes.
    (free,) = main_delays(log(replace(big, other_reason="Licenses"), runs, held, long))
    assert free.job.id == "long"


def test_jobs_that_never_started_have_waited_until_the_end() -> None:
    held = [holder(node, 0.0, None) for node in sorted(NODES)]
    waits = job("a", 2, 900.0, None, partition="other,main")
    (delay,) = main_delays(log(*held, waits))
    assert (delay.seconds, delay.held) == (100.0, 4)


def test_nodes_that_are_only_held_count_for_partitions_beside_them() -> None:
    held = [holder(node, 0.0, 700.0) for node in sorted(NODES)]
    before = job("before", 3, 800.0, 800.0)
    waits = job("a", 4, 100.0, 700.0, nodes=frozenset(), end_s=700.0)
    account = log(*held, before, waits, partitions={})
    assert [delay.job.id for delay in main_delays(account)] == ["a"]


def test_no_jobs_and_odd_sizes() -> None:
    assert main_delays(log()) == ()
    held = holder("n1", 0.0, None)
    assert main_delays(log(held, job("zero", 0, 1.0, 50.0), job("huge", 9, 1.0, 50.0))) == ()
