#!/usr/bin/env python3
"""One ordinary user's pilot holds all nodes of a large Slurm, and main jobs take many at once.

    python tests/slurm/many_nodes.py --nodes 500 --wave 100

Run it as root; 500 nodes need 24 GB. Each node is a slurmd with a /proc of its own. Printed are
seconds until the nodes are held and released, calls to slurmctld a minute, the pilot's memory, and
the waits of main jobs, beside those on the same cluster full of plain preemptible jobs.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from conftest import started
from slurm.test_many_users import bftrainer, config, held, pilot
from slurm.twenty_users import calls
from support.ordinary_user import restart_uncovered
from support.slurm_lab import Lab, Settings, wait_until
from support.slurm_user import LabUser, lab_user
from support.slurm_versions import VERSIONS

SETTLE_S, LIMIT_S = 30.0, 600.0


def seconds_until(condition: Callable[[], object], what: str) -> str:
    """Wait for a condition, and say how long it took."""
    begun_s = time.monotonic()
    wait_until(condition, what, LIMIT_S, every_s=0.5)
    return f"{what} after {time.monotonic() - begun_s:.0f} s"


def waves(lab: Lab, options: argparse.Namespace, is_full: Callable[[], bool]) -> None:
    """Submit main jobs of so many nodes, each when the cluster is full again."""
    for number in range(options.waves):
        time.sleep(SETTLE_S)  # a job that has no step yet ends only when its GraceTime is over
        started_file = lab.root / f"started.{time.time()}"
        begun_s = time.time()
        words = ("-p", "main", f"-N{options.wave}")
        job = lab.submit(
            f"date +%s.%N > {started_file}.new; mv {started_file}.new {started_file}; exec sleep 600",
            *words,
        )
        wait_until(started_file.exists, "the main job", LIMIT_S)
        waited_s = float(started_file.read_text()) - begun_s
        time.sleep(5)
        lab.run("scancel", job)
        say(
            f"wave {number}: {waited_s:.2f} s,",
            seconds_until(is_full, "full again"),
            f"load {os.getloadavg()[0]:.0f}",
        )


def memory_mb() -> dict[str, int]:
    """Memory by program, of the twelve that have most, with shared pages counted once. The pilot is
    ``bftrainer``.
    """
    kb_of = Counter[str]()
    for path in Path("/proc").glob("[0-9]*/smaps_rollup"):
        with suppress(OSError, IndexError):
            program = path.with_name("comm").read_text().strip()
            kb_of[program] += int(path.read_text().split("\nPss:")[1].split()[0])
    return {name: kb // 1024 for name, kb in kb_of.most_common(12)}


def say(*words: object) -> None:
    """Print a line with the time of day."""
    print(time.strftime("%T"), *words, flush=True)


def held_by_pilot(lab: Lab, user: LabUser, options: argparse.Namespace) -> None:
    """Measure a pilot that holds every node."""
    path = user.folder("state") / "bftrainer.toml"
    user.run("sh", "-c", 'printf %s "$1" > "$2"', "sh", config(10.0), str(path))
    words = f"--name t --launcher pool --max-nodes {options.nodes} --samples-per-s 1 --cwd {user.home}".split()
    bftrainer(user, "submit", *words, "--set", "stop_s = 5", "--", "sleep", "100000")
    before, job = calls(lab), pilot(user)

    def full() -> bool:
        return held(lab)[user.name] == options.nodes

    say(seconds_until(full, "all held"), f"{calls(lab) - before} calls")
    before = calls(lab)
    time.sleep(60)
    say(f"at rest {calls(lab) - before} calls a minute; MB: {memory_mb()}")
    waves(lab, options, full)
    lab.run("scancel", "--batch", "--signal=TERM", job)
    say(seconds_until(lambda: not held(lab), "all released"))
    lab.cancel_all()


def plain(lab: Lab, options: argparse.Namespace) -> None:
    """Measure the cluster full of plain preemptible jobs."""
    array = f"--array=1-{2 * options.nodes}"
    lab.submit("srun sleep 3600", "-p", "scavenge", "-N1", "-t", "90", array)

    def full() -> bool:
        running = lab.run("squeue", "-h", "-r", "-t", "R", "-p", "scavenge", "-o", "%i")
        return len(running.split()) == options.nodes

    say(seconds_until(full, "plain jobs run"))
    waves(lab, options, full)


def main() -> None:
    """Start the cluster and measure both."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--wave", type=int, default=100)
    parser.add_argument("--waves", type=int, default=5)
    parser.add_argument("--slurm", choices=VERSIONS, default="installed")
    options = parser.parse_args()
    restart_uncovered()
    for lab in started(
        Settings(nodes=options.nodes, service=1, own_processes=True), VERSIONS[options.slurm]
    ):
        say(f"{options.nodes} nodes are idle; MB: {memory_mb()}")
        with lab_user(lab) as user:
            held_by_pilot(lab, user, options)
        plain(lab, options)


if __name__ == "__main__":
    main()
