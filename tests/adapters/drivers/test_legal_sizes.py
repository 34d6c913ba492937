"""How many of the present nodes a driver uses, and which."""

from __future__ import annotations

import pytest

from bftrainer_drivers.common.legal_sizes import LegalSizes, used_hosts

LISTED = LegalSizes(1, 8, (2, 4, 8))


@pytest.mark.parametrize(
    ("sizes", "uses"),
    [
        (LegalSizes(), [0, 1, 2, 3, 4, 5]),
        (LegalSizes(2), [0, 0, 2, 3, 4, 5]),
        (LegalSizes(2, 3), [0, 0, 2, 3, 3, 3]),
        (LegalSizes(1, 8, (2, 4)), [0, 0, 2, 2, 4, 4]),
        (LegalSizes(3, 3, (3,)), [0, 0, 0, 3, 3, 3]),
    ],
)
def test_the_largest_legal_size_within_what_is_present(sizes: LegalSizes, uses: list[int]) -> None:
    assert [sizes.largest_within(count) for count in range(6)] == uses
    assert [sizes.allow(count) for count in range(6)] == [
        0 < count == size for count, size in enumerate(uses)
    ]
    assert sizes.smallest == min(size for size in uses if size)


def test_nodes_of_the_group_are_kept_before_others_in_the_order_of_the_file() -> None:
    assert used_hosts("abc", LISTED) == ["a", "b"]
    assert used_hosts("abc", LISTED, ["c"]) == ["a", "c"]
    assert used_hosts("abcde", LISTED, ["e", "cd"]) == ["a", "c", "d", "e"]
    assert used_hosts("a", LISTED, ["a"]) == []
    assert used_hosts("abcd", LISTED, ["d"]) == ["a", "b", "c", "d"]


def test_only_lists_that_leave_a_count_out_have_gaps() -> None:
    assert LISTED.has_gaps
    assert not LegalSizes(1, 8, (3, 4, 5)).has_gaps
    assert not LegalSizes(1, 8).has_gaps


def test_the_reason_names_what_the_user_wrote() -> None:
    assert LegalSizes(2).shortage(1) == "1 node, but min_nodes is 2"
    assert LISTED.shortage(0) == "0 nodes, but sizes is [2, 4, 8]"
