"""A day of main-queue jobs of 1 to 8 GPUs in minutes, and three trainers on what they leave of the
nodes.

    PYTHONPATH=tests python tests/slurm/gpu_day.py [--slurm installed] [--seconds 300] [--seed 1]

As root: GPUs are device files. Four nodes of 8 GPUs; torchrun, torchft and restart train the digits
on up to 4 GPUs each. Checked: no worker sees a GPU of a main job while that job runs; equal weights
on all ranks; each sample of an epoch once; no process of a trainer is left. Printed besides: how
long main jobs waited that found enough GPUs free or held.
"""

from __future__ import annotations

import argparse
import random
import shlex
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.live_machine import Machine, machine
from support.shared_nodes import BY_GPU, PARTITION, cluster
from support.slurm_lab import Lab, wait_until
from support.slurm_versions import VERSIONS
from support.training_schedules import (
    EXAMPLES,
    SAMPLES,
    each_sample_once,
    equal_on_all_ranks,
    rank_lines,
)

TRAINER = """
name = "{name}"
command = [{words}]
launcher = "{name}"
min_gpus = 1
max_gpus = 4
curve = {{ nodes = [1, 4], samples_per_s = [300, 1150] }}
scale_up_s = 2
scale_down_s = 1
stop_s = 20
cwd = "{cwd}"
env = {{ BFTRAINER_REPORT_EVERY_S = "0" }}
"""
PROGRAMS = {
    "torchrun": ("torch_digits.py", "--step-s=0.1", "--checkpoint-every=20"),
    "torchft": ("torchft_digits.py", "--step-s=0.1", "--checkpoint-every-s=1"),
    "restart": ("numpy_parallel.py", "--steps=1000000", "--pace-s=0.1", "--checkpoint-every=20"),
}
SIZES, SHARES = (1, 2, 4, 8), (45, 20, 20, 15)
EVERY_S, SHORTEST_S, LONGEST_S = 5.0, 10, 50


@dataclass
class MainJob:
    """``told`` has its node and GPUs once it runs; ``ended`` is there when it ends."""

    gpus: int
    told: Path
    submitted_s: float

    @property
    def ended(self) -> Path:
        return self.told.with_suffix(".ended")

    def where(self) -> tuple[float, str, set[str]] | None:
        """Its first second, node and GPUs while it runs."""
        if not self.told.exists() or self.ended.exists():
            return None
        at_s, node, gpus = self.told.read_text().split()
        return float(at_s), node, set(gpus.split(","))


@dataclass
class Beside:
    """Watches the workers. ``wrong``: those that see a GPU of a running main job."""

    jobs: list[MainJob] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    most: int = 0
    looks: int = 0

    def look(self) -> None:
        began_s, seen = time.time(), workers()
        self.looks, self.most = self.looks + 1, max(self.most, len(seen))
        for job in self.jobs:
            if (found := job.where()) is not None and found[0] < began_s:
                same = [pid for pid, node, gpus in seen if node == found[1] and gpus & found[2]]
                self.wrong += [
                    f"{pid} on {found[1]} beside a job with {sorted(found[2])}" for pid in same
                ]


def workers() -> list[tuple[str, str, set[str]]]:
    """Process, node and visible GPUs of all trainers' workers."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words, text = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
            except OSError:
                continue
            if b"_digits.py" in words or b"numpy_parallel.py" in words:
                names = dict(
                    line.split("=", 1)
                    for line in text.decode(errors="replace").split("\0")
                    if "=" in line
                )
                if node := names.get("SLURMD_NODENAME"):
                    found.append(
                        (entry.name, node, set(names.get("CUDA_VISIBLE_DEVICES", "").split(",")))
                    )
    return found


def submit_main(lab: Lab, folder: Path, number: int, gpus: int, seconds: int) -> MainJob:
    told = folder / f"main.{number}"
    job = MainJob(gpus, told, time.time())
    script = (
        f"echo $(date +%s.%N) $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES > {told}.new; mv "
        f"{told}.new {told}; "
        f"sleep {seconds}; touch {job.ended}"
    )
    lab.submit(
        script,
        "-p",
        "main",
        "-N1",
        f"--gres=gpu:{gpus}",
        f"-c{gpus}",
        f"--mem={gpus * 7000}",
        "-t",
        "5",
    )
    return job


def submit_trainers(own: Machine, epochs: int) -> None:
    for name, (program, *options) in PROGRAMS.items():
        cwd = own.work / name
        cwd.mkdir()
        words = [sys.executable, str(EXAMPLES / program), f"--epochs={epochs}", *options]
        table = TRAINER.format(
            name=name, words=", ".join(f'"{shlex.quote(word)}"' for word in words), cwd=cwd
        )
        (own.work / f"{name}.toml").write_text(table)
        own.bftrainer("submit", own.work / f"{name}.toml")


def day(lab: Lab, folder: Path, seconds: float, seed: int, epochs: int) -> Beside:
    """One day; the trainers end after it."""
    chance, watch, over = random.Random(seed), Beside(), threading.Event()

    def watching() -> None:
        while not over.wait(0.2):
            watch.look()

    own = machine(folder, [], BY_GPU + "[learning]\nmeasure = false\n")
    watcher = threading.Thread(target=watching)
    try:
        pilot = own.pilot()
        wait_until(own.state_is_there, "the pilot", 60)
        submit_trainers(own, epochs)
        watcher.start()
        ends_s = time.monotonic() + seconds
        while time.monotonic() < ends_s:
            (gpus,) = chance.choices(SIZES, SHARES)
            length = chance.randint(SHORTEST_S, LONGEST_S)
            watch.jobs.append(submit_main(lab, folder, len(watch.jobs), gpus, length))
            time.sleep(chance.expovariate(1 / EVERY_S))
        wait_until(
            lambda: all(own.status(name) == "done" for name in PROGRAMS), "all trainers", 900
        )
        assert not workers(), "no worker is left"
        for name in PROGRAMS:
            lines = rank_lines(own.state / "trainers" / name)
            compared = equal_on_all_ranks(lines)
            each_sample_once(lines, SAMPLES, epochs)
            groups = {line.group for line in lines}
            print(
                f"{name}: each sample once, {compared} steps compared, {len(groups)} groups",
                flush=True,
            )
        own.end(pilot)
    finally:
        over.set()
        if watcher.is_alive():
            watcher.join()
        own.close()
    return watch


def main() -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--slurm", choices=VERSIONS, default="installed")
    options.add_argument("--seconds", type=float, default=300.0, help="of main jobs (default 300)")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--epochs", type=int, default=30, help="of each trainer (default 30)")
    chosen = options.parse_args()
    with (
        cluster(chosen.slurm, PARTITION) as lab,
        tempfile.TemporaryDirectory(prefix="gpu-day-") as folder,
    ):
        Path(folder).chmod(0o755)
        found = day(lab, Path(folder), chosen.seconds, chosen.seed, chosen.epochs)
        begun = [
            (float(job.told.read_text().split()[0]), job) for job in found.jobs if job.told.exists()
        ]
    waits = [at_s - job.submitted_s for at_s, job in begun]
    print(
        f"{len(waits)} of {len(found.jobs)} main jobs ran; wait: median "
        f"{statistics.median(waits):.2f} s; "
        f"up to {found.most} workers; {len(found.wrong)} beside a main job in {found.looks} "
        f"looks {found.wrong[:3]}"
    )
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
