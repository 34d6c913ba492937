#!/usr/bin/env python3
"""The same 24 trials beside the same main jobs, as plain preemptible jobs and under the pilot, on a
real Slurm of 8 nodes.

    make race                                                         three runs of each, trials of 1 and of 2 nodes (an hour)
    python tests/slurm/race.py --runs 1 --min-nodes 1 --by pilot      a part of it

A trial (race_trial.py) is 20 s (`--seconds`) of work on one node, checkpoints every 5 s and at the
notice, and imports nothing large. Plain: one `sbatch --requeue` for each in the scavenger
partition, of the smallest size; a job that was asked to stop requeues itself (`requeue`), or
submits itself again (`resubmit`), since Slurm starts a requeued job 120 s later at the earliest.
Under a pilot that runs already: one sweep, up to 8 nodes each, default settings with hints;
`notice` with ``workers.notice_s`` besides. All on the recommended site, and main jobs of 2 to 4
nodes come at the same seconds. Seconds from the first submission until each trial is done, work
that was repeated, and how long main jobs waited, from before sbatch to their first line. Ctrl-C
prints what has been measured.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shlex
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measuring import cluster
from support.live_machine import Machine, machine
from support.pilot_config import pilot_config
from support.slurm_lab import Lab, Settings, free_ports, wait_until
from support.slurm_versions import VERSIONS

from bftrainer.errors import CommandError
from bftrainer_clusters.slurm.hostlists import parse_hostlist

HERE = Path(__file__).resolve()
TRIAL = HERE.with_name("race_trial.py")
PER_S = 10.0
MAIN_JOBS = (
    (0, 3, 30),
    (15, 2, 20),
    (45, 4, 25),
    (60, 3, 15),
    (90, 2, 40),
    (100, 4, 20),
    (135, 3, 30),
    (150, 4, 15),
)
"""(second, nodes, seconds) of each main job, repeated after :data:`ROUND_S`."""
ROUND_S = 175
LIMIT_S = 1800
SWEEP = """
name = "trial"
command = [{python}, {trial}, "{{name}}", "{samples}"]
min_nodes = {least}
max_nodes = 8
curve = {{ nodes = {sizes}, samples_per_s = {rates} }}
samples_total = {samples}
scale_up_s = 1
scale_down_s = 0.5
cwd = {cwd}
env = {{ TRIAL = "{{number}}" }}
"""


@dataclass(frozen=True)
class Race:
    """One run: seconds until each trial was done, one-node seconds of work that was repeated,
    starts, waits of main jobs.

    ``load``: of the machine, at its end.
    """

    done_s: tuple[float, ...]
    repeated_s: float
    starts: int
    waits_s: tuple[float, ...]
    load: float


Races = dict[tuple[int, str], list[Race]]
"""By smallest size and way."""
WAYS = {
    "requeue": "plain jobs, requeued",
    "resubmit": "plain jobs, submitted again",
    "pilot": "trainers of a pilot",
    "notice": "trainers that may save at the notice",
}
NOTICE_S = 5.0


def submit_plain(
    lab: Lab, work: Path, names: list[str], least: int, again: str, one_node_s: float
) -> None:
    """Submit all trials as jobs of ``least`` nodes."""
    for name in names:
        trial = shlex.join(
            [sys.executable, str(TRIAL), str(work / name), f"{one_node_s * PER_S:g}"]
        )
        job = work / name / "job.sh"
        options = (
            f"-p scavenge -N{least} --requeue --open-mode=append -t 60 -o {work / name / 'out'}"
        )
        ask = "scontrol requeue $SLURM_JOB_ID" if again == "requeue" else f"sbatch {options} {job}"
        job.write_text(
            f"#!/bin/bash\nsrun --ntasks-per-node=1 {trial}\n[ -e {work / name / 'done'} ] || "
            f"{ask}\n"
        )
        lab.run("sbatch", *shlex.split(options), str(job))


def submit_sweep(own: Machine, work: Path, names: list[str], least: int, one_node_s: float) -> None:
    """Submit all trials as one sweep to a pilot."""
    sizes = list(range(1, 9))
    text = SWEEP.format(
        python=f'"{sys.executable}"',
        trial=f'"{TRIAL}"',
        samples=f"{one_node_s * PER_S:g}",
        least=least,
        sizes=sizes,
        rates=[round(PER_S * n**0.947, 2) for n in sizes],
        cwd=f'"{work}"',
    )
    (work / "trial.toml").write_text(text)
    own.bftrainer("submit", work / "trial.toml", "--grid", f"number=1..{len(names)}")


@contextmanager
def running_pilot(work: Path, port: int, notice_s: float) -> Iterator[Machine]:
    text = pilot_config(
        learning={"measure": False},
        nodes={"flap_back_off_s": 1},
        times={"poll_s": None, "shutdown_s": None},
        hints={"port": port, "address": "127.0.0.1"},
        workers={"notice_s": notice_s},
    )
    own = machine(work, [], text)
    try:
        child = own.pilot()
        wait_until(own.state_is_there, "the pilot", 60)
        yield own
        own.end(child)
    finally:
        own.close()


def race(lab: Lab, by: str, least: int, trials: int, one_node_s: float, port: int) -> Race:
    """One run."""
    with tempfile.TemporaryDirectory(prefix="race-") as folder:
        work = Path(folder)
        names = [f"trial-number{number}" for number in range(1, trials + 1)]
        for name in (*names, "pilot"):
            (work / name).mkdir()
        main = MainJobs(lab, work)
        notice_s = NOTICE_S if by == "notice" else 0.0
        with (
            running_pilot(work / "pilot", port, notice_s)
            if by in ("pilot", "notice")
            else nullcontext() as own
        ):
            began_s = time.time()
            main.start()
            try:
                if own is None:
                    submit_plain(lab, work, names, least, by, one_node_s)
                else:
                    submit_sweep(own, work, names, least, one_node_s)
                wait_until(
                    lambda: all((work / name / "done").exists() for name in names),
                    "all trials",
                    LIMIT_S,
                )
            finally:
                main.ends.set()
                main.join()
        lab.tidy_up()
        begins = [
            list(map(float, line.split()))
            for name in names
            for line in (work / name / "begins").open()
        ]
        done_s = sorted(float((work / name / "done").read_text()) - began_s for name in names)
        repeated = sum(max(reached - resumed, 0.0) for resumed, reached, _ in begins)
        return Race(
            tuple(done_s), repeated / PER_S, len(begins), tuple(main.waits_s()), os.getloadavg()[0]
        )


class MainJobs(threading.Thread):
    """Submits main jobs at their seconds until told to end."""

    def __init__(
        self,
        lab: Lab,
        folder: Path,
        jobs: Sequence[tuple[int, int, int]] = MAIN_JOBS,
        round_s: float = ROUND_S,
    ) -> None:
        super().__init__(daemon=True)
        self.lab, self.folder, self.ends = lab, folder, threading.Event()
        self.jobs, self.round_s = jobs, round_s
        self.submitted_s: list[float] = []

    def run(self) -> None:
        began = time.monotonic()
        for turn in itertools.count():
            for at_s, nodes, seconds in self.jobs:
                if self.ends.wait(max(began + turn * self.round_s + at_s - time.monotonic(), 0.0)):
                    return
                told = self.folder / f"main.{len(self.submitted_s)}"
                self.submitted_s.append(time.time())
                script = (
                    f"echo $(date +%s.%N) $SLURM_NODELIST > {told}.new; mv {told}.new "
                    f"{told}; exec sleep {seconds}"
                )
                with suppress(CommandError):
                    self.lab.submit(script, "-p", "main", f"-N{nodes}", "-t", "1", "--no-requeue")

    def starts(self) -> list[tuple[float, float, frozenset[str]]]:
        """Of those that started: submitted, started, nodes."""
        files = [(self.folder / f"main.{k}", at_s) for k, at_s in enumerate(self.submitted_s)]
        lines = [(at_s, *told.read_text().split()) for told, at_s in files if told.exists()]
        return [(at_s, float(started), parse_hostlist(nodes)) for at_s, started, nodes in lines]

    def waits_s(self) -> list[float]:
        """Of those that started."""
        return [started_s - at_s for at_s, started_s, _ in self.starts()]


def table(found: Races) -> str:
    """Medians over the runs."""
    lines = [
        "| trials of | as | runs | mean | median | last | work repeated | starts | main jobs' "
        "wait: median, largest |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for (least, by), runs in sorted(found.items()):
        figures = [
            (
                statistics.mean(r.done_s),
                statistics.median(r.done_s),
                r.done_s[-1],
                r.repeated_s,
                float(r.starts),
                statistics.median(r.waits_s),
                max(r.waits_s),
            )
            for r in runs
        ]
        mean, middle, last, repeated, starts, wait, worst = map(
            statistics.median, zip(*figures, strict=True)
        )
        lines.append(
            f"| {least} node{'s' * (least > 1)} | {WAYS[by]} | {len(runs)} | {mean:.1f} s | "
            f"{middle:.1f} s | {last:.1f} s "
            f"| {repeated:.1f} s | {starts:.0f} | {wait:.2f} s, {worst:.2f} s |"
        )
    return "\n".join(lines)


def main() -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--runs", type=int, default=3, help="of each, in turn (default 3)")
    options.add_argument(
        "--min-nodes",
        type=int,
        nargs="+",
        default=[1, 2],
        help="nodes of the smallest size (default 1 2)",
    )
    options.add_argument("--by", nargs="+", choices=WAYS, default=list(WAYS), help="default all")
    options.add_argument("--trials", type=int, default=24, help="default 24")
    options.add_argument(
        "--seconds", type=float, default=20.0, help="work of a trial on one node (default 20)"
    )
    options.add_argument(
        "--slurm", choices=VERSIONS, default="installed", help="default the installed one"
    )
    chosen = options.parse_args()
    found: Races = {}
    (port,) = free_ports(1)
    with suppress(KeyboardInterrupt), cluster(Settings(), chosen.slurm, port) as lab:
        for _, least, by in itertools.product(range(chosen.runs), chosen.min_nodes, chosen.by):
            one = race(lab, by, least, chosen.trials, chosen.seconds, port)
            found.setdefault((least, by), []).append(one)
            told = (
                f"mean {statistics.mean(one.done_s):.1f} s, last {one.done_s[-1]:.1f} s; "
                f"load {one.load:.1f}"
            )
            print(f"{by}, {least} nodes: {told}", file=sys.stderr, flush=True)
    print(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
