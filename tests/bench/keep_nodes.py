"""Holder jobs of the Summit week if a node that trainers leave were kept for some seconds, and what would be held for nobody.

    python tests/bench/keep_nodes.py [NODES] [SECONDS BETWEEN TRAINERS]

A replay says how many nodes trainers use after each decision. A node that they stop using is kept for a while, unless the main
queue takes it; one that they need beyond those is a holder job.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bftrainer.allocation.exact import Exact
from bftrainer.api import PolicySettings, build_policy, find_objective
from bftrainer_replay.api import Scenario, cut, diverse, open_log, play, submissions

SUMMIT = "summit-2021-02/summit-2021-02-events.csv.gz"
START_S = 1612988475.0  # 2021-02-10 20:21:15, the beginning of the paper's week
HOURS = 168.0
KEPT_S = (0.0, 5.0, 10.0, 30.0)


def replayed(rows: Sequence[tuple[float, int, int]], keep_s: float) -> tuple[int, float]:
    """Holder jobs and node-seconds held for nobody, of (time, pool, used). Idle nodes are taken last."""
    jobs, idle_s, used, kept = 0, 0.0, 0, list[float]()
    last_s = rows[0][0]
    for at_s, pool, now in rows:
        idle_s += sum(min(at_s, until_s) - last_s for until_s in kept)
        kept = [until_s for until_s in kept if until_s > at_s]
        again = min(max(now - used, 0), len(kept))
        jobs += max(now - used, 0) - again
        kept = kept[again:] + [at_s + keep_s] * (max(used - now, 0) if keep_s else 0)
        kept = kept[: max(pool - now, 0)]
        used, last_s = now, at_s
    return jobs, idle_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nodes", type=int, nargs="?", default=64, metavar="NODES")
    parser.add_argument("spacing_s", type=float, nargs="?", default=300.0, metavar="SECONDS", help="between trainers")
    nodes, spacing_s = vars(parser.parse_args()).values()
    data = Path(os.environ.get("BFTRAINER_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")
    if not (data / SUMMIT).exists():
        sys.exit(f"no Summit log in {data}; BFTRAINER_DATA names the folder")
    whole = open_log(data / SUMMIT).log
    order = (data / "summit-2021-02/summit-nodes-in-column-order.txt").read_text().split()
    window = cut(whole, start_s=START_S, end_s=START_S + HOURS * 3600.0, nodes=order[:nodes])
    count = int(HOURS * 3600.0 / spacing_s)
    arrivals = diverse(submissions(window.start_s, count=count, spacing_s=spacing_s), seed=1)
    arrivals = tuple(
        replace(a, trainer=replace(a.trainer, samples_total=(a.trainer.samples_total or 1e6) / 500)) for a in arrivals
    )
    policy = build_policy("bftrainer", PolicySettings(Exact(), find_objective("throughput")))
    rows = [
        (r.at_s, r.pool_nodes, r.used_nodes) for r in play(Scenario(window, arrivals, max_parallel=35), policy).entries
    ]
    busy_s = sum(used * (then - at_s) for (at_s, _, used), (then, _, _) in itertools.pairwise(rows))
    pool_s = sum(pool * (then - at_s) for (at_s, pool, _), (then, _, _) in itertools.pairwise(rows))
    print(
        f"{nodes} nodes, {HOURS:g} h, {count} trainers, one every {spacing_s:g} s; {100 * busy_s / pool_s:.0f} % used"
    )
    print("| kept for, s | jobs submitted | node-hours held for nobody |")
    for keep_s in KEPT_S:
        jobs, idle_s = replayed(rows, keep_s)
        print(f"| {keep_s:g} | {jobs:,} | {idle_s / 3600:,.1f} |", flush=True)


if __name__ == "__main__":
    main()
