"""The batch job that the pilot runs in, whatever scheduler started it: Slurm's or LSF's, told by the environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bftrainer.domain.ports import Clock
from bftrainer.live.job_chaining import OwnJob
from bftrainer_adapters.lsf import pilot_job as lsf_pilot_job
from bftrainer_adapters.slurm import pilot_job as slurm_pilot_job

LSF_ID = "LSB_JOBID"
SLURM_ID = "SLURM_JOB_ID"


@dataclass(frozen=True, slots=True)
class BatchJob:
    """``id`` is empty outside of any job; ``is_gone`` answers about another pilot's job there, too (None: nobody says)."""

    id: str
    own: OwnJob | None
    is_gone: Callable[[str], bool | None]


def batch_job(environment: Mapping[str, str], holder: str, state_dir: Path, clock: Clock) -> BatchJob:
    """The job around a pilot whose nodes are held by ``holder``.

    Where holders are LSF's or Slurm's, so is the pilot's job; else it is whose id is there.
    """
    if holder == "lsf" or (holder != "slurm" and LSF_ID in environment):
        job = environment.get(LSF_ID, "")
        own: OwnJob | None = lsf_pilot_job.LsfPilotJob(job, state_dir, clock) if job else None
        return BatchJob(job, own, lsf_pilot_job.job_is_gone)
    job = environment.get(SLURM_ID, "")
    own = slurm_pilot_job.SlurmPilotJob(job, state_dir / "successor.sh") if job else None
    return BatchJob(job, own, slurm_pilot_job.job_is_gone)
