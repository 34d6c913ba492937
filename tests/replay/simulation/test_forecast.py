"""When a queue is done: runs from past moments, and their distribution."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from replay.windows import window

from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.decide.policies.equal_share import EqualShare
from bftrainer_replay.simulation.forecast import FEWEST, PastRuns, forecast
from bftrainer_replay.simulation.past_runs import even_starts, recent_nodes, took_s, without_gaps

HOUR_S, DAY_S = 3600.0, 86_400.0


def trainer(name: str, samples: float | None) -> Trainer:
    return Trainer(name, Curve((1, 4), (1.0, 4.0)), 1, 4, 0.0, 0.0, samples)


def past(times: list[float], step_s: float = DAY_S, pool: list[float] | None = None) -> PastRuns:
    starts = np.arange(len(times)) * step_s
    return PastRuns(
        starts, np.array(times), len(times) * step_s - starts, np.array(pool or [1.0] * len(times))
    )


def test_a_queue_from_a_past_moment_takes_what_the_pool_then_allows() -> None:
    two_leave = window(1000.0, "abcd", (500.0, "ab"))
    queue = [trainer("one", 400.0), trainer("endless", None), trainer("long", 1e6)]
    assert took_s(two_leave, queue[:1], EqualShare(), None, 100.0).tolist() == [100.0]
    assert took_s(two_leave, queue[:1], EqualShare(), None, 600.0).tolist() == [200.0]
    assert took_s(two_leave, queue[:1], EqualShare(), None, 450.0).tolist() == [150.0]
    shared = took_s(two_leave, queue, EqualShare(), 2, 100.0)
    assert shared.tolist() == [200.0, np.inf, np.inf], "one of unknown length keeps its share"


def test_time_in_gaps_does_not_count() -> None:
    spliced = without_gaps(
        window(1000.0, "abcd", (200.0, "abcd"), (700.0, "abcd"), gaps=((200.0, 700.0),))
    )
    assert (spliced.end_s, [event.at_s for event in spliced.events]) == (500.0, [200.0, 200.0])
    assert took_s(spliced, [trainer("one", 800.0)], EqualShare(), None, 100.0).tolist() == [200.0]


def test_past_moments_are_spread_evenly_however_many_there_are() -> None:
    assert list(islice(even_starts(window(1000.0, "abcd")), 4)) == [0.0, 500.0, 250.0, 750.0]


def test_the_recent_pool_is_relative_to_the_mean() -> None:
    half = window(4 * HOUR_S, "abcd", (2 * HOUR_S, "abcd"))
    assert recent_nodes(half, np.array([HOUR_S, 2.5 * HOUR_S, 4 * HOUR_S])).tolist() == [
        2.0,
        1.0,
        0.0,
    ]


def test_four_of_five_true_times_are_in_the_interval() -> None:
    times = np.random.default_rng(1).lognormal(np.log(5 * HOUR_S), 0.6, 240)
    runs, inside = past(times.tolist(), DAY_S / 2), []
    for k in range(40, 240):
        at_s = float(runs.start_s[k])
        it = forecast(runs.known_at(at_s, k), at_s, 1.0)
        inside.append(it.after_s(0.1) <= times[k] <= it.after_s(0.9))
    assert 0.75 <= np.mean(inside) <= 0.85


def test_times_that_grow_from_week_to_week_widen_the_interval() -> None:
    times = HOUR_S * 1.02 ** np.arange(160)
    found = forecast(past(times.tolist(), DAY_S / 2), 80 * DAY_S, 1.0)
    assert found.errors > 80
    assert found.widened > 1.2


def test_few_days_widen_the_interval_and_very_few_give_none() -> None:
    times = [3.0 * HOUR_S, 5.0 * HOUR_S] * 6
    few, many = (
        forecast(past(times, HOUR_S * 4), 2 * DAY_S, 1.0),
        forecast(past(times * 10), 120 * DAY_S, 1.0),
    )
    assert few.widened == pytest.approx(1 + 1.16 / 2)
    assert few.after_s(0.9) / few.after_s(0.1) > many.after_s(0.9) / many.after_s(0.1)
    assert forecast(past([HOUR_S] * (FEWEST - 1)), 30 * DAY_S, 1.0) is None
    assert forecast(past([np.inf] * 40 + [HOUR_S] * FEWEST), 50 * DAY_S, 1.0) is None, (
        "most were never done"
    )


def test_a_time_that_the_log_does_not_end_counts_as_long() -> None:
    short = forecast(past([HOUR_S] * 20), 20 * DAY_S, 1.0)
    cut = forecast(past([HOUR_S] * 17 + [np.inf] * 3), 20 * DAY_S, 1.0)
    assert short.after_s(0.9) == pytest.approx(HOUR_S)
    assert cut.after_s(0.9) == np.inf
    assert cut.probability(30 * DAY_S) < 0.9 < short.probability(2 * HOUR_S)


def test_the_present_pool_chooses_the_past_that_counts() -> None:
    full, empty = [HOUR_S] * 20, [10 * HOUR_S] * 20
    runs = past(full + empty, pool=[2.0] * 20 + [0.0] * 20)
    now = {pool: forecast(runs, 40 * DAY_S, pool) for pool in (2.0, 0.0)}
    assert [it and it.median_s for it in now.values()] == [HOUR_S, 10 * HOUR_S]


def test_the_probability_of_a_deadline_agrees_with_the_interval() -> None:
    found = forecast(
        past(np.random.default_rng(3).lognormal(9, 0.5, 400).tolist(), DAY_S / 8), 50 * DAY_S, None
    )
    for share in (0.1, 0.5, 0.9):
        assert found.probability(found.after_s(share) * 1.000001) == pytest.approx(share, abs=0.03)
    assert found.probability(-5.0) == 0.0
