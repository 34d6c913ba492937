"""The ratchet of prose: no package is written more densely, or named more vaguely, than it was."""

from __future__ import annotations

import ast

import pytest
from structure.prose import PACKAGES, bound_names, branch_count, counts_of, limits


@pytest.mark.parametrize("package", PACKAGES)
def test_no_count_is_above_its_limit(package: str) -> None:
    now, most = vars(counts_of(PACKAGES[package])), vars(limits()[package])
    above = {
        field: f"{number}, limit {most[field]}"
        for field, number in now.items()
        if number > most[field]
    }
    assert above == {}, "see tests/structure/prose.py --worst 20; a limit is never raised"


def test_every_limit_is_of_a_package() -> None:
    assert set(limits()) == set(PACKAGES)


FUNCTION = """
def outer(known, /, *, rest):
    found = [one for one in known if one and rest]
    def inner(it):
        self.most = it if it else None
    return lambda told: told
"""


def test_the_counts_of_a_function() -> None:
    (function,) = ast.parse(FUNCTION).body
    assert isinstance(function, ast.FunctionDef)
    assert bound_names(function) == {
        "known",
        "rest",
        "found",
        "one",
        "inner",
        "it",
        "most",
        "told",
    } - {"inner"}
    assert (
        branch_count(function) == 1 + 1 + 1 + 1
    )  # the function, the comprehension, its `and`, the conditional
