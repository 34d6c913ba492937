"""The same driver with workers in real Slurm steps, inside other jobs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from horovod_trainer import Trainer
from slurm_lab import Lab, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("elastic_horovod")]

SRUN = ["srun", "--jobid={fragment_id}", "--overlap", "-w", "{node}", "-N1", "-n1", "--mem=0", "--cpu-bind=none"]
SRUN += ["--export=ALL"]


@pytest.fixture
def trainer(lab: Lab, tmp_path: Path) -> Iterator[Trainer]:
    here = {**lab.env, "SLURM_JOB_ID": "999999", "SLURM_MEM_PER_NODE": "999999"}  # as inside the pilot's own job
    with Trainer(tmp_path / "trainer", prefix=SRUN, driver_environment=here) as made:
        yield made
    lab.tidy_up()


def hold(lab: Lab, node: str) -> str:
    """A holder job on a node; the line for the hosts file."""
    job = lab.submit("sleep 600", "-p", "scavenge", "-N1", "-w", node, "--exclusive", "--mem=0")
    wait_until(lambda: lab.run("squeue", "-h", "-j", job, "-o", "%T").strip() == "RUNNING", "the holder to run")
    return f"{node}:1:{job}"


def test_nodes_come_go_and_are_free_again(lab: Lab, trainer: Trainer) -> None:
    one, two, three = (hold(lab, node) for node in lab.node_names[:3])
    jobs = [line.split(":")[2] for line in (one, two, three)]
    trainer.start(one)
    trainer.steps(1)
    asked_s = trainer.hosts(f"{one} {two} {three}")
    trainer.event("running", asked_s, fragments=sorted(jobs))
    trainer.steps(3)
    assert all(workers(trainer, job) for job in jobs)
    # By order, rank 0 among them. Its srun has ended when the trainer says that it runs without a node; Slurm ends the step.
    asked_s = trainer.hosts(f"{two} {three}")
    trainer.event("running", asked_s, fragments=sorted(jobs[1:]))
    wait_until(lambda: not workers(trainer, jobs[0]), "its worker to end")
    trainer.steps(2)
    # Without warning: the holder is cancelled.
    lab.run("scancel", "--signal=KILL", jobs[2])
    lab.run("scancel", jobs[2])
    trainer.event("withheld", asked_s, fragment=jobs[2])
    trainer.event("running", asked_s, fragments=[jobs[1]])
    trainer.steps(1)
    trainer.check_continuity()
    # The driver is killed: nothing trains on, though the holders stay.
    assert trainer.process is not None
    trainer.process.kill()
    trainer.process.wait()
    wait_until(lambda: not workers(trainer), "the workers to end")


def workers(trainer: Trainer, job: str = "") -> list[bytes]:
    """The trainer's processes in steps of one job, or of any job."""
    return [
        words for path in Path("/proc").iterdir() if path.name.isdecimal() and (words := worker(path, trainer, job))
    ]


def worker(process: Path, trainer: Trainer, job: str) -> bytes:
    """A process's command line if it is the trainer's; else, and after its end, empty."""
    try:
        variables = (process / "environ").read_bytes().split(b"\0")
        words = (process / "cmdline").read_bytes()
    except OSError:
        return b""
    in_job = any(
        v == f"SLURM_JOB_ID={job}".encode() or (not job and v.startswith(b"SLURM_STEP_ID=")) for v in variables
    )
    return words if in_job and f"BFTRAINER_TRAINER_DIR={trainer.path}".encode() in variables else b""
