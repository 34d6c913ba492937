"""Pieces of a long log: what they contain, that they stand for the whole, and that they are the
same every time.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from replay.windows import window

from bftrainer.decide.domain.events import PoolChanged
from bftrainer_replay.analysis.window_fragments import pool_sizes_of
from bftrainer_replay.logs.model import EventLog, LogWindow, PoolEvent, restricted_log
from bftrainer_replay.report.used_nodes import (
    UsedNodes,
    preemptions,
    spread_text,
    usable_shares,
    used_spread,
)
from bftrainer_replay.sweep.cell import Cell
from bftrainer_replay.sweep.results import SUMMED, SweepRow, summed
from bftrainer_replay.sweep.sample import cost_s, drawn, whole
from bftrainer_replay.workload.workload import trainers_of_many_users

DAY_S = 86400.0


def made_log(days: float, per_day: int, seed: int = 1) -> LogWindow:
    """A log of 40 nodes that come and go at random."""
    draw = random.Random(seed)
    flips = (
        (k * DAY_S / per_day + 1, [f"n{draw.randrange(40):02d}"])
        for k in range(int(days * per_day))
    )
    return window(days * DAY_S, "", *flips, nodes=40)


def test_pieces_are_parts_of_the_log_drawn_over_all_of_it() -> None:
    log = made_log(100, 50)
    sample = drawn(log, 0.2)
    assert len(sample.pieces) == 20
    assert {piece.span_s for piece in sample.pieces} == {DAY_S}
    whole_log = EventLog((PoolEvent(0.0, PoolChanged()), *log.events), "made")
    for k, piece in enumerate(sample.pieces):
        assert (
            k * 5 * DAY_S <= piece.start_s < piece.end_s <= (k + 1) * 5 * DAY_S
        )  # one in each stratum
        same = restricted_log(whole_log, start_s=piece.start_s, end_s=piece.end_s)
        assert (same.initial, same.events) == (piece.initial, piece.events)
    assert drawn(log, 0.2).pieces[3].start_s == sample.pieces[3].start_s
    assert (
        len({piece.start_s % DAY_S for piece in sample.pieces}) > 10
    )  # no hour of the day is preferred
    idle = sum(pool_sizes_of(piece).node_hours() for piece in sample.pieces) / sample.replayed_h
    assert idle == pytest.approx(pool_sizes_of(log).node_hours() / (100 * 24), rel=0.05)
    assert "20 pieces of one day each, 20 of the log's 100 days" in sample.text


@pytest.mark.parametrize(
    ("days", "share", "length_h"),
    [(400, 0.2, 168.0), (14, 0.2, 24.0), (100, 0.15, 24.0), (10, 0.08, 6.0)],
)
def test_pieces_are_as_long_as_their_number_allows(
    days: int, share: float, length_h: float
) -> None:
    assert drawn(made_log(days, 10), share).pieces[0].span_s == 3600 * length_h


def test_a_log_that_is_costly_to_replay_has_three_short_pieces() -> None:
    sample = drawn(made_log(10, 10), 0.001)
    assert [piece.span_s for piece in sample.pieces] == [6 * 3600.0] * 3
    assert "3 pieces of 6 hours each, 0.75 of the log's 10 days" in sample.text


def test_most_of_a_log_is_all_of_it() -> None:
    log = made_log(10, 50)
    for sample in (drawn(log, 0.85), drawn(log, 1.0), whole(log)):
        assert sample.is_whole
        assert (sample.windows, sample.shown, sample.text) == ({"log": log}, "log", "")


def test_a_sum_of_pieces_counts_everything_once_and_says_how_far_a_draw_may_be_off() -> None:
    def row(used: float, completed: int) -> SweepRow:
        result = dict.fromkeys(SUMMED, 1.0) | {
            "resource_integral_node_h": 100.0,
            "unused_node_h": 100.0 - used,
            "completed": completed,
            "pool_events": 3,
            "mean_runtime_h": 2.0 * completed or None,
            "work_ran_out_at": None,
            "wall_s": 1.0,
        }
        return SweepRow(Cell("log-01", "w"), result)

    parts = [row(20, 1), row(40, 3), row(60, 0)]
    total = summed(Cell("log", "w"), parts)
    assert (total.result["completed"], total.result["span_h"], total.result["wall_s"]) == (
        4,
        3.0,
        3.0,
    )
    assert total.result["mean_runtime_h"] == pytest.approx((2.0 * 1 + 6.0 * 3) / 4)
    assert UsedNodes.of(total).share == pytest.approx(0.4)
    # Pieces of equal size: the jackknife is the standard error of the mean of 20, 40 and 60 %.
    assert used_spread(total) == pytest.approx(2 * 0.2 / 3**0.5)
    assert used_spread(replace(total, parts=())) == 0.0


def test_the_share_used_is_corrected_for_pieces_with_other_pools_than_the_log() -> None:
    """Two trainers of 8 nodes on a log with 40 idle nodes half of the time and 8 otherwise: 16 and
    8 are usable.
    """

    def row(hours: float, idle: float, used: float, usable: float) -> SweepRow:
        result = {
            "resource_integral_node_h": hours * idle,
            "unused_node_h": hours * (idle - used),
            "preemptions": 4,
            "outcome_one_node_h": hours * used,
            "span_h": hours,
        }
        return SweepRow(Cell("log-01", "w", max_parallel=2), result, usable_node_h=hours * usable)

    parts = (row(6, 8, 6, 8), row(6, 8, 6.4, 8))  # both drawn where few nodes are idle
    total = replace(row(12, 8, 6.2, 8), parts=parts, log_usable_share=(16 + 8) / (40 + 8))
    found = UsedNodes.of(total)
    assert found.share == pytest.approx(6.2 / 8 / 2)  # not 6.2 / 8
    assert found.correction == pytest.approx(0.5)
    assert UsedNodes.of(parts[0]).share == pytest.approx(6 / 8)
    assert used_spread(total) == pytest.approx(0.5 * 2 * (0.4 / 8) / 2)
    assert usable_shares(total) == pytest.approx((0.75, 0.8))
    assert spread_text(total).startswith(
        "the choice of pieces makes this uncertain by ±3 percentage points ("
    )
    assert spread_text(total).endswith(
        "in each, training uses 75% to 80% of what so many trainings can use at most"
    )
    alike = replace(total, parts=(parts[0], parts[0]))
    assert "±1 percentage point (" in spread_text(alike)
    assert "training uses 75% of what" in spread_text(alike)
    # The log has five times the idle node-hours of the pieces, of which training uses half as large
    # a share.
    assert preemptions(total, 5 * 12 * 8.0) == pytest.approx(4 * 5 * 0.5)


def test_a_longer_log_with_more_nodes_and_trainers_takes_longer() -> None:
    trainers = [arrival.trainer for arrival in trainers_of_many_users([0.0] * 200, 0)]
    short, long = (cost_s(made_log(days, 100), trainers, 10) for days in (2, 8))
    assert long == pytest.approx(4 * short, rel=0.05)
    assert cost_s(made_log(2, 100), trainers, 40) > 1.5 * short
    # A few trainers of every model stand for all: their number is not how many are completed.
    assert cost_s(made_log(2, 100), trainers[:14], 10) == pytest.approx(short, rel=0.05)
