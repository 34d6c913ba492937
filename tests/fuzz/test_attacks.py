"""Each named attack is refused or read, in a process with little memory: no hang, no traceback, no
gigabytes.
"""

from __future__ import annotations

import pytest
from fuzz.attacks import ATTACKS
from fuzz.runner import HANG_S, attacked_readers, run_attacks

ROOM_MB = 1500
MOST_MB = 500  # 3,000 arrays of 100,000 tasks take 480


@pytest.mark.slow
@pytest.mark.parametrize("reader", attacked_readers())
def test_they_cost_little(reader: str) -> None:
    """One child for all attacks on a reader: to start one takes longer than most attacks."""
    results = run_attacks(reader, ROOM_MB)
    costly = {
        name: result
        for name, result in results.items()
        if result["outcome"] == "finding" or result["mb"] > MOST_MB or result["s"] > HANG_S
    }
    assert not costly
    assert results.keys() == {name for name, (of, _) in ATTACKS.items() if of == reader}
