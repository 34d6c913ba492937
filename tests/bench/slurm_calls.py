"""Calls to slurmctld by a pilot at rest that holds 8 nodes, by kind, as sdiag counts them; with and without 492 further nodes.

Run with another version's Python (``DIR/.venv/bin/python tests/bench/slurm_calls.py``), it measures that version.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import socket
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from slurm_lab import Lab, Settings, wait_until
from slurm_versions import VERSIONS

from bftrainer.config.pilot import PilotConfig
from bftrainer.domain.cluster import FragmentPhase, NodeRequest
from bftrainer.live.site import build_site
from bftrainer.system.clock import SystemClock

SECONDS, POLL_S = 180.0, 10.0
OTHERS = ("STATS_INFO_RESET", "NODE_REGISTRATION", "COMPLETE", "EPILOG")


def calls(lab: Lab) -> dict[str, tuple[int, int]]:
    """Count and microseconds of each kind since the statistics were reset, but for slurmd's own."""
    text = lab.run("sdiag").partition("by message type")[2].partition("by user")[0]
    found = re.findall(
        r"^\s+(?:REQUEST_|MESSAGE_)(\w+)\s+\(\s*\d+\) count:(\d+)\s+ave_time:\d+\s+total_time:(\d+)", text, re.MULTILINE
    )
    return {kind: (int(count), int(us)) for kind, count, us in found if not any(other in kind for other in OTHERS)}


def at_rest(version: str, further: int) -> None:
    far = (
        f"NodeName=far[001-{further}] NodeHostname={socket.gethostname().split('.')[0]} NodeAddr=127.0.0.1 "
        f"Port=[40001-{40000 + further}] CPUs=2 RealMemory=2000 State=DOWN\nPartitionName=far Nodes=far[001-{further}]"
    )
    folder = Path(tempfile.mkdtemp(prefix="bftrainer-slurm."))
    lab = Lab(folder, replace(Settings(), more=far if further else ""), VERSIONS[version])
    try:
        lab.start()
        os.environ.update(lab.env)
        config = PilotConfig.model_validate({"nodes": {"holder": "slurm"}, "slurm": {"partition": "scavenge"}})
        state = folder / "state"
        state.mkdir(mode=0o700)
        site = build_site(config, state, SystemClock())
        site.scheduler.observe()
        site.holder.poll()
        site.holder.acquire(tuple(NodeRequest(name) for name in lab.node_names))

        def held() -> bool:
            site.holder.renew()
            return [f.phase for f in site.holder.poll()].count(FragmentPhase.READY) == len(lab.node_names)

        wait_until(held, "holders")
        began = time.monotonic()
        while time.monotonic() - began < 30.0:  # until they are at rest
            held()
            time.sleep(0.2)
        lab.run("sdiag", "-r")
        began, looks = time.monotonic(), 0
        while (passed := time.monotonic() - began) < SECONDS:
            if passed >= looks * POLL_S:
                site.scheduler.observe()
                looks += 1
            held()
            time.sleep(0.2)
        found = calls(lab)
        minutes = SECONDS / 60
        kinds = "; ".join(f"{kind} {n / minutes:.1f} ({us / n:.0f} us)" for kind, (n, us) in sorted(found.items()))
        count, spent_us = (sum(pair[i] for pair in found.values()) / minutes for i in (0, 1))
        print(f"| {lab.version.number} | {8 + further} | {kinds} | {count:.1f} | {spent_us / 1e3:.1f} ms |", flush=True)
        site.holder.release(frozenset(f.name for f in site.holder.poll()))
    finally:
        lab.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="*", choices=VERSIONS, metavar="VERSION")
    for name in parser.parse_args().versions or ["installed"]:
        for more in (0, 492):
            at_rest(name, more)
