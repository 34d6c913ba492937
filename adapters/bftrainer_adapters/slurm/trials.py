"""The versions of Slurm on which the live tests have run, on clusters of 2 to 10 slurmd: what doctor and docs/slurm.md say."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class VersionTrial:
    """What was run of the live tests on one version, and what came of it."""

    version: str
    date: str
    result: str

    @property
    def release(self) -> tuple[int, int]:
        """(22, 5) of 22.05.8: patches of a release answer alike."""
        year, month = self.version.split(".")[:2]
        return int(year), int(month)

    def __str__(self) -> str:
        return f"{self.version} tried on {self.date}: {self.result}"


_PASSED = (
    "holding, preemption, faults and limits passed, with and without an Epilog, with cgroup v1, v2 and linuxproc; so did "
    "trainers of a pilot in a job"
)
TRIALS = (
    VersionTrial("22.05.8", "2026-11-22", _PASSED),
    VersionTrial("24.11.5", "2026-11-23", _PASSED),
    VersionTrial("26.05.5", "2026-11-23", _PASSED),
)


def trial_of(release: tuple[int, int]) -> VersionTrial | None:
    """What was tried of a release; None if it was not tried."""
    return next((trial for trial in TRIALS if trial.release == release), None)


def tried_versions() -> str:
    """The versions that were tried, and when."""
    return ", ".join(f"{trial.version} on {trial.date}" for trial in TRIALS)
