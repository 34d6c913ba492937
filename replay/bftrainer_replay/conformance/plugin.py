"""pytest's option ``--bftrainer-policy``, for the conformance suite.

A plugin, as ``--pyargs`` reads no conftest in time (pytest 9). Every pytest of an environment with
bftrainer loads it, so its option is named after bftrainer.
"""

from __future__ import annotations

from typing import Any


def pytest_addoption(parser: Any) -> None:
    """Which policy to test."""
    parser.addoption(
        "--bftrainer-policy",
        metavar="MODULE:NAME",
        help="bftrainer: the policy to test, an installed name or module:name",
    )
