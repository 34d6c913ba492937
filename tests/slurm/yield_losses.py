#!/usr/bin/env python3
"""What main jobs cost trainers on a real Slurm: steps made twice, stalls, and the use of idle nodes.

    python tests/slurm/yield_losses.py
    python tests/slurm/yield_losses.py --launchers restart torchrun --save 3
    python tests/slurm/yield_losses.py --modes site           Slurm preempts, as recommended
    python tests/slurm/yield_losses.py --slurm sid --per-holder 4

For each launcher, a pilot holds all nodes for one trainer. Main jobs of 1, 2 and all nodes come one
after the other, each when the trainer has trained on all nodes. A checkpoint takes --save seconds; a
trainer has yield_notice_s (5 s) to leave. A row for each mode and launcher:

steps      that the trainer has made
twice      steps (tasks of a pool) that were made again, because a main job took their result
saved s    from the request to leave to the next checkpoint, the longest one; - without checkpoints
stall s    the median and the longest time without a step around a main job
held       the node-seconds of holders that were ready, as a share of those without main jobs
trained    the same without the stalls
waits s    of the main jobs, the median and the longest
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measuring import cluster
from support.command_line import bftrainer
from support.horovod_trainer import example
from support.live_machine import Machine, machine
from support.never_preempts import PLAIN, MainJobs, held, never, pilot_text
from support.slurm_lab import DEFAULTS, Lab, Settings, wait_until
from support.slurm_versions import VERSIONS

HERE = Path(__file__).parent
NODES = 4
PACE_S = 0.1
SIZES = (1, 2, NODES)
MAIN_S = 5.0
AFTER_STEPS = 15
SCRIPTS = {"restart": "chain_steps.py", "torchrun": "torch_steps.py", "horovod": "horovod_steps.py"}
LAUNCHERS = (*SCRIPTS, "torchft", "pool")


def settings_of(mode: str) -> Settings:
    """A Slurm that preempts nothing, or the recommended one, both at Slurm's own intervals."""
    if mode == "yield":
        return never(NODES)
    return replace(DEFAULTS, nodes=NODES, scheduler=PLAIN, kill_wait_s=5)


def program(launcher: str, save_s: float) -> list[str]:
    """The trainer's command."""
    if launcher == "pool":
        return [sys.executable, str(HERE / "pool_worker.py"), str(PACE_S * 4), "1000000"]
    if launcher == "torchft":
        return ["env", "BFTRAINER_REPORT_EVERY_S=0", *example("torchft", f"--step-s={PACE_S}")]
    return [sys.executable, str(HERE / SCRIPTS[launcher]), str(PACE_S), str(save_s)]


@dataclass
class Losses:
    """What main jobs have cost one trainer. Times in seconds."""

    pilot: Machine
    launcher: str
    stalls_s: list[float] = field(default_factory=list)

    def steps(self) -> list[tuple[int, float]]:
        """Each step that was made, or task that was begun, and when."""
        if self.launcher == "pool":
            path = self.pilot.work / "begins"
            lines = path.read_text().splitlines() if path.exists() else []
            return [(int(line.split()[0]), float(line.split()[2])) for line in lines]
        if self.launcher == "torchft":
            return self._reported()
        path = self.pilot.work / "steps.jsonl"
        rows = map(json.loads, path.read_text().splitlines() if path.exists() else [])
        return [(row["step"], row["at_s"]) for row in rows]

    def _reported(self) -> list[tuple[int, float]]:
        """Steps as the replicas report them to the driver."""
        rows = [
            json.loads(line)
            for path in self.pilot.state.glob("trainers/*/progress.jsonl")
            for line in path.read_text().splitlines()
        ]
        steps = [row for row in rows if row["phase"] == "running" and not row.get("formed")]
        return [(row["step"], row["time"]) for row in steps]

    def twice(self) -> int:
        """How many steps or tasks were made again."""
        numbers = [number for number, _ in self.steps()]
        return len(numbers) - len(set(numbers))

    def saved_after_s(self) -> str:
        """The longest time from a request to leave a node to the next checkpoint."""
        path = self.pilot.work / "saved.jsonl"
        if not path.exists():
            return "-"
        saved_s = [json.loads(line)["at_s"] for line in path.read_text().splitlines()]
        asked = {row["asked_back_s"] for row in self.pilot.rows("nodes", "--all")} - {None}
        waits_s = []
        for asked_s in map(float, map(str, asked)):
            waits_s += [at_s - asked_s for at_s in saved_s if at_s > asked_s][:1]
        return f"{max(waits_s, default=0.0):.1f}"

    def trains_on(self, count: int = AFTER_STEPS) -> None:
        before = len(self.steps())
        wait_until(lambda: len(self.steps()) >= before + count, "the trainer to go on", 120, 0.2)

    def note_stall(self, since_s: float) -> None:
        """Take the longest time without a step since then."""
        times = [at_s for _, at_s in self.steps()]
        before = [at_s for at_s in times if at_s < since_s][-1:]
        after = [*before, *(at_s for at_s in times if at_s >= since_s)]
        gaps = [late - early for early, late in pairwise(after)]
        self.stalls_s.append(max(gaps, default=0.0))


