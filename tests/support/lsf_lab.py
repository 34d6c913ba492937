"""A cluster of the stand-in LSF below one folder, for as long as a test needs it."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bftrainer.system.command import run
from bftrainer.system.processes import ProcessId, send, with_variable
from support.patience import PATIENCE
from support.slurm_lab import wait_until as wait_until

STANDIN = Path(__file__).parents[1] / "lsf" / "standin"
sys.path.insert(0, str(STANDIN))
from state import FINISHED, State, fresh, locked  # noqa: E402

NAMES = (
    "bhosts",
    "bjobs",
    "bslots",
    "brsvs",
    "bqueues",
    "bapp",
    "bparams",
    "bsub",
    "bkill",
    "bmod",
    "lsid",
)
# What is left of holders when a main job begins: workers, by what their starter has set.
LEFT = (
    "grep -lz '^BFTRAINER_ORDER=' $(grep -lzE '^LSB_JOBID=({ids})$' /proc/[0-9]*/environ) /dev/null"
)
MAIN = """#!/bin/sh
{left} > {marks}/$LSB_JOBID.left 2> /dev/null
date +%s.%N > {marks}/$LSB_JOBID.started
exec sleep {seconds}
"""


class Lab:
    """``env`` is what a command needs to reach it."""

    def __init__(self, root: Path, nodes: int = 4, slots: int = 4, queue: str = "idle") -> None:
        self.root = root
        self.slots = slots
        self.bin = root / "bin"
        self.node_names = [f"node{n:02d}" for n in range(1, nodes + 1)]
        self.bin.mkdir(parents=True)
        (root / "state.json").write_text(json.dumps(fresh(self.node_names, slots, queue)))
        for name in NAMES:
            self.program(
                name,
                f'LSF_STANDIN_COMMAND={name} exec {sys.executable} -S -E {STANDIN}/main.py "$@"',
            )
        # Inside a job these start a command on a node; here every node is this machine.
        self.program("blaunch", 'echo "$1" >> $LSF_ENVDIR/blaunched; shift; exec "$@"')

    @property
    def env(self) -> dict[str, str]:
        return {"LSF_ENVDIR": str(self.root), "PATH": f"{self.bin}:{os.environ['PATH']}"}

    def enter(self, setenv: Callable[[str, str], None]) -> None:
        """Commands of this process are to find this cluster."""
        for name, value in self.env.items():
            setenv(name, value)

    def program(self, name: str, line: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)

    def run(self, *argv: str, stdin: str | None = None) -> str:
        return run(argv, timeout_s=30 * PATIENCE, env=self.env, stdin=stdin)

    def bsub(self, *words: str, stdin: str | None = None) -> str:
        """Submit to the main queue; the job's id."""
        return (
            self.run("bsub", "-q", "normal", *words, stdin=stdin)
            .partition("<")[2]
            .partition(">")[0]
        )

    def change(self, **values: Any) -> None:
        with locked(self.root) as state:
            state.update(values)

    def edit(self, action: Callable[[State], object]) -> None:
        with locked(self.root) as state:
            action(state)

    def fault(self, command: str, kind: str, **more: int) -> None:
        self.edit(lambda state: state["faults"].update({command: {"kind": kind, **more}}))

    def heal(self) -> None:
        self.change(faults={})

    def queue(self, name: str, **values: Any) -> None:
        self.edit(lambda state: state["queues"][name].update(values))

    def job(self, job_id: str) -> dict[str, Any]:
        with locked(self.root) as state:
            return dict(state["jobs"][job_id])

    def forget(self, job_id: str) -> None:
        """mbatchd has cleaned a finished job away."""
        self.edit(lambda state: state["jobs"].pop(job_id))

    def main_job(self, *hosts: str, seconds: int = 600, holders: Sequence[str] = ()) -> str:
        """A job of the main queue that wants these hosts whole; its id. See :meth:`started_s` and
        :meth:`left`.
        """
        script = self.root / f"main-{time.monotonic_ns()}.sh"
        left = LEFT.format(ids="|".join(holders) or "none")
        script.write_text(MAIN.format(left=left, marks=self.root, seconds=seconds))
        script.chmod(0o755)
        slots = str(4 * len(hosts))
        return self.bsub(
            "-nnodes", str(len(hosts)), "-n", slots, "-m", " ".join(hosts), str(script)
        )

    def started_s(self, job_id: str) -> float | None:
        path = self.root / f"{job_id}.started"
        return float(path.read_text()) if path.exists() and path.read_text().strip() else None

    def left(self, job_id: str) -> list[str]:
        """Workers of the holders that this main job was told of, when it began."""
        return (self.root / f"{job_id}.left").read_text().split()

    def processes_of(self, job_id: str) -> list[ProcessId]:
        """Living processes with this job's id in their environment."""
        here = set(with_variable("LSF_ENVDIR", str(self.root)))
        return [p for p in with_variable("LSB_JOBID", job_id) if p in here]

    def stop(self) -> None:
        """End every job and all that is left of it."""
        with locked(self.root) as state:
            for job in state["jobs"].values():
                if job["stat"] not in FINISHED:
                    job.update(
                        kill="TERM_ADMIN", **({"stat": "EXIT"} if job["stat"] == "PEND" else {})
                    )
        for _ in range(3):
            for process in with_variable("LSF_ENVDIR", str(self.root)):
                send(process, signal.SIGKILL)
            time.sleep(0.02)
