"""Jobs of 1, 4 and 16 nodes on a live cluster of 16: ``python tests/bench/slurm_nodes_per_holder.py [trixie|sid ...]``.

Plain preemptible jobs with a step on each node, as holders of several nodes would be. Seconds until all nodes run, calls to
slurmctld for that, and main jobs of 1 node by salloc: their start, and how many other nodes are lost with theirs.
"""

from __future__ import annotations

import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from slurm_lab import Lab, Settings, wait_until
from slurm_versions import VERSIONS

NODES, STARTS = 16, 5
STEP = "srun --overlap -N$SLURM_JOB_NUM_NODES --ntasks-per-node=1 --mem=0 sleep 1000"


def calls(lab: Lab) -> int:
    """Submissions and steps."""
    text = lab.run("sdiag").partition("by message type")[2].partition("by user")[0]
    found = re.findall(r"REQUEST_(SUBMIT_BATCH_JOB|JOB_STEP_CREATE|STEP_COMPLETE)\s+\(\s*\d+\) count:(\d+)", text)
    return sum(int(count) for _, count in found)


def running(lab: Lab) -> int:
    """Nodes of preemptible jobs, once each has its step."""
    lines = lab.run("squeue", "-h", "-p", "scavenge", "-t", "R", "-o", "%D").split()
    steps = [s for s in lab.run("squeue", "-h", "-s", "-p", "scavenge", "-o", "%i").split() if s[-1].isdigit()]
    return sum(map(int, lines)) if len(steps) == len(lines) else 0


def measure(lab: Lab, size: int) -> None:
    names, held_s, starts_s, lost, made = lab.node_names, [], [], [], []
    for _ in range(STARTS):
        before, began = calls(lab), time.monotonic()
        for first in range(0, NODES, size):
            chosen = ",".join(names[first : first + size])
            lab.submit(STEP, "-p", "scavenge", f"-N{size}", "-w", chosen, "--exclusive", "--mem=0", "--no-requeue")
        wait_until(lambda: running(lab) == NODES, "all nodes", 90, every_s=0.2)
        held_s.append(time.monotonic() - began)
        made.append(calls(lab) - before)
        time.sleep(1.0)
        began = time.time()
        argv = ["salloc", "-p", "main", "-N1", "-w", names[-1], "-t", "2", "srun", "-n1", "date", "+%s.%N"]
        done = subprocess.run(argv, env=lab.environ(), capture_output=True, text=True, check=True, timeout=60)
        starts_s.append(float(done.stdout) - began)
        left = sum(map(int, lab.run("squeue", "-h", "-p", "scavenge", "-t", "R", "-o", "%D").split()))
        lost.append(NODES - 1 - left)
        lab.cancel_all()
        lab.wait_idle()
    cells = [f"{statistics.median(values):.2f}" for values in (held_s, starts_s)]
    print(
        f"| {lab.version.number} | {size} | {NODES // size} | {statistics.median(made):g} | {cells[0]} | {cells[1]}, "
        f"{max(starts_s):.2f} | {max(lost)} |", flush=True,
    )  # fmt: skip


def main(version: str) -> None:
    folder = Path(tempfile.mkdtemp(prefix="bftrainer-slurm."))
    lab = Lab(folder, replace(Settings(), nodes=NODES), VERSIONS[version])
    try:
        lab.start()
        print(
            "| version | nodes per job | jobs | calls | s until all run | s to a main job's start: median, most | others lost |"
        )
        for size in (1, 4, 16):
            measure(lab, size)
    finally:
        lab.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    for name in sys.argv[1:] or ["installed"]:
        main(name)