def measure(lab: Lab, folder: Path, mode: str, launcher: str, options: argparse.Namespace) -> str:
    """Run the main jobs beside one trainer; return the row of the table."""
    text = pilot_text(options.per_holder)
    if mode == "site":
        text = text.replace('partition = "main"', 'partition = "scavenge"')
    path = folder / f"{mode}-{launcher}"
    path.mkdir()
    pilot = machine(path, [], text)
    losses = Losses(pilot, launcher)
    try:
        pilot.pilot()
        words = ("--name", "a", "--launcher", launcher, "--max-nodes", NODES, "--samples-per-s", 10)
        where = ("--cwd", pilot.work, "--set", "stop_s = 30", "--state", pilot.state)
        ended = bftrainer("submit", *words, *where, "--", *program(launcher, options.save))
        assert ended.status == 0, ended
        jobs = MainJobs(lab, path, length_s=MAIN_S)
        wait_until(lambda: held(lab) == NODES, "all nodes to be held", 90, 0.3)
        losses.trains_on()
        began_s, main_node_s = time.time(), 0.0
        for nodes in SIZES * options.runs:
            wait_until(lambda: held(lab) == NODES, "all nodes to be held", 120, 0.3)
            losses.trains_on()
            since_s = time.time()
            jobs.run("sbatch", nodes, seconds=60.0)
            main_node_s += nodes * MAIN_S
            losses.trains_on()
            losses.note_stall(since_s)
        seconds = time.time() - began_s
        idle_node_s = NODES * seconds - main_node_s
        held_node_s = held_between(pilot, began_s, began_s + seconds)
        stalled_node_s = NODES * sum(losses.stalls_s)
        cells = (
            mode,
            launcher,
            str(len(losses.steps())),
            str(losses.twice()),
            losses.saved_after_s(),
            f"{statistics.median(losses.stalls_s):.1f}, {max(losses.stalls_s):.1f}",
            f"{held_node_s / idle_node_s:.2f}",
            f"{max(held_node_s - stalled_node_s, 0.0) / idle_node_s:.2f}",
            f"{statistics.median(jobs.all_delays()):.1f}, {max(jobs.all_delays()):.1f}",
        )
        return f"| {' | '.join(cells)} |"
    finally:
        pilot.close()
        lab.tidy_up()


def held_between(pilot: Machine, began_s: float, ended_s: float) -> float:
    """The node-seconds for which holders were ready in a time."""
    total_s = 0.0
    for row in pilot.rows("nodes", "--all"):
        if row["taken_s"] is None:
            continue
        end_s = row["asked_back_s"] or row["released_s"] or ended_s
        start_s, end_s = float(str(row["taken_s"])), float(str(end_s))
        total_s += max(min(end_s, ended_s) - max(start_s, began_s), 0.0)
    return total_s


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--slurm", default="installed", choices=[*VERSIONS])
    parser.add_argument("--modes", nargs="+", default=["yield", "site"], choices=["yield", "site"])
    parser.add_argument("--launchers", nargs="+", default=LAUNCHERS, choices=LAUNCHERS)
    parser.add_argument("--runs", type=int, default=1, help="of the three sizes of main jobs")
    parser.add_argument("--save", type=float, default=3.0, help="seconds of a checkpoint")
    parser.add_argument("--per-holder", type=int, default=1, help="slurm.nodes_per_holder")
    options = parser.parse_args()
    columns = (
        "mode",
        "launcher",
        "steps",
        "twice",
        "saved s",
        "stall s",
        "held",
        "trained",
        "waits s",
    )
    print(f"| {' | '.join(columns)} |")
    print("|" + "---|" * len(columns), flush=True)
    for mode in options.modes:
        with (
            cluster(settings_of(mode), options.slurm) as lab,
            tempfile.TemporaryDirectory(prefix="losses-") as folder,
        ):
            for launcher in options.launchers:
                print(measure(lab, Path(folder), mode, launcher, options), flush=True)


if __name__ == "__main__":
    main()
