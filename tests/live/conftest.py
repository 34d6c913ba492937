"""A pilot's database without a pilot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bftrainer.pilot.persistence.store import Store, open_store
from bftrainer.system.processes import this_process


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    tmp_path.chmod(0o700)
    with closing(open_store(tmp_path, create=True)) as it:
        it.take_lease(this_process(), "", 0.0, 60.0, lambda _: None)
        yield it
