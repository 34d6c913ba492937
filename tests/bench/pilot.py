"""What share of a core the pilot takes: ``python tests/bench/pilot.py``.

The real pilot (its loop, its desks, its database, its trainer directories, holders' leases and
marks) with metrics, JSON log, notices and learning, for 100 trainers on a cluster of 5,000 nodes,
once with a tenth of them idle, once with all of them. Only the scheduler and the drivers are made
up (_made_up.py): the scheduler answers from memory, and another process writes what 100 drivers and
trainers would write. It looks at the scheduler every 10 s and at its files every 0.2 s, in real
time. At every look some nodes have been taken and others have become idle; trainers end and new
ones come.

CPU is this process's own (getrusage: user and system, all threads), so that others on the machine
do not count; what the scheduler's stand-in takes of it is shown beside, not subtracted. Exit status
1 if a run is above 2 % of a core.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import _made_up
import numpy as np
from _made_up import SEED, Machine, stand_in, trainer
from rich.console import Console
from rich.table import Table
from support.fakes_jobs import PATIENT

from bftrainer.cluster.site_plugin import Site
from bftrainer.config.pilot import PilotConfig
from bftrainer.config.validation import check_table
from bftrainer.console.cli import pilot_log
from bftrainer.pilot import decision_maker
from bftrainer.pilot.audit.auditor import Auditor
from bftrainer.pilot.audit.totals import read_totals
from bftrainer.pilot.facts import DecisionMade
from bftrainer.pilot.persistence.spool import Request, RequestKind, Spool
from bftrainer.pilot.pilot_process import run_pilot
from bftrainer.pilot.runtime import PilotDependencies
from bftrainer.pilot.trainers import driver_process
from bftrainer.pilot.trainers.trainer_message import driver_settings
from bftrainer.system.clock import SystemClock
from bftrainer.system.signals import Signals
from bftrainer_clusters.holding.holder_files import HolderFiles
from bftrainer_clusters.holding.holder_jobs import JobPhase
from bftrainer_clusters.holding.job_holder import JobHolder

LIMIT = 0.02
CHURN = 8
"""Nodes that are taken, and others that become idle, at each look at the scheduler. The pilot lets
a node alone for some time after it has been taken: at many looks a second most nodes would stand
aside, and the decisions would be about few."""


class CountingClock(SystemClock):
    """The system's clock. It knows how often the pilot has slept: its ticks."""

    ticks = 0

    def sleep(self, seconds: float) -> None:
        self.ticks += 1
        super().sleep(seconds)


def _free_port() -> int:
    with socket.socket() as there:
        there.bind(("127.0.0.1", 0))
        return int(there.getsockname()[1])


@dataclass
class Figures:
    """What one run took."""

    held: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0
    fake_s: float = 0.0
    ticks: int = 0
    decisions: int = 0
    quarters: list[float] = field(default_factory=list)
    decision_s: list[float] = field(default_factory=list)
    audit: str = ""

    def percentile_ms(self, percent: float) -> float:
        """Of the decisions' CPU time, policy and solver, on the pilot's own path."""
        return 1e3 * float(np.percentile(self.decision_s, percent)) if self.decision_s else 0.0

    @property
    def share(self) -> float:
        """Of a core."""
        return self.cpu_s / self.seconds


@dataclass(frozen=True)
class Run:
    """What is measured. ``poll_s``: between two looks at the scheduler."""

    trainers: int
    nodes: int
    idle: int
    warm_s: float
    seconds: float
    poll_s: float = 10.0
    solver: str = "auto"
    audit_share: float = 0.0
    largest: int = 0
    churn: int = CHURN


