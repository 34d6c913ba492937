"""A Slurm that preempts nothing, the configuration of a pilot that makes way there, and main jobs
whose starts are timed.
"""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from support.pilot_config import pilot_config
from support.slurm_lab import Lab, Settings, wait_until

PLAIN = "bf_continue"
"""Slurm's own intervals."""


def never(nodes: int, private: str = "") -> Settings:
    """A site that preempts nothing, and hides what ``private`` names."""
    return Settings(
        nodes,
        preempt="preempt/none",
        scheduler=PLAIN,
        controller="enable_configless",
        epilog="",
        private_data=private,
    )


_NODES = {
    "flap_back_off_s": 1,
    "confirm_s": 0,
    "settled_s": 0,
    "min_window_s": 60,
}


def pilot_text(nodes_per_holder: int = 1, **nodes: object) -> str:
    """The configuration of a pilot in the partition of the main jobs."""
    return pilot_config(
        decisions={"solver": "exact", "gather_s": 0},
        learning={"measure": False},
        nodes={"holder": "slurm", **_NODES, **nodes},
        times={"poll_s": 10, "shutdown_s": 60},
        slurm={"partition": "main", "timeout_s": 15.0, "nodes_per_holder": nodes_per_holder},
    )


@dataclass
class MainJobs:
    """Main jobs of a lab: each writes when it has begun, and lasts ``length_s``."""

    lab: Lab
    began: Path
    delays: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    count: int = 0
    length_s: float = 0.2

    def run(self, by: str, nodes: int, *options: str, seconds: float = 120.0) -> float:
        """Submit a job and wait until it has begun; the seconds in between."""
        self.count += 1
        mark = self.began / f"{id(self)}-{self.count}"
        line = f"date +%s.%N > {mark}; sleep {self.length_s}"
        words = ["-p", "main", f"-N{nodes}", "-t", "1", *options]
        argv = {
            "sbatch": ["sbatch", "-o", "/dev/null", *words, "--wrap", line],
            "srun": ["srun", "-n1", *words, "sh", "-c", line],
            "salloc": ["salloc", *words, "sh", "-c", line],
        }[by]
        if by == "srun":
            argv = [
                "srun",
                f"-n{nodes}",
                *words,
                "sh",
                "-c",
                f"[ $SLURM_PROCID != 0 ] || {{ {line}; }}",
            ]
        began_s = time.time()
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(argv, env=self.lab.environ(), stdout=quiet, stderr=quiet)
        try:
            wait_until(lambda: _stamp(mark), f"{by} of {nodes} nodes to begin", seconds, 0.02)
        finally:
            _end(process)
        delay_s = float(_stamp(mark)) - began_s
        self.delays.setdefault((by, nodes), []).append(delay_s)
        return delay_s

    def all_delays(self) -> list[float]:
        return [delay_s for delays in self.delays.values() for delay_s in delays]


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait for a command whose job is over; end one that hangs."""
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _stamp(mark: Path) -> str:
    text = mark.read_text() if mark.exists() else ""
    return text.strip() if text.endswith("\n") else ""


def held(lab: Lab) -> int:
    """How many nodes holders have."""
    rows = lab.run("squeue", "-h", "-t", "R", "-n", "bftrainer-holder", "-o", "%D").split()
    return sum(map(int, rows))
