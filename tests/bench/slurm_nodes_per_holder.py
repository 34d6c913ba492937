"""Holders of 1, 4 and 8 nodes on a live cluster of 8: ``python tests/bench/slurm_nodes_per_holder.py [trixie|sid ...]``.

In each of ROUNDS rounds, for each size: seconds until all nodes are held, and calls to slurmctld by kind (sdiag); then main
jobs of 1 node by salloc, and of 8 by sbatch: seconds until they run, and how many other nodes are lost with the one of the
first.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from clusters_under_test import RealSlurm
from slurm_lab import Lab, Settings, wait_until
from slurm_versions import VERSIONS

from bftrainer.domain.cluster import FragmentPhase, NodeRequest

SIZES, ROUNDS = (1, 4, 8), 5
KINDS = {"sbatch": "SUBMIT_BATCH_JOB", "steps": "JOB_STEP_CREATE", "ends of steps": "STEP_COMPLETE"}


@dataclass
class Measured:
    held_s: list[float] = field(default_factory=list)
    calls: list[Counter[str]] = field(default_factory=list)
    one_s: list[float] = field(default_factory=list)
    all_s: list[float] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)

    def row(self) -> str:
        kinds = ", ".join(f"{statistics.median(calls[kind] for calls in self.calls):g}" for kind in KINDS)
        starts = " | ".join(f"{statistics.median(s):.2f}, {max(s):.2f}" for s in (self.one_s, self.all_s))
        return f"{kinds} | {statistics.median(self.held_s):.2f} | {starts} | {max(self.lost)}"


def calls(lab: Lab) -> Counter[str]:
    text = lab.run("sdiag").partition("by message type")[2].partition("by user")[0]
    found = dict(re.findall(r"REQUEST_(\w+)\s+\(\s*\d+\) count:(\d+)", text))
    return Counter({kind: int(found.get(name, 0)) for kind, name in KINDS.items()})


def measure(lab: Lab, folder: Path, size: int, into: Measured) -> None:
    cluster = RealSlurm(lab, folder, nodes_per_holder=size)
    for job in ("one", "all"):
        holder = cluster.holder()
        wait_until(lambda holder=holder: holder.poll() == (), "the list of holders")
        before, began = calls(lab), time.monotonic()

        def held(holder=holder) -> bool:  # type: ignore[no-untyped-def]
            fragments = holder.poll()
            if missing := set(cluster.nodes) - {fragment.node for fragment in fragments}:
                holder.acquire(tuple(NodeRequest(node) for node in sorted(missing)))
            return not missing and {fragment.phase for fragment in fragments} == {FragmentPhase.READY}

        wait_until(held, "all nodes", 90)
        if job == "one":
            into.held_s.append(time.monotonic() - began)
        time.sleep(1.0)
        began_s = time.time()
        if job == "one":
            argv = ["salloc", "-p", "main", "-N1", "-w", cluster.nodes[-1], "-t", "2", "srun", "-n1", "date", "+%s.%N"]
            done = subprocess.run(argv, env=lab.environ(), capture_output=True, text=True, check=True, timeout=60)
            into.one_s.append(float(done.stdout) - began_s)
        else:
            out = lab.root / "log" / f"job-{lab.submit('date +%s.%N', '-p', 'main', '-N8', '-t', '2')}.out"
            wait_until(lambda out=out: out.exists() and out.read_text().strip(), "the main job's output")
            into.all_s.append(float(out.read_text().split()[0]) - began_s)
        time.sleep(1.5)
        if job == "one":
            into.lost.append(7 - sum(f.phase is FragmentPhase.READY for f in holder.poll()))
        holder.release(frozenset(fragment.name for fragment in holder.poll()))
        wait_until(lambda holder=holder: not holder.poll(), "holders to end", 60)
        if job == "one":
            into.calls.append(calls(lab) - before)
        lab.wait_idle()


def main(version: str) -> None:
    folder = Path(tempfile.mkdtemp(prefix="bftrainer-slurm."))
    lab = Lab(folder / "slurm", Settings(), VERSIONS[version])
    results = {size: Measured() for size in SIZES}
    try:
        lab.start()
        for _ in range(ROUNDS):
            for size in SIZES:
                measure(lab, folder, size, results[size])
        for size, result in results.items():
            print(f"| {lab.version.number} | {size} | {result.row()} |", flush=True)
    finally:
        lab.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="*", choices=VERSIONS, metavar="VERSION")
    versions = parser.parse_args().versions or ["installed"]
    print(
        f"| version | nodes per holder | {', '.join(KINDS)} | s until 8 are held | s to a main job of 1 node: median, most "
        "| of 8 nodes | other nodes lost |"
    )
    for name in versions:
        main(name)
