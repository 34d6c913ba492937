"""SpeCon [SpeCon 6.2]: migration of converged jobs against the default scheduler, 20 and 30 jobs on
4 workers, 50 on 8.
"""

from __future__ import annotations

import numpy as np

from bftrainer_papers.containers.container_world import (
    MIGRATION_S,
    ContainerJob,
    RunningContainer,
    WorkerWorld,
)
from bftrainer_papers.containers.specon import SpeCon
from bftrainer_papers.flowcon import fitted_contention
from bftrainer_papers.reproduction import PaperResult, Reproduction, ReproductionOptions, change
from bftrainer_replay.simulation.losses import FAMILIES

WORK_S = (60.0, 300.0)
DEFAULT_MAKESPAN_S = {20: 1421.0, 30: 1640.0, 50: 2070.0}
LIGHTER = (
    "the jobs of the thesis are longer than ours (see the makespan of the default "
    "scheduler): few share a worker for long"
)
# (jobs, workers, submitted within s): (mean completion, makespan, share of jobs that finish sooner)
# in %
PAPER = {
    (20, 4, 300.0): (-13.6, -24.7, 75.0),
    (30, 4, 300.0): (-5.9, -16.4, 66.7),
    (50, 8, 1200.0): (-7.2, -11.1, 60.0),
}


def random_jobs(number: int, within_s: float, seed: int) -> tuple[ContainerJob, ...]:
    """Draw jobs with work, family and memory at random, submitted within ``within_s`` seconds."""
    rng = np.random.default_rng(np.random.PCG64(seed))
    families = ("birnn", "gru", "vae")
    times = np.sort(rng.uniform(0, within_s, number))
    return tuple(
        ContainerJob(
            f"job-{i}",
            float(t),
            float(rng.uniform(*WORK_S)),
            FAMILIES[families[int(rng.integers(len(families)))]],
            demand=1.0,
            memory=float(rng.uniform(0.02, 0.2)),
        )
        for i, t in enumerate(times)
    )


def play(
    jobs: tuple[ContainerJob, ...], workers: int, contention: float, policy: SpeCon | None
) -> list[RunningContainer]:
    """Run the jobs to completion; return them in the order of ``jobs``."""
    done = {run.job.id: run for run in WorkerWorld(workers, jobs, policy, contention).play()}
    return [done[job.id] for job in jobs]


def changes_of(
    number: int, workers: int, within_s: float, seed: int
) -> tuple[float, float, float, float, float]:
    """Return what SpeCon changes against the default scheduler: mean completion and makespan in %,
    share of jobs that finish sooner, moves per job; last the default scheduler's makespan in
    seconds.
    """
    jobs, contention = random_jobs(number, within_s, seed), fitted_contention()
    default, ours = (play(jobs, workers, contention, policy) for policy in (None, SpeCon()))
    took, free = ([(r.finished_s or 0.0) - r.job.at_s for r in runs] for runs in (ours, default))
    spans = [max(r.finished_s or 0.0 for r in runs) for runs in (ours, default)]
    sooner = 100 * sum(a < b - 1e-6 for a, b in zip(took, free, strict=True)) / number
    return (
        change(sum(took), sum(free)),
        change(*spans),
        sooner,
        sum(r.moves for r in ours) / number,
        spans[1],
    )


def reproduce(plan: ReproductionOptions) -> Reproduction:
    """Compare SpeCon with the default scheduler, by means over the seeds."""
    rows: list[PaperResult] = []
    for (number, workers, within_s), (mean, span, sooner) in PAPER.items():
        plan.step(f"{number} jobs on {workers} workers")
        changes = [changes_of(number, workers, within_s, seed) for seed in plan.seeds]
        means = np.array(changes).mean(axis=0)
        label = f"{number} jobs on {workers} workers"
        rows += [
            PaperResult(f"{label}: mean completion time", mean, float(means[0]), tolerance=10.0),
            PaperResult(f"{label}: makespan", span, float(means[1]), tolerance=12.0),
            PaperResult(
                f"{label}: jobs that finish sooner",
                sooner,
                float(means[2]),
                tolerance=25.0,
                signed=False,
                why=LIGHTER if workers == 8 else "",
            ),
            PaperResult(f"{label}: moves per job", None, float(means[3]), ""),
            PaperResult(
                f"{label}: makespan of the default scheduler",
                DEFAULT_MAKESPAN_S[number],
                float(means[4]),
                "s",
            ),
        ]
    model = (
        f"work uniform in {WORK_S[0]:g}-{WORK_S[1]:g} s, submissions uniform; VAE, GRU and "
        "Bi-RNN at random; seeds "
        f"{', '.join(map(str, plan.seeds))}",
        "default scheduler: least resource use, the mean of processor (full if any job runs) "
        "and memory "
        "(2 to 20 % a job); no migration",
        f"SpeCon: alpha 0.01, interval 30 s [SpeCon 6.2.3]; a move takes {MIGRATION_S:g} s "
        "([SpeCon 3.3]: under 5); contention "
        f"{fitted_contention():.4f} per co-runner, fitted on FlowCon's three jobs",
        "tolerance: 10 points for mean completion, 12 for makespan, 25 for the share of jobs",
    )
    return Reproduction("specon", "Thesis on FlowCon and SpeCon, 6.2", model, tuple(rows))
