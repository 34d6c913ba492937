"""How long main jobs wait on a live OAR whose nodes are all taken: by plain besteffort jobs, and by a
pilot's holders with trainings in them; and how many steps the trainings do again.

Two OARs run side by side, so that they meet the same load, and get the same jobs (1, 2 or 4 of 8
nodes) at the same times, which are drawn from the seed and do not depend on how long jobs wait. A wait
is the time from before oarsub to the job's first line. OAR has its own default values. Needs root and
OAR's packages:

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
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
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
class Submission:
    """One main job of the plan: its size in nodes, and when it is due after the start of the run."""

    size: int
    due_s: float


@dataclass(frozen=True)
class Wait:
    """Of one main job: ``taken`` are the nodes with a besteffort job when it was submitted at
    ``at_s`` after the start of the run."""

    size: int
    at_s: float
    taken: int
    wait_s: float


class Run:
    """The plan that both OARs get, and their common start."""

    def __init__(self, plan: list[Submission]) -> None:
        self.plan = plan
        self._both = threading.Barrier(2)
        self._start_s = 0.0

    def start(self) -> float:
        """Wait until both OARs are ready, and return the start by the monotonic clock."""
        if self._both.wait(600) == 0:
            self._start_s = time.monotonic()
        self._both.wait(60)
        return self._start_s


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


def submit(lab: Lab, starts: Path, size: int) -> str:
    line = f"date +%s.%N >{starts}/$OAR_JOB_ID; exec sleep {RUNS_S}"
    return lab.oarsub("-l", f"/network_address={size},walltime=0:10:0", line)


def main_jobs(lab: Lab, folder: Path, run: Run) -> list[Wait]:
    """Submit each main job when it is due, whether or not the one before has started."""
    starts = folder / "starts"
    starts.mkdir()
    starts.chmod(0o777)
    eventually(lambda: taken_nodes(lab) == lab.nodes, 300)
    start_s = run.start()
    submitted: dict[str, Wait] = {}
    for submission in run.plan:
        time.sleep(max(start_s + submission.due_s - time.monotonic(), 0))
        taken, at_s = taken_nodes(lab), time.monotonic() - start_s
        before_s = time.time()
        job = submit(lab, starts, submission.size)
        submitted[job] = Wait(submission.size, at_s, taken, before_s)
        print(f"{folder.name}: {at_s:.0f} s: {submission.size} nodes, job {job}", flush=True)
    waits = [_waited(starts / job, wait) for job, wait in submitted.items()]
    print(f"{folder.name}: {waits}", flush=True)
    return waits


def _waited(first_line: Path, submitted: Wait) -> Wait:
    """Of a submitted job, whose ``wait_s`` is still the time of its submission."""
    eventually(lambda: first_line.exists() and first_line.read_text().strip(), 300)
    return replace(submitted, wait_s=float(first_line.read_text()) - submitted.wait_s)


@contextmanager
def live_oar(folder: Path) -> Iterator[Lab]:
    lab = Lab(folder / "oar", turn_s=5, security_s=60)
    lab.root.mkdir(parents=True)
    try:
        lab.start()
        yield lab
    finally:
        lab.stop()


def beside_plain_jobs(folder: Path, run: Run) -> list[Wait]:
    """A queue of besteffort jobs of one node, more than ever start."""
    with live_oar(folder) as lab:
        more = 3 * sum(submission.size for submission in run.plan)
        lab.oarsub(
            *("-t", "besteffort", "--array", str(lab.nodes + more)),
            *("-l", "/network_address=1,walltime=2:0:0", "exec sleep 7200"),
        )
        return main_jobs(lab, folder, run)


def beside_a_pilot(folder: Path, run: Run) -> tuple[list[Wait], Training]:
    with live_oar(folder) as lab:
        os.environ["PATH"] = lab.env["PATH"]
        (folder / "pilot").mkdir()
        with machine(folder / "pilot", [], CONFIG) as on:
            for name in TRAINERS:
                on.submit(name, 10**6, 0.1, 8)
            pilot = on.pilot()
            eventually(on.state_is_there, 60)
            waits = main_jobs(lab, folder, run)
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
        f"90 % {_percentile_90(seconds):.1f} s, {min(seconds):.1f} to {max(seconds):.1f} s; "
        f"all nodes were taken at {full} of them"
    )


def on_held_nodes(waits: list[Wait], others: list[Wait]) -> str:
    """Compare the jobs that needed a held node with the same jobs on the other OAR."""
    pairs = [
        (wait.wait_s, other.wait_s)
        for wait, other in zip(waits, others, strict=True)
        if wait.size > 8 - wait.taken
    ]
    medians = [statistics.median(seconds) for seconds in zip(*pairs, strict=True)]
    return f"{len(pairs)} jobs, median {medians[0]:.1f} s; the same jobs there: {medians[1]:.1f} s"


def _percentile_90(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=10, method="inclusive")[-1]


def drawn_plan(jobs: int, minutes: float, seed: int) -> list[Submission]:
    """Jobs of random sizes; the gaps between them are 0.5 to 1.5 times their mean."""
    draw = random.Random(seed)
    sizes = [draw.choice(SIZES) for _ in range(jobs)]
    every_s = minutes * 60 / jobs
    due_s = [every_s * (number + draw.uniform(0.25, 0.75)) for number in range(jobs)]
    return [*map(Submission, sizes, due_s)]


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
    parser.add_argument("--minutes", type=float, default=60, help="in which jobs arrive")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="JSON file for the waits")
    chosen = parser.parse_args()
    if reason := missing_oar():
        sys.exit(f"{sys.argv[0]}: {reason}")
    run = Run(drawn_plan(chosen.jobs, chosen.minutes, chosen.seed))
    with ThreadPoolExecutor(2) as both:
        held = both.submit(in_folder, lambda folder: beside_a_pilot(folder, run))
        plain = both.submit(in_folder, lambda folder: beside_plain_jobs(folder, run))
        (waits, training), beside_plain = held.result(), plain.result()
    print(f"load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores")
    print(f"beside a pilot: {summary(waits)}")
    print(f"{training.steps} steps, {training.repeated} of them again after a kill")
    print(f"beside plain besteffort jobs: {summary(beside_plain)}")
    print(
        f"of the jobs beside a pilot that needed a held node: {on_held_nodes(waits, beside_plain)}"
    )
    if chosen.out is not None:
        rows = {"pilot": [*map(asdict, waits)], "plain": [*map(asdict, beside_plain)]}
        chosen.out.write_text(json.dumps({**rows, "training": asdict(training)}, indent=1))


if __name__ == "__main__":
    measure()
