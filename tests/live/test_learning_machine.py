"""A real pilot, real workers, a wrong curve: what ``show`` says after a while."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live_machine import CONFIG, Machine, eventually, machine

CONFIG_FAST = CONFIG + "[learning]\nwindow_s = 1\n"


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Machine]:
    made = machine(tmp_path, [(0, "n1 n2", ""), (3600, "", "n1 n2")], CONFIG_FAST)
    yield made
    made.close()


def test_a_wrong_curve_is_corrected_on_real_workers(here: Machine) -> None:
    """It says 1,000 samples/s a node; a step of 0.05 s and one sample a step give 20 at most, on any nodes."""
    here.submit("a", 100_000, 0.05, 2, "--samples-per-s", "1000", "--set", 'model = "stepper"')
    here.pilot()
    found: dict[str, Any] = {}

    def measured() -> bool:
        if not here.state_is_there() or here.status("a") != "running":
            return False
        found.update(here.rows("show", "a")[0])
        return any(point["windows"] for point in found["curve"])

    eventually(measured, 60.0)
    point = next(p for p in found["curve"] if p["windows"])
    assert 0 < point["samples_per_s"] <= 25.0
    assert point["source"] == "measured"
    shown = here.bftrainer("show", "a").stdout
    assert f"{point['nodes']} node" in shown
    assert "measured for" in shown
    assert ": 0 differ" in here.bftrainer_replay()
