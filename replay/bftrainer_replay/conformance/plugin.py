"""pytest's option ``--policy``, for the conformance suite. A plugin, as ``--pyargs`` reads no conftest in time (pytest 9)."""

from __future__ import annotations

from typing import Any


def pytest_addoption(parser: Any) -> None:
    """Which policy to test."""
    parser.addoption(
        "--policy", metavar="MODULE:NAME", help="bftrainer: the policy to test, an installed name or module:name"
    )
