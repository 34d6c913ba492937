#!/usr/bin/env python3
"""From idle to training: a main job ends on a real Slurm of 8 nodes; when is the first step on its
nodes made?

    make latency                                                    all launchers, by polling
    python tests/slurm/latency.py --launchers restart --runs 6      a part of it
    python tests/slurm/latency.py --hints                           with hints instead of polling alone
    python tests/slurm/latency.py --taken 1                         one node at a time: imports that do not compete

A main job keeps 4 of the 8 nodes. A trainer has the other 4; in each run a main job takes 2 of
these (--taken) and ends at a random moment of the pilot's polls. Times are those of ``bftrainer
nodes --timeline``. The models are tiny and the steps are paced, but on a machine of 2 cores the
imports of the workers compete: the last line says how busy the processors were. Ctrl-C prints what
has been measured.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measuring import cluster
from support.impact import busy_s
from support.live_machine import machine
from support.pilot_config import pilot_config
from support.pilot_job import PilotJob
from support.slurm_lab import Lab, Settings, free_ports, wait_until
from support.slurm_versions import VERSIONS

from bftrainer.decide.domain.node_stages import (
    TO_RELEASE,
    TO_TRAINING,
    Instants,
    NodeStage,
    p95,
    stage_seconds,
    whole_seconds,
)
from bftrainer.pilot.persistence.registry import Registry
from bftrainer.pilot.persistence.store import open_store
from bftrainer.pilot.persistence.time_lines import time_lines

LAUNCHERS = ("horovod", "torchrun", "restart")
NAME, KEPT, SIZE = "t", 4, 4
PACE_S = 0.05


def measure(lab: Lab, launcher: str, options: argparse.Namespace, found: list[Instants]) -> None:
    """Adds the instants of each fragment that joined or left."""
    with tempfile.TemporaryDirectory(prefix="latency-") as folder:
        path = Path(folder)
        text = pilot_config(
            decisions={"gather_s": options.gather_s},
            learning={"measure": False},
            nodes={"flap_back_off_s": 1},
            times={"poll_s": options.poll_s},
        )
        own = PilotJob(lab, machine(path, [], text + options.more))
        keep = _main_job(lab, KEPT)
        since_s = until_s = math.inf
        try:
            own.submit(NAME, launcher, SIZE, PACE_S)
            pilot = own.machine.pilot()
            own.until_training(NAME, size=SIZE, seconds=120)
            since_s = time.time()
            for run in range(options.runs):
                time.sleep(random.uniform(1.0, 1.0 + (3.0 if options.hints else options.poll_s)))
                job = _main_job(lab, options.taken)
                own.until_training(NAME, size=SIZE - options.taken)
                time.sleep(2.0)
                lab.run("scancel", job)
                own.until_training(NAME, size=SIZE, seconds=120)
                print(f"{launcher}: run {run + 1} of {options.runs}", file=sys.stderr, flush=True)
            time.sleep(1.5)  # until the drivers have reported, and the audit is written
            until_s = time.time()
            own.machine.end(pilot)
        finally:
            with closing(open_store(own.machine.state)) as store:
                lines = [line.instants for line in time_lines(Registry(store))]
            found += [line for line in lines if line.get(NodeStage.DECIDED, 0.0) > since_s]
            found += [
                {stage: at_s for stage, at_s in line.items() if stage in TO_RELEASE}
                for line in lines
                if since_s < line.get(NodeStage.NOTICE, 0.0) < until_s
            ]
            lab.run("scancel", keep)
            own.machine.close()
            lab.tidy_up()


def _main_job(lab: Lab, nodes: int) -> str:
    told = lab.root / "log" / f"main.{time.monotonic_ns()}"
    job = lab.submit(f"touch {told}; exec sleep 3600", "-p", "main", f"-N{nodes}", "-t", "60")
    wait_until(told.exists, f"the main job of {nodes} nodes to start", 60)
    return job


def table(found: dict[str, list[Instants]]) -> str:
    """Median and 95th percentile of each stage, and of the whole."""
    lines = [
        f"| seconds until, median / p95 | {' | '.join(found)} |",
        f"|---|{'---|' * len(found)}",
    ]

    def add(head: str, values_of: Callable[[Instants], float | None]) -> None:
        every = (
            [value for it in each if (value := values_of(it)) is not None]
            for each in found.values()
        )
        cells = (
            f"{statistics.median(values):.2f} / {p95(values):.2f}" if values else "-"
            for values in every
        )
        lines.append(f"| {head} | {' | '.join(cells)} |")

    for chain in (TO_TRAINING, TO_RELEASE):
        for stage in chain[1:]:
            add(
                stage.value,
                lambda it, chain=chain, stage=stage: stage_seconds(it, chain).get(stage),
            )  # type: ignore[misc]
        add(
            f"**{chain[0].value} -> {chain[-1].value}**",
            lambda it, chain=chain: whole_seconds(it, chain),
        )  # type: ignore[misc]
    return "\n".join(lines)


def main() -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument(
        "--launchers", nargs="+", choices=LAUNCHERS, default=list(LAUNCHERS), help="default all"
    )
    options.add_argument("--runs", type=int, default=10, help="main jobs per launcher (default 10)")
    options.add_argument(
        "--taken", type=int, choices=range(1, SIZE), default=2, help="nodes of each (default 2)"
    )
    options.add_argument(
        "--gather-s",
        type=float,
        default=1.0,
        help="decisions.gather_s (default 1, the pilot's own)",
    )
    options.add_argument(
        "--poll-s", type=float, default=10.0, help="times.poll_s (default 10, the pilot's own)"
    )
    options.add_argument(
        "--hints",
        action="store_true",
        help="an Epilog that sends hints, and a pilot that hears them",
    )
    options.add_argument(
        "--slurm", choices=VERSIONS, default="installed", help="default the installed one"
    )
    chosen = options.parse_args()
    (port,) = free_ports(1)
    chosen.more = f'[hints]\nport = {port}\naddress = "127.0.0.1"\n' if chosen.hints else ""
    found: dict[str, list[Instants]] = {}
    began, busy = time.monotonic(), busy_s()
    hints_port = port if chosen.hints else None
    with suppress(KeyboardInterrupt), cluster(Settings(), chosen.slurm, hints_port) as lab:
        for launcher in chosen.launchers:
            measure(lab, launcher, chosen, found.setdefault(launcher, []))
    print(table(found))
    shares = (busy_s() - busy) / (time.monotonic() - began) / (os.cpu_count() or 1)
    print(f"\n{os.cpu_count()} processors, {100 * shares:.0f} % busy")
    return 0


if __name__ == "__main__":
    sys.exit(main())
