#!/usr/bin/env python3
"""From idle to training: a main job ends on a real Slurm of 8 nodes; when is the first step on its nodes made?

    make latency                                                    all launchers, by polling
    python tests/slurm/latency.py --launchers restart --runs 6      a part of it
    python tests/slurm/latency.py --hints                           with hints instead of polling alone
    python tests/slurm/latency.py --python OTHER/.venv/bin/python   the pilot of another version, measured alike
    python tests/slurm/latency.py --taken 1                         one node at a time: imports that do not compete

A main job keeps 4 of the 8 nodes. A trainer has the other 4; in each run a main job takes 2 of these (--taken) and ends at
a random moment of the pilot's polls. Times come from what each program writes itself, to the millisecond: slurmctld's log,
the payload's marks, the audit and the journal of the pilot, the events of the driver, the steps of the trainer; so any
version can be measured. The models are tiny and the steps are paced, but on a machine of 2 cores the imports of the workers
compete: the last line says how busy the processors were. Ctrl-C prints what has been measured.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from impact import busy_s
from latency_times import BACK, UP, WHOLE, Measured, measured
from live_machine import Machine, machine
from measuring import cluster
from pilot_config import pilot_config
from slurm_lab import Lab, Settings, free_ports, wait_until
from slurm_versions import VERSIONS

from bftrainer.domain.node_stages import p95
from bftrainer_adapters.slurm.hostlists import parse_hostlist

SCRIPTS = {"horovod": "horovod_steps.py", "torchrun": "torch_steps.py", "restart": "chain_steps.py"}
NAME, KEPT, SIZE = "t", 4, 4
PACE_S = 0.05


def stories(lab: Lab, launcher: str, options: argparse.Namespace) -> Iterator[Measured]:
    """The times of each fragment, run by run."""
    with tempfile.TemporaryDirectory(prefix="latency-") as folder:
        path = Path(folder)
        text = pilot_config(
            decisions={"gather_s": options.gather_s}, learning={"measure": False}, nodes={"flap_back_off_s": 1},
            times={"poll_s": options.poll_s},
        )  # fmt: skip
        own = machine(path, [], text + options.more)
        keep = _main_job(lab, KEPT)
        try:
            _submit(own, launcher, options)
            with (own.work / "pilot.log").open("ab") as log:
                argv = [options.python, "-m", "bftrainer", "pilot", "--state", str(own.state)]
                own.children.append(subprocess.Popen(argv, cwd=own.work, stdout=log, stderr=log))
            _until_training(own, SIZE, time.time(), "the first steps")
            for _ in range(options.runs):
                phase_s = 3.0 if options.hints else options.poll_s
                time.sleep(random.uniform(1.0, 1.0 + phase_s))
                yield _one_run(lab, own, options.taken)
            own.end(own.children[0])
        finally:
            lab.run("scancel", keep)
            own.close()
            lab.tidy_up()


def _one_run(lab: Lab, own: Machine, taken: int) -> Measured:
    before_s = time.time()
    job = _main_job(lab, taken)
    nodes = parse_hostlist(lab.run("squeue", "-h", "-j", job, "-o", "%N").strip())
    _until_training(own, SIZE - taken, before_s, "the rest to train on")
    time.sleep(2.0)
    ended_s = time.time()
    lab.run("scancel", job)
    chosen = ",".join(sorted(nodes))
    _until_idle(lab, job, chosen)
    idle_s = time.time()
    _until_training(own, SIZE, ended_s, "the trainer to grow again")
    time.sleep(1.5)  # until the drivers have reported, and the audit is written
    return measured(lab.root / "log" / "slurmctld.log", own, NAME, nodes, job, before_s, ended_s, idle_s)


def _until_idle(lab: Lab, job: str, nodes: str) -> None:
    """Wait until the scheduler shows the main job's nodes idle, or until a fast pilot has taken the first of them again."""
    states: set[str] = set()

    def free() -> bool:
        states.clear()
        states.update(lab.run("sinfo", "-h", "-N", "-n", nodes, "-p", "main", "-o", "%T").split())
        if states == {"idle"}:
            return True
        is_over = not lab.run("squeue", "-h", "-j", job, "-o", "%T").strip()
        return (
            is_over
            and states <= {"idle", "allocated", "mixed"}
            and bool(lab.run("squeue", "-h", "-w", nodes, "-o", "%i").strip())
        )

    try:
        wait_until(free, "the main job's nodes to be idle", 60)
    except AssertionError as error:
        raise AssertionError(f"{error}: they are {sorted(states)}\n{lab.run('sinfo', '-R')}") from error


