"""Host lists: what they stand for, what is refused, and how much of it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bftrainer.config.hosts import expand, host_patterns, matches
from bftrainer.errors import InvalidValueError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("node01", ["node01"]),
        ("node[08-10]", ["node08", "node09", "node10"]),
        ("n[1,3-4],gpu2", ["n1", "n3", "n4", "gpu2"]),
        ("r[1-2]n[1-2]x", ["r1n1x", "r1n2x", "r2n1x", "r2n2x"]),
        ("gpu*,n?[1-2]", ["gpu*", "n?1", "n?2"]),
        ("a[099-101]", ["a099", "a100", "a101"]),
        ("a[9-11]", ["a9", "a10", "a11"]),
        ("cpn-f13-03-[01-02],cpn-f13-04-[01-02]", [f"cpn-f13-0{a}-0{b}" for a in (3, 4) for b in (1, 2)]),
    ],
)
def test_what_a_list_stands_for(text: str, expected: list[str]) -> None:
    assert expand(text) == expected


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("n[x-1]", "[x-1] is not a range of numbers"),
        ("n[3-1]", "[3-1] is a descending range"),
        ("n[1-3", "a bracket is not closed"),
        ("n1-3]", "its brackets do not match"),
        ("n[]", "[] is not a range of numbers"),
        ("n 1", "got 'n 1'"),
        ("", "got ''"),
        ("n(1-3)", "got 'n(1-3)'"),
        ("n[1-999999999]", "expands to more than 200,000 nodes in one list"),
        ("n[1-1000][1-1000]", "expands to more than 200,000 nodes in one list"),
        ("*[1-2000]", "more than 1,000 names with * or ?"),
        ("a,,b", "got ''"),
        ("a[[1]]", "its brackets do not match"),
        ("a[1-]", "[1-] is not a range of numbers"),
        ("n\u00e4", "got 'n\u00e4'"),
        ("a\x07", "got 'a\\x07'"),
        ("a[" + "9" * 5000 + "]", "is not a range of numbers"),
        ("x" * 5000, "got 'xxxx"),
    ],
)
def test_what_is_no_list_says_what_was_found_and_what_is_expected(pattern: str, words: str) -> None:
    with pytest.raises(InvalidValueError) as error:
        host_patterns((pattern,))
    assert words in str(error.value)
    assert "expected node names such as node[01-03,7] or gpu*" in str(error.value) or "200,000" in words
    assert "\n" not in str(error.value)


def test_matches() -> None:
    assert matches("node02", ("login", "node[01-03]"))
    assert not matches("node2", ("login", "node[01-03]"))
    assert matches("gpu17", ("gpu*",))
    assert matches("n05x", ("n0?x", "a"))
    assert not matches("xn05x", ("n0?x", "a"))
    assert not matches("n1", ())
    assert not matches("axb", ("a.b",)), "a dot is a dot"


@settings(deadline=None)
@given(st.lists(st.integers(0, 99999), min_size=1, max_size=40), st.integers(1, 6))
def test_any_numbers_come_back(numbers: list[int], width: int) -> None:
    names = [f"n{number:0{width}d}" for number in numbers]
    assert expand(",".join(names)) == names
    assert expand("n[" + ",".join(name[1:] for name in names) + "]") == names
    assert all(matches(name, ("n[" + ",".join(name[1:] for name in names) + "]",)) for name in names)


@settings(deadline=None)
@given(st.text(alphabet="n01[],- *?", max_size=60), st.integers(0, 50))
def test_nothing_but_a_bounded_list_or_a_refusal(text: str, most: int) -> None:
    try:
        found = expand(text, most)
    except InvalidValueError:
        return
    assert 0 < len(found) <= most
    assert all(name and " " not in name and "[" not in name and "]" not in name for name in found)
