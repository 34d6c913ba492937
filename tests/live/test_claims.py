"""Host lists of other users: compared as their expansion would be, without expanding them, and within a budget."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bftrainer.config.hosts import matches
from bftrainer.domain.cluster import PeerPilot
from bftrainer.errors import InvalidValueError
from bftrainer.live.nodes import claims
from bftrainer.live.nodes.claims import ClaimComparison, read_claim
from bftrainer.live.nodes.sharing import overlap

NODES = [f"node{n:05d}" for n in range(10_000)]
RANGES = ",".join(["1-199999"] * 85)
HOSTILE = f"n[{RANGES}]", f"node[{RANGES}]", f"[{RANGES}]"
"""A comment of 800 characters that stands for 17 million names."""


@pytest.mark.parametrize(
    ("pattern", "node", "is_in"),
    [
        ("node[01-03,7]", "node02", True),
        ("node[01-03,7]", "node2", False),
        ("node[01-03,7]", "node7", True),
        ("node[01-03,7]", "node07", False),
        ("node[8-10]", "node10", True),
        ("node[8-10]", "node08", False),
        ("node[08-110]", "node100", True),
        ("rack[1-12]n[1-20]", "rack11n20", True),
        ("rack[1-12]n[1-20]", "rack13n20", False),
        ("[1-3]0n[1-3]0", "20n30", True),
        ("gpu*", "gpu1", True),
        ("*gpu?", "xgpu1", True),
        ("gpu*", "cpu1", False),
        ("a.b[1-2]", "axb1", False),
    ],
)
def test_a_node_is_looked_up_in_a_pattern(pattern: str, node: str, is_in: bool) -> None:
    claim = read_claim(pattern)
    assert claim is not None
    assert (node in claim) is is_in


@pytest.mark.parametrize(
    "pattern",
    ["", "[", "n[", "n[]", "n[1-]", "n[3-1]", "n[1]]", "n 1", "n1;n2[1]", "[1-12][1-12]", "*[1-12]", "*a*b*", "é[1]",
     "n[1-" + "9" * 40 + "]", "n[" + "1," * 1000 + "1]"],
)  # fmt: skip
def test_what_is_no_pattern_or_fits_in_several_ways_is_left_out(pattern: str) -> None:
    assert read_claim(pattern) is None


PIECES = st.sampled_from(["n", "0", "1", "-", "[1-3]", "[08-11]", "[1,3,12]", "[9-12]", "?", "*", "r"])


@settings(deadline=None, max_examples=300)
@given(st.lists(PIECES, min_size=1, max_size=6).map("".join), st.text(alphabet="nr-0123", max_size=7))
def test_it_says_what_expanding_would_say(pattern: str, node: str) -> None:
    claim = read_claim(pattern)
    if claim is None:
        return
    with suppress(InvalidValueError):  # no name, or more names than a list may have
        assert (node in claim) == matches(node, (pattern,))


@settings(deadline=None)
@given(st.text(alphabet="n019[]-,*?.\n é", max_size=60))
def test_any_text_is_a_claim_or_none(pattern: str) -> None:
    claim = read_claim(pattern)
    assert claim is None or isinstance("n1" in claim, bool)


def test_a_comment_that_stands_for_millions_of_names_costs_little() -> None:
    """Expanded, one such comment took 750 MB and 20 s, twenty of them all memory."""
    others = [PeerPilot(f"p{n}", f"user{n}", HOSTILE, job=str(n)) for n in range(20)]
    tracemalloc.start()
    try:
        assert overlap(("x[1-5]",), others, [f"x{n}" for n in range(10)]) == ""
        found = overlap(("node[00000-09999]",), others, NODES)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == "" or "user" in found
    assert peak_bytes < 50e6


def test_the_work_is_counted_for_each_user_and_over_all() -> None:
    comparison = ClaimComparison(NODES)
    greedy = tuple(f"node[{n},1-199999]" for n in range(100))
    comparison.claimed("user0", greedy)
    assert 0 < comparison.steps <= claims.MOST_STEPS_OF_A_USER
    for n in range(1, 20):
        comparison.claimed(f"user{n}", greedy)
    assert comparison.steps <= claims.MOST_STEPS
    before = comparison.steps
    assert comparison.claimed("honest", ("node00007", "x")) == ["node00007"], "plain names cost nothing"
    assert comparison.steps == before


def test_one_users_excess_does_not_use_up_the_budget_of_others() -> None:
    comparison = ClaimComparison(NODES)
    comparison.claimed("greedy", tuple(f"node[{n},{RANGES[:600]}]" for n in range(1000)))
    assert comparison.claimed("honest", ("node[00010-00012]",)) == ["node00010", "node00011", "node00012"]
