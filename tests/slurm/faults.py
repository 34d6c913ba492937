#!/usr/bin/env python3
"""Random faults of a real Slurm of 8 nodes, of a file system, a pilot and its drivers, while
trainers train. As root.

    python tests/slurm/faults.py --minutes 60            a fault every 12 s

slurmctld has a backup. slurmd and slurmctld are killed (SIGKILL) or stopped, all that runs on a
node dies or stops while its slurmd answers, squeue says nonsense, the file system of the state
directory and of the trainers stands still; pilots, drivers, workers, payloads and sruns are killed.
An administrator returns nodes to service after a while. At the end every trainer must be done with
each step made in order, the journal must give the same decisions, and nothing may be left. Main
jobs come all the time: printed are their waits by what was broken meanwhile: Slurm or a node, the
file system, the pilot, nothing.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measuring import cluster
from race import MainJobs
from support.live_machine import machine
from support.pilot_config import pilot_config
from support.pilot_job import PilotJob
from support.slurm_lab import BACKUP, BAD_ANSWERS, Lab, Settings, wait_until
from support.slurm_versions import VERSIONS
from support.two_hosts import one_host

from bftrainer.errors import CommandError
from bftrainer.system.processes import ProcessId, identify, send, with_variable
from bftrainer_clusters.on_node import payload

EVERY_S, TRAINERS, TRAINER_S, AFTER_S = 12.0, 4, 60.0, 5.0
CONFIG = pilot_config(
    decisions={"objective": "relative-speed"},
    learning={"measure": False},
    nodes={"flap_back_off_s": 1},
)
MAIN_JOBS = ((0, 2, 6), (12, 4, 5), (27, 1, 8), (40, 6, 5))
ROUND_S = 55
STOP, CONTINUE, KILL = signal.SIGSTOP, signal.SIGCONT, signal.SIGKILL
PROGRAMS = {
    "driver": b"bftrainer_drivers.",
    "worker": b"_steps.py",
    "payload": b"payload.py",
    "srun": b"srun",
}


class Story:
    """``due``: repairs, each with its time. ``broken``: parts to be repaired. ``outages``: parts,
    each from when to when.
    """

    pilot: subprocess.Popen[bytes]

    def __init__(self, lab: Lab, shared: Path, server: int, options: argparse.Namespace) -> None:
        self.lab, self.shared, self.server = lab, shared, server
        self.rng = random.Random(options.seed)
        self.own = PilotJob(lab, machine(shared, [], CONFIG))
        self.main = MainJobs(lab, lab.root / "log", MAIN_JOBS, ROUND_S)
        self.due: list[tuple[float, int, Callable[[], object]]] = []
        self.number, self.broken = itertools.count(), set[str]()
        self.outages: list[tuple[str, float, float]] = []
        self.struck, self.aside, self.wrong = Counter[str](), Counter[str](), list[str]()

    # --- what breaks

    def breaks(self, part: str, seconds: float, repair: Callable[[], object]) -> bool:
        """A part is broken, and repaired later."""
        begun_s = time.time()

        def repaired() -> None:
            repair()
            self.broken.discard(part)
            self.outages.append((part, begun_s, time.time() + AFTER_S))

        self.broken.add(part)
        heapq.heappush(self.due, (begun_s + seconds, next(self.number), repaired))
        return True

    def node(self, how: signal.Signals, slurmd: bool, jobs: bool) -> bool:
        node = self.rng.choice(self.lab.node_names)
        if node in self.broken:
            return False
        there = self._jobs_on(node) if jobs else []
        if slurmd:
            self.lab.daemons[f"slurmd {node}"].send_signal(how)
        for process in there:
            send(process, how)

        def again() -> None:
            for process in there:
                send(process, CONTINUE)
            if slurmd:
                self._again(f"slurmd {node}", how, lambda: self.lab.start_node(node))

        return self.breaks(node, self.rng.uniform(1, 45), again)

    def _again(self, daemon: str, how: signal.Signals, start: Callable[[], object]) -> None:
        if how == STOP:
            self.lab.daemons[daemon].send_signal(CONTINUE)
        else:
            self.lab.daemons.pop(daemon).wait()
            start()

    def _jobs_on(self, node: str) -> list[ProcessId]:
        """Jobs' processes there, and the slurmstepd of each."""
        found = {}
        for process in with_variable("SLURMD_NODENAME", node):
            with suppress(OSError):
                if f"SLURM_CONF={self.lab.conf}\0".encode() in payload.read(process.pid, "environ"):
                    parent = payload.parent_of(process.pid)
                    found[process.pid] = process
                    if payload.is_manager(parent) and (manager := identify(parent)):
                        found[parent] = manager
        return list(found.values())

    def controllers(self, *names: str, how: signal.Signals = KILL) -> bool:
        if "slurmctld" in self.broken:
            return False
        for name in names:
            self.lab.daemons[name].send_signal(how)

        def again() -> None:
            for name in names:
                self._again(name, how, lambda name=name: self.lab.start_controller(name=name))  # type: ignore[misc]

        return self.breaks("slurmctld", self.rng.uniform(1, 45), again)

    def set_aside(self, state: str) -> bool:
        node = self.rng.choice(self.lab.node_names)
        if self.broken & {node, "slurmctld"}:
            return False
        self.lab.run(
            "scontrol", "update", f"NodeName={node}", f"State={state}", "Reason=fault", timeout_s=10
        )
        return self.breaks(node, self.rng.uniform(1, 40), lambda: self._resume(node))

    def _resume(self, node: str) -> None:
        with suppress(CommandError):
            self.lab.run("scontrol", "update", f"NodeName={node}", "State=RESUME", timeout_s=10)

    def cancel(self) -> bool:
        holders = self.lab.run(
            "squeue", "-h", "-p", "scavenge", "-t", "R", "-o", "%i", timeout_s=10
        ).split()
        return bool(holders) and not self.lab.run("scancel", self.rng.choice(holders), timeout_s=10)

    def nonsense(self) -> bool:
        if "squeue" in self.broken:
            return False
        self.lab.put_fake("squeue", f"#!/bin/sh\n{self.rng.choice(list(BAD_ANSWERS.values()))}\n")
        return self.breaks(
            "squeue", self.rng.uniform(2, 25), (self.lab.root / "bin" / "squeue").unlink
        )

    def freeze(self) -> bool:
        """Only a timer thaws it: this process may wait there as well."""
        if "files" in self.broken:
            return False
        seconds = self.rng.choice((2.0, 10.0, 30.0, 100.0))
        os.kill(self.server, STOP)
        threading.Timer(seconds, os.kill, (self.server, CONTINUE)).start()
        return self.breaks("files", seconds, lambda: None)

    def process(self, program: str) -> bool:
        found = [
            p
            for p in self.own.lab_processes()
            if PROGRAMS[program] in payload.read(p.pid, "cmdline")
            and (payload.read(p.pid, "comm") == b"srun\n") == (program == "srun")
        ]
        return bool(found) and send(self.rng.choice(found), KILL)

    def pilot_is(self, how: signal.Signals) -> bool:
        if "pilot" in self.broken:
            return False
        self.pilot.send_signal(how)
        if how == KILL:
            self.pilot.wait()
            return self.breaks("pilot", self.rng.choice((0.5, 5.0, 30.0)), self.start_pilot)
        go_on, pilot = CONTINUE, self.pilot
        return self.breaks(
            "pilot", self.rng.choice((5.0, 30.0, 100.0)), lambda: pilot.send_signal(go_on)
        )

    def start_pilot(self) -> None:
        self.pilot = self.own.machine.pilot()

    def kinds(self) -> dict[str, Callable[[], bool]]:
        found: dict[str, Callable[[], bool]] = {
            "slurmd killed": lambda: self.node(KILL, slurmd=True, jobs=False),
            "slurmd stopped": lambda: self.node(STOP, slurmd=True, jobs=False),
            "node died": lambda: self.node(KILL, slurmd=True, jobs=True),
            "node stopped": lambda: self.node(STOP, slurmd=True, jobs=True),
            "node answers pings only": lambda: self.node(STOP, slurmd=False, jobs=True),
            "slurmctld killed": lambda: self.controllers("slurmctld"),
            "slurmctld and its backup killed": lambda: self.controllers("slurmctld", BACKUP),
            "slurmctld stopped": lambda: self.controllers("slurmctld", how=STOP),
            "node set down": lambda: self.set_aside("DOWN"),
            "node drained": lambda: self.set_aside("DRAIN"),
            "preemptible job canceled": self.cancel,
            "file system frozen": self.freeze,
            "squeue says nonsense": self.nonsense,
            "pilot killed": lambda: self.pilot_is(KILL),
            "pilot stopped": lambda: self.pilot_is(STOP),
        }
        return found | {f"{name} killed": lambda name=name: self.process(name) for name in PROGRAMS}  # type: ignore[misc]

    # --- the time between

    def pass_s(self, seconds: float) -> None:
        end_s = time.time() + seconds
        while time.time() < end_s:
            while self.due and self.due[0][0] <= time.time():
                heapq.heappop(self.due)[2]()
            if self.pilot.poll() is not None and not self.broken & {"pilot", "files"}:
                self.wrong.append(f"a pilot ended with status {self.pilot.poll()}")
                self.start_pilot()
            time.sleep(0.2)

    def administer(self) -> None:
        """Return what Slurm itself has set aside."""
        with suppress(CommandError):
            sinfo = self.lab.run("sinfo", "-h", "-N", "-p", "main", "-o", "%N|%T|%E", timeout_s=10)
            for node, state, reason in (line.split("|", 2) for line in sinfo.splitlines()):
                if state.startswith(("down", "drain")) and node not in self.broken:
                    self.aside[f"{state}: {reason}"] += 1
                    self._resume(node)

    def run(self, minutes: float) -> None:
        self.start_pilot()
        wait_until(self.own.machine.state_is_there, "the pilot", 60)
        self.main.start()
        kinds, end_s, next_s = self.kinds(), time.time() + 60 * minutes, 0.0
        while time.time() < end_s:
            if not self.broken & {"files", "pilot"} and time.time() > next_s:
                next_s = time.time() + TRAINER_S
                self.own.finish(*list(self.own.launchers)[: 1 - TRAINERS])
                for _ in range(max(TRAINERS - len(self.own.launchers), 1)):
                    self.submit()
            kind = self.rng.choice(list(kinds))
            with suppress(CommandError):
                self.struck[kind] += kinds[kind]()
            print(
                time.strftime("%T"),
                kind,
                sorted(self.broken),
                dict(self.aside),
                file=sys.stderr,
                flush=True,
            )
            self.pass_s(self.rng.expovariate(1 / EVERY_S))
            self.administer()
        while self.due:
            self.pass_s(1)
        self.pass_s(2 * TRAINER_S / TRAINERS)
        self.administer()
        self.main.ends.set()
        self.main.join()

    def submit(self) -> None:
        number = len(self.own.launchers)
        self.own.submit(
            f"t{number}", ("restart", "torchrun", "restart")[number % 3], max_nodes=3, pace_s=0.2
        )

    def finish(self) -> dict[str, object]:
        """Every trainer completes: what is lost, what was done twice."""
        own, names, doubled = self.own, list(self.own.launchers), []
        own.finish(*names)
        with suppress(AssertionError):
            wait_until(
                lambda: {own.machine.status(name) for name in names} == {"done"},
                "trainers",
                100,
                every_s=1,
            )
        for name in filter(lambda name: own.lines(name, "steps"), names):
            try:
                own.check_story(name)
            except AssertionError as error:
                doubled.append(f"{name}: {error}")
        lost = {name: status for name in names if (status := own.machine.status(name)) != "done"}
        own.machine.end(self.pilot)
        with suppress(AssertionError):
            wait_until(lambda: not own.left(), "nothing to be left", 30)
        rows = own.machine.rows("nodes", "--all")
        self.wrong += [
            *own.left(),
            *(f"{row['fragment']} is held" for row in rows if row["released_s"] is None),
        ]
        self.wrong += (own.machine.work / "pilot.log").read_text(errors="replace").count(
            "Traceback"
        ) * ["traceback"]
        steps = {name: len(own.lines(name, "steps")) for name in names}
        return {
            "steps": steps,
            "lost": lost,
            "doubled": doubled,
            "journal": own.machine.bftrainer_replay().strip(),
        }

    def waits(self) -> dict[str, object]:
        """Median and largest of main jobs that started, by the worst that was broken on their nodes
        meanwhile.
        """
        found = defaultdict(list)
        for submitted_s, started_s, _ in self.main.starts():
            then = {
                part
                for part, begun_s, ended_s in self.outages
                if begun_s < started_s and submitted_s < ended_s
            }
            slurm = then & {
                "slurmctld",
                *self.lab.node_names,
            }  # a job may wait for a broken node that it does not get
            worst = (
                "Slurm"
                if slurm
                else next((part for part in ("files", "pilot") if part in then), "none")
            )
            for name in (worst, "all"):
                found[name].append(round(started_s - submitted_s, 2))
        told = {
            name: {"n": len(s), "median": statistics.median(s), "largest": sorted(s)[-5:]}
            for name, s in found.items()
        }
        return {**told, "submitted": len(self.main.submitted_s)}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="default 60")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--grace", type=int, default=30, help="GraceTime of the partition (default 30)"
    )
    parser.add_argument(
        "--keep", type=Path, help="copy the logs of the cluster and of the pilot to this folder"
    )
    parser.add_argument(
        "--slurm", choices=VERSIONS, default="installed", help="default the installed one"
    )
    options = parser.parse_args()
    settings = Settings(backup=True, grace_s=options.grace, more="SlurmctldTimeout=10")
    with cluster(settings, options.slurm) as lab, one_host(lab.root) as (shared, server):
        story = Story(lab, shared, server, options)
        try:
            story.run(options.minutes)
            found = story.finish()
            found |= {
                "waits": story.waits(),
                "faults": story.struck,
                "in all": story.struck.total(),
            }
            found |= {"set aside by Slurm": story.aside, "wrong": story.wrong}
            print(json.dumps(found, indent=1))
        finally:
            os.kill(server, CONTINUE)
            if options.keep:
                options.keep.mkdir(parents=True, exist_ok=True)
                subprocess.run(
                    ["cp", "-r", str(lab.root / "log"), str(shared), str(options.keep)], check=False
                )
            story.own.machine.close()
    return 1 if any(found.get(key) for key in ("lost", "doubled", "wrong")) else 0


if __name__ == "__main__":
    sys.exit(main())
