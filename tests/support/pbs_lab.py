"""A cluster of the stand-in PBS below one folder, for as long as a test needs it."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bftrainer.system.command import run
from bftrainer.system.processes import ProcessId, send, with_variable
from bftrainer.system.users import own_name
from support.patience import PATIENCE
from support.slurm_lab import wait_until as wait_until

STANDIN = Path(__file__).parents[1] / "pbs" / "standin"
sys.path.insert(0, str(STANDIN))
from pbs_state import OVER, State, fresh, locked  # noqa: E402

NAMES = (
    "qsub",
    "qdel",
    "qsig",
    "qalter",
    "qselect",
    "qstat",
    "pbsnodes",
    "pbs_rstat",
    "qmgr",
    "pbs_release_nodes",
    "pbs_tmrsh",
)
MAIN = """#!/bin/sh
date +%s.%N > {marks}/$PBS_JOBID.started
exec sleep {seconds}
"""


class PbsLab:
    """``env`` is what a command needs to reach it."""

    def __init__(
        self,
        root: Path,
        nodes: int = 4,
        cpus: int = 2,
        gpus: int = 0,
        queue: str = "preempt",
        server: str = "head",
    ) -> None:
        self.root = root
        self.server = server
        self.cpus = cpus
        self.bin = root / "bin"
        self.node_names = [f"node{n:02d}" for n in range(1, nodes + 1)]
        self.bin.mkdir(parents=True)
        (root / "state.json").write_text(json.dumps(fresh(self.node_names, cpus, gpus, queue)))
        for name in NAMES:
            path = self.bin / name
            program = f'exec {sys.executable} -S -E {STANDIN}/pbs_main.py "$@"'
            variables = f"PBS_STANDIN_COMMAND={name} PBS_STANDIN_SERVER={server}"
            path.write_text(f"#!/bin/sh\nexport {variables}\n{program}\n")
            path.chmod(0o755)

    @property
    def env(self) -> dict[str, str]:
        return {
            "PBS_STANDIN": str(self.root),
            "PBS_STANDIN_USER": own_name(),
            "PATH": f"{self.bin}:{os.environ['PATH']}",
        }

    def enter(self, setenv: Callable[[str, str], None]) -> None:
        """Commands of this process are to find this cluster."""
        for name, value in self.env.items():
            setenv(name, value)

    def run(self, *argv: str, **variables: str) -> str:
        return run(argv, timeout_s=30 * PATIENCE, env={**self.env, **variables})

    def edit(self, action: Callable[[State], object]) -> None:
        with locked(self.root) as state:
            action(state)

    def change(self, **values: Any) -> None:
        self.edit(lambda state: state.update(values))

    def order(self, preempt_order: str) -> None:
        self.edit(lambda state: state["sched"].update(preempt_order=preempt_order))

    def fault(self, command: str, kind: str, **more: int) -> None:
        self.edit(lambda state: state["faults"].update({command: {"kind": kind, **more}}))

    def heal(self) -> None:
        self.change(faults={})

    def state(self) -> State:
        with locked(self.root) as state:
            return dict(state)

    def job(self, id_: str) -> dict[str, Any]:
        return dict(self.state()["jobs"][id_])

    def calls(self, name: str) -> list[list[str]]:
        """The words of all calls of a command so far."""
        return [words for words in self.state().get("calls", ()) if words[0] == name]

    def main_job(
        self, count: int = 1, seconds: int = 600, minutes: int = 60, host: str = ""
    ) -> str:
        """A job of the main queue, of all of these nodes; its id. See :meth:`started_s`."""
        script = self.root / f"main-{time.monotonic_ns()}.sh"
        script.write_text(MAIN.format(marks=self.root, seconds=seconds))
        script.chmod(0o755)
        chunk = f"{count}:host={host}" if host else str(count)
        limit = f"walltime={minutes // 60:02d}:{minutes % 60:02d}:00"
        argv = ("qsub", "-q", "main", "-l", f"select={chunk}:ncpus={self.cpus}", "-l", limit)
        text = self.run(*argv, "--", str(script), PBS_STANDIN_USER="max")
        return text.strip().partition(".")[0]

    def started_s(self, id_: str) -> float | None:
        path = self.root / f"{id_}.{self.server}.started"
        return float(path.read_text()) if path.exists() and path.read_text().strip() else None

    def processes_of(self, id_: str) -> list[ProcessId]:
        """Living processes with this job's id in their environment."""
        here = set(with_variable("PBS_STANDIN", str(self.root)))
        return [p for p in with_variable("PBS_JOBID", f"{id_}.{self.server}") if p in here]

    def stop(self) -> None:
        """End every job and all that is left of it."""
        with locked(self.root) as state:
            for job in state["jobs"].values():
                if job["state"] not in OVER:
                    job.update(state="F", kill="delete")
        for _ in range(3):
            for process in with_variable("PBS_STANDIN", str(self.root)):
                send(process, signal.SIGKILL)
            time.sleep(0.02)
