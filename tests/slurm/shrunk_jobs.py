#!/usr/bin/env python3
"""How long jobs wait for a node that a running job has released, on a real Slurm.

    python tests/slurm/shrunk_jobs.py
    python tests/slurm/shrunk_jobs.py --slurm trixie

A job has all four nodes and is shrunk to three (scontrol update ReqNodeList). Before that, and after
that, three jobs run on the fourth node, one after the other. No pilot is involved. The table has the
seconds from each submission to the start. This is the reason why holders release all of their nodes
or none (slurm/several_nodes.py).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measuring import cluster
from support.slurm_lab import Lab, Settings, wait_until
from support.slurm_versions import VERSIONS

JOBS = 3
NODES = 4
EPILOG = "#!/bin/sh\nsleep 1.5\n"
WAIT_S = 300.0
STEP = (
    """srun --overlap --wait=0 bash -c '[[ $SLURMD_NODENAME != node04 ]] && sleep 900; sleep 2'"""
)


def starts(lab: Lab) -> list[float]:
    """Run jobs on the fourth node, one after the other; return the seconds until each has
    started.
    """
    delays = []
    for _ in range(JOBS):
        began_s = time.monotonic()
        job = lab.submit("sleep 0.5", "-p", "main", "-N1", "-w", "node04", "-t", "5")
        wait_until(lambda job=job: not is_pending(lab, job), "the job to start", WAIT_S, 0.2)
        delays.append(time.monotonic() - began_s)
        wait_until(lambda job=job: not lab.run("squeue", "-h", "-j", job), "its end", 30, 0.2)
    return delays


def is_pending(lab: Lab, job: str) -> bool:
    return lab.run("squeue", "-h", "-t", "all", "-j", job, "-o", "%T").strip() == "PENDING"


def shrunk(lab: Lab) -> None:
    """Give all nodes to a job, and shrink it to the first three."""
    nodes = ",".join(lab.node_names)
    options = ("-p", "scavenge", f"-N{NODES}", f"-n{NODES}", "-w", nodes, "-t", "30")
    job = lab.submit(STEP, *options)
    wait_until(lambda: not is_pending(lab, job), "the job to start", 30, 0.2)
    time.sleep(4.0)  # its process on the fourth node has ended
    lab.run("scontrol", "update", f"JobId={job}", f"ReqNodeList={','.join(lab.node_names[:3])}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--slurm", default="installed", choices=[*VERSIONS])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bftrainer-epilog-") as folder:
        epilog = Path(folder) / "epilog"
        epilog.write_text(EPILOG)
        epilog.chmod(0o755)
        Path(folder).chmod(0o755)
        with cluster(replace(Settings(NODES), epilog=str(epilog)), options.slurm) as lab:
            print(f"Slurm {lab.version.number}: before", *(f"{s:.1f}" for s in starts(lab)))
            shrunk(lab)
            print(f"Slurm {lab.version.number}: after", *(f"{s:.1f}" for s in starts(lab)))


if __name__ == "__main__":
    main()
