"""The versions of Slurm on which the stories of docs/slurm.md have run, on a cluster of 8 slurmd (mark `every_slurm`)."""

from __future__ import annotations

LIVE = {
    (22, 5): "22.05.8",
    (24, 11): "24.11.5",
    (26, 5): "26.05.5",
}
DATE = "2026-11-22"
RESULT = "holding, preemption and release passed with and without an Epilog, with cgroup v1, v2 and linuxproc"


def trial(number: tuple[int, int]) -> str:
    """What was tried of a version; empty if it was not tried."""
    return f"{LIVE[number]} tried on {DATE}: {RESULT}" if number in LIVE else ""


def others() -> str:
    """The versions that were tried."""
    return f"tried on {DATE}: {', '.join(LIVE.values())}"
