"""holding_as_user.py STATE SETTINGS NODES: hold these nodes as the user who runs this, until the
file STATE/end is there.

A line of JSON at each change: how many are held, and the reasons of refusals so far.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from bftrainer.cluster.model import FragmentPhase, NodeRequest
from bftrainer.system.clock import SystemClock
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.hold import SlurmHolder


def main(state: Path, settings: SlurmSettings, nodes: list[str]) -> None:
    holder = SlurmHolder(settings, state / "holders", "user", SystemClock(), 60.0, poll_s=1.0)
    shown, reasons = "", set[str]()
    while not (state / "end").exists():
        holder.renew()
        fragments = holder.poll()
        there = {fragment.node for fragment in fragments}
        found = holder.acquire(tuple(NodeRequest(node) for node in nodes if node not in there))
        reasons.update(refusal.reason for refusal in found.refusals)
        held = [fragment.node for fragment in fragments if fragment.phase is FragmentPhase.READY]
        now = json.dumps({"held": len(held), "reasons": sorted(reasons)})
        if now != shown:
            print(now, flush=True)
            shown = now
        time.sleep(0.2)
    holder.release(frozenset(fragment.name for fragment in holder.poll()))


if __name__ == "__main__":
    main(
        Path(sys.argv[1]),
        SlurmSettings.model_validate(json.loads(sys.argv[2])),
        sys.argv[3].split(","),
    )
