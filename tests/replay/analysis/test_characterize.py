"""The numbers of the paper's section 2.1: by hand on small windows, and on the paper's own log."""

from __future__ import annotations

import dataclasses

import pytest
from replay.windows import summit_window, window

from bftrainer.errors import InvalidValueError
from bftrainer_replay.analysis.characterize import Characteristics, FragmentLengths, characterize
from bftrainer_replay.analysis.window_fragments import fragments_of, pool_sizes_of
from bftrainer_replay.logs.node_list import hashed_sample

BY_HAND = window(7200.0, "a", (600.0, "bc"), (900.0, "b"), (3600.0, "da"), (7200.0, "c"))


def test_every_number_by_hand() -> None:
    # |N|: 1 for 600 s, 3 for 300 s, 2 for 6,300 s: 14,100 node-seconds in two hours. Fragments: b
    # 300 s, a 3,600 s (cut at the start), d 3,600 s (cut at the end), c 6,600 s. At 3,600 s one
    # joins and one leaves: both a join and a leave, neither an increase nor a decrease.
    found = characterize(BY_HAND)
    lengths = found.fragment_lengths
    assert lengths is not None
    assert dataclasses.asdict(lengths) == pytest.approx(
        dataclasses.asdict(FragmentLengths(0.25, 300 / 14_100, 2775.0, 3600.0, 4350.0, 5700.0))
    )
    assert dataclasses.replace(found, fragment_lengths=None) == Characteristics(
        span_h=2.0,
        machine_nodes=8,
        events=5,
        joins=2,
        leaves=3,
        increases=1,
        decreases=2,
        node_hours=pytest.approx(14_100 / 3600),
        eq_nodes=pytest.approx(14_100 / 7200),
        idle_share=pytest.approx(14_100 / 7200 / 8),
        idle_nodes_min=1,
        idle_nodes_median=2,
        idle_nodes_max=3,
        fragments=4,
        fragment_lengths=None,
        pool_share=pytest.approx(14_020 / 14_100),
    )
    assert found.per_hour(found.events) == 2.5


def test_fragments_and_sizes_by_hand() -> None:
    found = fragments_of(BY_HAND)
    assert list(zip(found.first_nodes, found.start_s, found.end_s, strict=True)) == [
        ("b", 600, 900),
        ("a", 0, 3600),
        ("c", 600, 7200),
        ("d", 3600, 7200),
    ]
    sizes = pool_sizes_of(BY_HAND)
    assert sizes.nodes.tolist() == [1, 3, 2, 2, 1]
    assert sizes.duration_s.tolist() == [600, 300, 2700, 3600, 0]


def test_exactly_ten_minutes_is_not_short() -> None:
    lengths = characterize(
        window(3600.0, "", (0.5, "ab"), (600.0, "a"), (600.5, "b"))
    ).fragment_lengths
    assert lengths.short_share == 0.5


def test_a_state_that_lasts_no_time_is_not_the_fewest() -> None:
    assert characterize(window(3600.0, "ab", (3600.0, "ab"))).idle_nodes_min == 2


def test_a_join_at_the_very_end_is_an_event_but_no_fragment() -> None:
    found = characterize(window(3600.0, "a", (3600.0, "b")))
    assert (found.events, found.joins, found.fragments, found.idle_nodes_max) == (2, 1, 1, 1)


def test_never_idle_has_no_lengths_and_no_length_is_an_error() -> None:
    found = characterize(window(3600.0, ""))
    assert found.fragment_lengths is None
    assert (found.fragments, found.node_hours, found.idle_nodes_max) == (0, 0.0, 0)
    with pytest.raises(InvalidValueError, match="the window has no length"):
        characterize(window(0.0, "a"))
    with pytest.raises(InvalidValueError, match="the cluster has 0 nodes"):
        characterize(window(60.0, "", nodes=0))


def test_a_spread_choice_is_nested_and_forgets_the_order_of_the_log() -> None:
    names = [f"r{rack:02d}n{node:02d}" for rack in range(40) for node in range(18)]
    chosen = hashed_sample(names, 180)
    assert hashed_sample(reversed(names), 180) == chosen
    assert hashed_sample(names, 18) == chosen[:18]
    # A quarter of the machine at a time: an even choice of 180 has 45 in each, give or take three
    # standard deviations.
    quarters = [
        sum(1 for name in chosen if int(name[1:3]) // 10 == quarter) for quarter in range(4)
    ]
    assert all(28 <= count <= 62 for count in quarters)


@pytest.mark.data
def test_summit_first_week_as_the_paper_says() -> None:
    lengths = characterize(summit_window(168)).fragment_lengths
    assert round(100 * lengths.short_share, 1) == 58.4
    assert round(100 * lengths.short_node_time_share, 1) == 12.1
