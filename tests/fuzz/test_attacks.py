"""Each named attack is refused or read, in a process with little memory: no hang, no traceback, no gigabytes."""

from __future__ import annotations

import pytest
from fuzz.attacks import ATTACKS
from fuzz.runner import HANG_S, STUCK_S, run_child

ROOM_MB = 1500
MOST_MB = 500


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKS)
def test_it_costs_little(name: str) -> None:
    result, told = run_child("--attack", name, "--room-mb", str(ROOM_MB), timeout_s=2 * STUCK_S)
    assert result is not None, told
    assert result["outcome"] in ("read", "refused"), result["told"]
    assert result["mb"] <= MOST_MB, result
    assert result["s"] <= HANG_S
