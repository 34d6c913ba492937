"""The real logs and workloads that some tests read: ../shared/data beside the checkout, or
$BFTRAINER_DATA.

They are not part of the project. Where they are missing such a test is skipped, visibly; in CI that
is a failure, unless WITHOUT_DATA is set (public workflows, which have no logs).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.needs import need

_BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"


def data_folder() -> Path:
    """It need not exist."""
    return Path(os.environ.get("BFTRAINER_DATA") or _BESIDE)


def data_file(name: str) -> Path:
    """One file of the real data, by its path below the data folder."""
    path = data_folder() / name
    if os.environ.get("WITHOUT_DATA"):
        pytest.skip("WITHOUT_DATA is set: no real data")
    need(
        ""
        if path.exists()
        else f"real data is missing: {name}, expected in ../shared/data or $BFTRAINER_DATA"
    )
    return path
