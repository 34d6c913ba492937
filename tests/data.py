"""The real logs and workloads that some tests read: ../shared/data beside the checkout, or $BFTRAINER_DATA.

They are not part of the project. Where they are missing such a test is skipped, visibly; in CI that is a failure.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_BESIDE = Path(__file__).resolve().parent.parent.parent / "shared" / "data"


def data_file(name: str) -> Path:
    """One file of the real data, by its path below the data folder."""
    path = Path(os.environ.get("BFTRAINER_DATA") or _BESIDE) / name
    if path.exists():
        return path
    message = f"real data {name} is missing: expected it in ../shared/data or $BFTRAINER_DATA"
    if os.environ.get("CI"):
        pytest.fail(message, pytrace=False)
    pytest.skip(message)
