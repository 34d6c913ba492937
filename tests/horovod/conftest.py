"""A trainer with real Elastic Horovod. Without Horovod these tests are skipped; if CI is set, they
fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.horovod_trainer import Trainer


@pytest.fixture
def trainer(elastic_horovod: None, tmp_path: Path) -> Iterator[Trainer]:
    """The example with 20 ms a step and a commit at every step; its driver is not started yet."""
    with Trainer(tmp_path / "trainer") as made:
        yield made
