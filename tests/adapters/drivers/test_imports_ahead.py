"""What is imported before a worker runs its script."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import pytest

from bftrainer.protocol.hosts import HostSlots
from bftrainer_adapters.drivers.common import warm_start
from bftrainer_adapters.drivers.torchrun.main import threads


def test_what_is_imported_ahead_is_not_searched_for_garbage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "probe_of_gc.py").write_text("import gc\nis_on = gc.isenabled()\n")
    (tmp_path / "train.py").write_text("import probe_of_gc\n")
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    kept: list[object] = []
    kept.append(kept)
    try:
        warm_start.warm_up(str(tmp_path / "train.py"), str(tmp_path / "own"))
        assert (sys.modules["probe_of_gc"].is_on, gc.isenabled()) == (False, True)
        assert gc.get_freeze_count() > 0, "nor at the end of the process"
        later: list[object] = []
        later.append(later)
        assert any(it is later for it in gc.get_objects()), "what the script makes is searched"
        assert not any(it is kept for it in gc.get_objects())
    finally:
        gc.unfreeze()


@pytest.mark.parametrize(
    ("slots", "set_by_user", "given"), [(2, {}, "1"), (1, {}, None), (2, {"OMP_NUM_THREADS": "4"}, None)]
)
def test_warm_torchrun_workers_import_torch_with_the_number_of_threads(
    slots: int, set_by_user: dict[str, str], given: str | None
) -> None:
    """OpenMP reads the variable when it is loaded."""
    assert threads(HostSlots("n1", slots, "f1"), set_by_user).get("OMP_NUM_THREADS") == given
