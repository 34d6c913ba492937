"""The jobs of a trace of Philly, by virtual cluster, as trainers on a cluster of their own.

A virtual cluster is a group's share of Philly's GPUs. Its jobs are submitted at their own times,
request their own GPUs, and have the work that takes their own run time on these. The trace has no
scaling curves: each job draws one of :mod:`bftrainer_papers.shared_cluster`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bftrainer.decide.domain.model import Trainer
from bftrainer.errors import InputFileError
from bftrainer_papers.shared_cluster import SERIAL_SHARES, amdahl
from bftrainer_papers.traces.arrivals import TracedJob, read_trace
from bftrainer_replay.simulation.replay_world import Arrival

LOADS = (0.5, 0.95)
"""The smallest and largest load of a virtual cluster that is replayed: below, no policy has to
choose; above, the queue never ends.
"""


@dataclass(frozen=True, slots=True)
class VirtualCluster:
    """The jobs of a virtual cluster that ran, in order of submission."""

    name: str
    jobs: tuple[TracedJob, ...]

    @property
    def days(self) -> float:
        """The days from the first submission to the last."""
        return (self.jobs[-1].at_s - self.jobs[0].at_s) / 86_400

    def load(self, gpus: int) -> float:
        """Return the GPU-time of the jobs over that of ``gpus`` GPUs."""
        gpu_s = sum(job.gpus * (job.run_s or 0.0) for job in self.jobs)
        return gpu_s / (gpus * 86_400 * self.days) if self.days else 0.0

    def arrivals(self, gpus: int, seed: int) -> tuple[Arrival, ...]:
        """Return the jobs as trainers for a cluster of ``gpus`` GPUs; ``seed`` draws curves."""
        rng = np.random.default_rng(np.random.PCG64(seed))
        drawn = rng.integers(len(SERIAL_SHARES), size=len(self.jobs))
        return tuple(
            _job_arrival(job, gpus, SERIAL_SHARES[int(place)])
            for job, place in zip(self.jobs, drawn, strict=True)
        )


def _job_arrival(job: TracedJob, gpus: int, serial: float) -> Arrival:
    """Return a traced job as a trainer that can use 1 to ``gpus`` GPUs, without rescale costs.

    Its curve follows Amdahl's law with this share of serial work. Its samples are what the curve
    trains in the job's run time on the GPUs that it requested.
    """
    curve, requested = amdahl(serial, gpus), min(job.gpus, gpus)
    assert job.run_s is not None, "virtual clusters have jobs with run times only"
    samples = max(job.run_s * curve.at(requested), 1.0)
    trainer = Trainer(
        job.id, curve, 1, gpus, 0.0, 0.0, samples_total=samples, requested_nodes=requested
    )
    return Arrival(job.at_s, trainer)


def virtual_clusters(path: Path, gpus: int) -> Sequence[VirtualCluster]:
    """Return the virtual clusters of a trace of Philly with a load within :data:`LOADS`.

    The load is that on ``gpus`` GPUs. Those with the fewest jobs come first. Raises
    :class:`InputFileError` if there is none.
    """
    jobs: dict[str, list[TracedJob]] = {}
    for job in read_trace(path).jobs:
        if job.cluster and job.run_s:
            jobs.setdefault(job.cluster, []).append(job)
    clusters = [VirtualCluster(name, tuple(members)) for name, members in jobs.items()]
    low, high = LOADS
    loaded = [cluster for cluster in clusters if low <= cluster.load(gpus) <= high]
    if not loaded:
        raise InputFileError(
            str(path),
            f"no virtual cluster (column cluster) with a load of {low:g} to {high:g} on {gpus} "
            "GPUs; expected a trace of Philly with the columns timestamp, duration, num_gpus and "
            "cluster",
        )
    return sorted(loaded, key=lambda cluster: (len(cluster.jobs), cluster.name))