def measure(run: Run) -> Figures:
    """One pilot from its start to its end; measured from ``warm_s`` after it has its nodes."""
    trainers, nodes, idle = run.trainers, run.nodes, run.idle
    warm_s, seconds = run.warm_s, run.seconds
    memory = (
        "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    )  # waiting for a disk is no CPU time
    with tempfile.TemporaryDirectory(
        prefix="bftrainer-bench-", dir=memory, ignore_cleanup_errors=True
    ) as folder:
        state, rng, port = Path(folder), random.Random(SEED), _free_port()
        # So that all of them run.
        largest = run.largest or (8 if idle <= 8 * trainers else 128)
        token = state / "token"
        token.write_text(f"{secrets.token_urlsafe(32)}\n")
        token.chmod(0o600)
        tables = {
            "decisions": {"solver": run.solver, "audit_share": run.audit_share},
            "nodes": {"max_pending": nodes, "min_window_s": 0.0},
            "times": {"poll_s": run.poll_s, "file_poll_s": 0.2, "shutdown_s": 20.0},
            "metrics": {"port": port, "token_file": str(token)},
            "log": {"format": "json"},
            "notices": {"on_event": ["/bin/true"]},
        }
        config = check_table(tables, PilotConfig, "bench")
        clock, files = CountingClock(), HolderFiles(state / "holders")
        machine = Machine(files, rng, nodes, idle)
        holder = JobHolder(machine, PATIENT, files, clock, config.times.poll_s)
        spool = Spool(state)
        for number in range(trainers + 10):
            spec = trainer(rng, number, largest)
            spool.put(Request(kind=RequestKind.SUBMIT, trainer=spec.name, spec=spec, owner="me"))
        # A decision's own CPU time: others on the machine do not count.
        decision_maker.time = SimpleNamespace(perf_counter=time.thread_time)  # type: ignore[attr-defined]
        driver_process.subprocess = SimpleNamespace(Popen=stand_in, DEVNULL=subprocess.DEVNULL)  # type: ignore[attr-defined]
        player = subprocess.Popen(
            [sys.executable, _made_up.__file__, folder, str(port), str(largest), str(token)]
        )
        signals, figures, decisions = Signals(), Figures(), [0]

        def log(fact: Any, form: str) -> None:
            if isinstance(fact, DecisionMade):
                decisions[0] += 1
                figures.decision_s.append(fact.took_s)
            pilot_log.print_fact(fact, form)

        def look_on() -> None:
            while (
                sum(job.phase is JobPhase.RUNS for job in list(machine.jobs.values())) < 0.9 * idle
            ):
                time.sleep(0.5)
            machine.churn = run.churn
            time.sleep(warm_s)
            before = clock.ticks, decisions[0], machine.cost_s
            figures.decision_s.clear()
            began, cpu = time.monotonic(), _cpu_s()
            for _ in range(4):
                here = _cpu_s()
                time.sleep(seconds / 4)
                figures.quarters.append((_cpu_s() - here) / (seconds / 4))
            figures.seconds, figures.cpu_s = time.monotonic() - began, _cpu_s() - cpu
            figures.ticks, figures.decisions = clock.ticks - before[0], decisions[0] - before[1]
            figures.fake_s = machine.cost_s - before[2]
            figures.held = sum(job.phase is JobPhase.RUNS for job in list(machine.jobs.values()))
            signals.ends = True

        threading.Thread(target=look_on, daemon=True).start()
        with (state / "log.jsonl").open("w") as out:
            stdout, sys.stdout = sys.stdout, out
            pilot_log._line_printer.cache_clear()  # it keeps the output that it began with
            try:
                driver = driver_settings(config.workers, config.times.file_poll_s)
                audit = Auditor(state, clock, start_after_s=0.0)
                site = Site(machine, holder, driver=driver)
                parts = PilotDependencies(state, site, clock, log=log, audit=audit)
                run_pilot(parts, config, signals)
                figures.audit = str(read_totals(state) or "")
            finally:
                sys.stdout = stdout
                player.kill()
                player.wait()
        return figures


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=180.0, help="measured time of each run")
    parser.add_argument(
        "--warm", type=float, default=30.0, help="before that, once the nodes are there"
    )
    parser.add_argument("--trainers", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument(
        "--idle",
        type=float,
        nargs="+",
        default=[0.1, 1.0],
        help="shares of the nodes that are idle",
    )
    parser.add_argument("--poll-s", type=float, default=10.0, help="between two polls")
    parser.add_argument("--solver", default="auto", help="decisions.solver")
    parser.add_argument("--audit-share", type=float, default=0.0, help="decisions.audit_share")
    parser.add_argument("--largest", type=int, default=0, help="nodes of the largest trainer")
    parser.add_argument("--churn", type=int, default=CHURN, help="nodes taken at each poll")
    options = parser.parse_args()
    table = Table(
        title=f"{options.trainers} trainers, {options.nodes} nodes, a poll every "
        f"{options.poll_s:g} s, a tick every 0.2 s"
    )
    for column in (
        "nodes held",
        "seconds",
        "CPU s",
        "% of a core",
        "by quarter",
        "scheduler's stand-in",
        "ticks",
        "decisions",
        "ms p50",
        "ms p99",
    ):
        table.add_column(column, justify="right")
    shares: list[float] = []
    for share in options.idle:
        idle = int(share * options.nodes)
        run = Run(
            options.trainers,
            options.nodes,
            idle,
            options.warm,
            options.seconds,
            options.poll_s,
            options.solver,
            options.audit_share,
            options.largest,
            options.churn,
        )
        found = measure(run)
        if not found.held:
            sys.exit("bench: the pilot holds no node: its trainers do not run")
        shares.append(found.share)
        table.add_row(
            f"{found.held:,}",
            f"{found.seconds:.0f}",
            f"{found.cpu_s:.2f}",
            f"{100 * found.share:.2f}",
            f"{100 * min(found.quarters):.2f}-{100 * max(found.quarters):.2f}",
            f"{100 * found.fake_s / found.seconds:.2f} %",
            f"{found.ticks:,}",
            str(found.decisions),
            f"{found.percentile_ms(50):.2f}",
            f"{found.percentile_ms(99):.2f}",
        )
        if found.audit:
            print(found.audit)
    Console(width=140).print(table)
    print(f"at most {100 * max(shares):.2f} % of a core (limit {100 * LIMIT:.0f} %)")
    return int(max(shares) > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