def _main_job(lab: Lab, nodes: int) -> str:
    told = lab.root / "log" / f"main.{time.monotonic_ns()}"
    job = lab.submit(f"touch {told}; exec sleep 3600", "-p", "main", f"-N{nodes}", "-t", "60")
    wait_until(told.exists, f"the main job of {nodes} nodes to start", 60)
    return job


def _submit(own: Machine, launcher: str, options: argparse.Namespace) -> None:
    (own.work / NAME).mkdir()
    script = Path(__file__).with_name(SCRIPTS[launcher])
    env = {"OMP_NUM_THREADS": "1", "HOROVOD_GLOO_TIMEOUT_SECONDS": "30"}
    settings = {
        "curve": "{ nodes = [1, 2, 3, 4], samples_per_s = [10, 19, 27, 34] }",
        "env": "{ " + ", ".join(f"{key} = {json.dumps(value)}" for key, value in env.items()) + " }",
        "scale_up_s": "1", "scale_down_s": "0.5", "stop_s": "30",
        "command": json.dumps([options.python, str(script), str(PACE_S)]),
    }  # fmt: skip
    sets = [word for key, value in settings.items() for word in ("--set", f"{key} = {value}")]
    words = ["--launcher", launcher, "--max-nodes", SIZE, "--cwd", own.work / NAME]
    argv = [options.python, "-m", "bftrainer", "submit", "--name", NAME, *map(str, words), *sets]
    subprocess.run([*argv, "--state", str(own.state)], check=True, cwd=own.work)


def _until_training(own: Machine, size: int, since_s: float, what: str) -> None:
    path = own.work / NAME / "steps.jsonl"

    def trains() -> bool:
        lines = path.read_text().splitlines()[-5:] if path.exists() else []
        found = [json.loads(line) for line in lines if line.endswith("}")]
        return len(found) == 5 and all(one["size"] == size and one["at_s"] > since_s for one in found)

    try:
        wait_until(trains, what, 120, every_s=0.1)
    except AssertionError:
        logs = [own.work / "pilot.log", own.state / "trainers" / NAME / "logs" / "driver.log"]
        print(*(f"--- {log}\n{log.read_text()[-3000:]}" for log in logs if log.exists()), sep="\n", file=sys.stderr)
        raise


def table(found: dict[str, list[Measured]]) -> str:
    """Median and 95th percentile of each stage, and of the whole."""
    lines = [f"| seconds until, median / p95 | {' | '.join(found)} |", f"|---|{'---|' * len(found)}"]
    for stages, ends in ((UP, WHOLE[0]), (BACK, WHOLE[1])):
        for stage in (*stages, total := " -> ".join(ends)):
            cells = []
            for runs in found.values():
                values = [it[stage] for one in runs for it in one.stages() if stage in it]
                cells.append(f"{statistics.median(values):.2f} / {p95(values):.2f}" if values else "-")
            bold = "**" if stage == total else ""
            lines.append(f"| {bold}{stage}{bold} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--launchers", nargs="+", choices=SCRIPTS, default=list(SCRIPTS), help="default all")
    options.add_argument("--runs", type=int, default=10, help="main jobs per launcher (default 10)")
    options.add_argument("--taken", type=int, choices=range(1, SIZE), default=2, help="nodes of each (default 2)")
    options.add_argument("--gather-s", type=float, default=1.0, help="decisions.gather_s (default 1, the pilot's own)")
    options.add_argument("--poll-s", type=float, default=10.0, help="times.poll_s (default 10, the pilot's own)")
    options.add_argument(
        "--python", default=sys.executable, help="interpreter with the bftrainer to measure (default this)"
    )
    options.add_argument("--hints", action="store_true", help="an Epilog that sends hints, and a pilot that hears them")
    options.add_argument("--slurm", choices=VERSIONS, default="installed", help="default the installed one")
    chosen = options.parse_args()
    (port,) = free_ports(1)
    chosen.more = f'[hints]\nport = {port}\naddress = "127.0.0.1"\n' if chosen.hints else ""
    found: dict[str, list[Measured]] = {}
    began, busy = time.monotonic(), busy_s()
    hints_port = port if chosen.hints else None
    with suppress(KeyboardInterrupt), cluster(Settings(), chosen.slurm, hints_port) as lab:
        key = "idle -> first step"
        for launcher in chosen.launchers:
            for run in stories(lab, launcher, chosen):
                found.setdefault(launcher, []).append(run)
                totals = [f"{it[key]:.2f}" for it in run.stages() if key in it]
                print(f"{launcher}: {key} {', '.join(totals)} s", file=sys.stderr, flush=True)
    print(table(found))
    shares = (busy_s() - busy) / (time.monotonic() - began) / (os.cpu_count() or 1)
    print(
        f"\n{os.cpu_count()} processors, {100 * shares:.0f} % busy; {sum(len(r.up) for v in found.values() for r in v)} nodes"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
