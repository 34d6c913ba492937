"""A pilot beside a live OAR: its configuration, and what its trainers have done twice."""

from __future__ import annotations

import sys
from collections import Counter

CONFIG = f"""
[decisions]
solver = "exact"
[nodes]
holder = "oar"
min_window_s = 0
flap_back_off_s = 1
[times]
poll_s = 2
file_poll_s = 0.05
shutdown_s = 60
lease_s = 240
[workers]
allow_root = true
[oar]
timeout_s = 60
python = "{sys.executable}"
"""


def repeated_steps(steps: list[tuple[int, int]]) -> int:
    """Return how many steps (incarnation, step) were done again after a kill."""
    counts = Counter(step for _, step in steps)
    return sum(count - 1 for count in counts.values())
