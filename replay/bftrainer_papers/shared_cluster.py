"""Generated workloads of a shared deep-learning cluster: jobs of different lengths and scalability,
at a given load.

No published trace contains scaling curves, so jobs are generated from a seed: Poisson arrivals,
log-normal work, strong scaling by Amdahl's law with serial shares that span the measured models,
and requests of 1, 2, 4 or 8 nodes, most of them small, as in the Philly trace.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer_replay.simulation.losses import FAMILIES
from bftrainer_replay.simulation.replay_world import Arrival

SERIAL_SHARES = (0.01, 0.03, 0.06, 0.12, 0.25)
REQUESTS, REQUEST_SHARES = (1, 2, 4, 8), (0.55, 0.15, 0.15, 0.15)
MEAN_WORK_H, SIGMA = 24.0, 1.2  # one-node hours; sigma of log work


@lru_cache
def amdahl(serial: float, largest: int) -> Curve:
    """Samples per second with a fixed global batch: n / (1 + serial (n - 1)), one sample per second
    on one node.
    """
    counts = tuple(range(1, largest + 1))
    return Curve(counts, tuple(n / (1 + serial * (n - 1)) for n in counts))


def shared_cluster(
    jobs: int, nodes: int, load: float, seed: int, *, scale_s: float = 0.0
) -> tuple[Arrival, ...]:
    """Return generated jobs for a fixed cluster, by the distributions of the module.

    ``load`` is the work that arrives per unit of time, in nodes at perfect efficiency, over
    ``nodes``. ``scale_s`` is the stall of each rescale.
    """
    rng = np.random.default_rng(np.random.PCG64(seed))
    spacing_s = MEAN_WORK_H * 3600 / (load * nodes)
    arrivals, at_s = [], 0.0
    families = sorted(FAMILIES)
    for i in range(jobs):
        # Log-normal with mean 1: the mean of its logarithm is -sigma^2 / 2.
        work = 3600 * MEAN_WORK_H * math.exp(rng.normal(-SIGMA * SIGMA / 2, SIGMA))
        serial = SERIAL_SHARES[int(rng.integers(len(SERIAL_SHARES)))]
        trainer = Trainer(
            f"job-{i:04d}",
            amdahl(serial, nodes),
            1,
            nodes,
            scale_s,
            scale_s,
            samples_total=max(work, 60.0),
            requested_nodes=min(int(rng.choice(REQUESTS, p=REQUEST_SHARES)), nodes),
            reports_loss=True,
        )
        arrivals.append(
            Arrival(at_s, trainer, losses=FAMILIES[families[int(rng.integers(len(families)))]])
        )
        at_s += float(rng.exponential(spacing_s))
    return tuple(arrivals)
