"""``lab``: the stand-in LSF with four nodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.lsf_lab import Lab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path / "lsf")
    yield lab
    lab.stop()
