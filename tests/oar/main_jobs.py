"""How long main jobs wait on a live OAR whose nodes are all taken: by plain besteffort jobs, and by a
pilot's holders with trainings in them; and how many steps the trainings do again.

Two OARs run side by side, so that they meet the same load, and get the same jobs (1, 2 or 4 of 8
nodes) at about the same intervals. A wait is the time from before oarsub to the job's first line. OAR
has its own default values. Needs root and OAR's packages:

    .venv/bin/python tests/oar/main_jobs.py --jobs 20 --minutes 60
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.live_machine import Machine, eventually, machine
from support.oar_lab import Lab, missing_oar
from support.oar_pilot import CONFIG, repeated_steps

SIZES = (1, 1, 2, 4)
RUNS_S = 15
TRAINERS = ("a", "b")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Wait:
    """Of one main job: ``taken`` are the nodes with a besteffort job when it was submitted."""

    size: int
    taken: int
    wait_s: float


@dataclass(frozen=True)
class Training:
    """What the trainings did: all steps, and those that were done again."""

    steps: int
    repeated: int


def taken_nodes(lab: Lab) -> int:
    return int(
        lab.query(
            "SELECT count(DISTINCT network_address) FROM resources, assigned_resources, jobs WHERE "
            "assigned_resources.resource_id = resources.resource_id AND "
            "assigned_moldable_job = moldable_job_id AND jobs.state = 'Running' AND "
            "queue_name = 'besteffort'"
        )
    )


def wait_of(lab: Lab, starts: Path, size: int) -> Wait:
    """Submit a main job once every node is taken, for a minute at most; wait for its first line."""
    patience_s = time.monotonic() + 60
    while (taken := taken_nodes(lab)) < lab.nodes and time.monotonic() < patience_s:
        time.sleep(0.5)
    line = f"date +%s.%N >{starts}/$OAR_JOB_ID; exec sleep {RUNS_S}"
    submitted_s = time.time()
    job = lab.oarsub("-l", f"/network_address={size},walltime=0:10:0", line)
    first = starts / job
    eventually(lambda: first.exists() and first.read_text().strip(), 300)
    return Wait(size, taken, float(first.read_text()) - submitted_s)


def main_jobs(lab: Lab, folder: Path, sizes: list[int], every_s: float) -> list[Wait]:
    starts = folder / "starts"
    starts.mkdir()
    starts.chmod(0o777)
    waits = []
    for size in sizes:
        due_s = time.monotonic() + every_s
        waits.append(wait_of(lab, starts, size))
        print(f"{folder.name}: {waits[-1]}", flush=True)
        time.sleep(max(due_s - time.monotonic(), 0))
    return waits


@contextmanager
def live_oar(folder: Path) -> Iterator[Lab]:
    lab = Lab(folder / "oar", turn_s=5, security_s=60)
    lab.root.mkdir(parents=True)
    try:
        lab.start()
        yield lab
    finally:
        lab.stop()


def beside_plain_jobs(folder: Path, sizes: list[int], every_s: float) -> list[Wait]:
    """A queue of besteffort jobs of one node, more than ever start."""
    with live_oar(folder) as lab:
        lab.oarsub(
            *("-t", "besteffort", "--array", str(lab.nodes + 3 * sum(sizes))),
            *("-l", "/network_address=1,walltime=2:0:0", "exec sleep 7200"),
        )
        return main_jobs(lab, folder, sizes, every_s)


def beside_a_pilot(folder: Path, sizes: list[int], every_s: float) -> tuple[list[Wait], Training]:
    with live_oar(folder) as lab:
        os.environ["PATH"] = lab.env["PATH"]
        (folder / "pilot").mkdir()
        with machine(folder / "pilot", [], CONFIG) as on:
            for name in TRAINERS:
                on.submit(name, 10**6, 0.1, 8)
            pilot = on.pilot()
            eventually(on.state_is_there, 60)
            waits = main_jobs(lab, folder, sizes, every_s)
            for name in TRAINERS:
                (on.work / f"{name}.enough").touch()
            eventually(lambda: all(on.status(name) == "done" for name in TRAINERS), 300)
            on.end(pilot)
            return waits, _training(on)


def _training(on: Machine) -> Training:
    steps = [on.steps(name) for name in TRAINERS]
    return Training(sum(map(len, steps)), sum(map(repeated_steps, steps)))


def summary(waits: list[Wait]) -> str:
    seconds = [wait.wait_s for wait in waits]
    full = sum(wait.taken == 8 for wait in waits)
    return (
        f"{len(waits)} jobs, median {statistics.median(seconds):.1f} s, "
        f"{min(seconds):.1f} to {max(seconds):.1f} s; all nodes were taken at {full} of them"
    )


def in_folder(measure: Callable[[Path], Result]) -> Result:
    folder = Path(tempfile.mkdtemp(prefix="bftrainer-oar."))
    folder.chmod(0o711)
    try:
        return measure(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=60, help="of the run, at least")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="JSON file for the waits")
    chosen = parser.parse_args()
    if reason := missing_oar():
        sys.exit(f"{sys.argv[0]}: {reason}")
    draw = random.Random(chosen.seed)
    sizes = [draw.choice(SIZES) for _ in range(chosen.jobs)]
    every_s = chosen.minutes * 60 / chosen.jobs
    with ThreadPoolExecutor(2) as both:
        held = both.submit(in_folder, lambda folder: beside_a_pilot(folder, sizes, every_s))
        plain = both.submit(in_folder, lambda folder: beside_plain_jobs(folder, sizes, every_s))
        (waits, training), beside_plain = held.result(), plain.result()
    print(f"load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores")
    print(f"beside a pilot: {summary(waits)}")
    print(f"{training.steps} steps, {training.repeated} of them again after a kill")
    print(f"beside plain besteffort jobs: {summary(beside_plain)}")
    if chosen.out is not None:
        rows = {"pilot": [*map(asdict, waits)], "plain": [*map(asdict, beside_plain)]}
        chosen.out.write_text(json.dumps({**rows, "training": asdict(training)}, indent=1))


if __name__ == "__main__":
    measure()
