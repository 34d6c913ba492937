from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bftrainer.config.hosts import expand


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("node01", ["node01"]),
        ("node[08-10]", ["node08", "node09", "node10"]),
        ("n[1,3-4],gpu2", ["n1", "n3", "n4", "gpu2"]),
        ("cpn-f13-03-[01-02],cpn-f13-04-[01-02]", [f"cpn-f13-0{a}-0{b}" for a in (3, 4) for b in (1, 2)]),
        ("r[1-2]n[1-2]x", ["r1n1x", "r1n2x", "r2n1x", "r2n2x"]),
        ("a[9-11]", ["a9", "a10", "a11"]),
        ("a[099-101]", ["a099", "a100", "a101"]),
    ],
)
def test_expand(text: str, expected: list[str]) -> None:
    assert expand(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", ",", "a,,b", "a[1-", "a]1[", "a[[1]]", "a[x]", "a[2-1]", "a[1-]", "a b", "n\u00e4", "a[1-99999999]", "a[]",
     "n[1-1000]m[1-1001]", "a\x07", "a[" + "9" * 5000 + "]", "x" * 5000],
)  # fmt: skip
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"node|range|bracket|backwards"):
        expand(text)


@settings(deadline=None)
@given(st.lists(st.integers(0, 99999), min_size=1, max_size=40), st.integers(1, 6))
def test_any_numbers_come_back(numbers: list[int], width: int) -> None:
    names = [f"n{number:0{width}d}" for number in numbers]
    assert expand(",".join(names)) == names
    assert expand("n[" + ",".join(name[1:] for name in names) + "]") == names


@settings(deadline=None)
@given(st.text(alphabet="n01[],- ", max_size=60))
def test_nothing_but_a_list_or_a_refusal(text: str) -> None:
    try:
        found = expand(text)
    except ValueError:
        return
    assert found
    assert all(name and " " not in name and "[" not in name and "]" not in name for name in found)
