#!/usr/bin/env python3
"""The main queue does not notice: starts of main jobs on an empty cluster and on one held to the last node.

    make zero-impact                                       all of it, 20 runs each (two hours)
    python tests/slurm/zero_impact.py --runs 3 --sizes 8   a part of it

A real Slurm of 8 nodes on this machine, with Slurm's own defaults (bf_interval 30, KillWait 30, GraceTime 30, no
preempt_send_user_signal) and as recommended; on each, main jobs come by salloc, which slurmctld serves at once, so that hardly
anything but the hand-over is measured, and by sbatch, where its own turn of up to a second is most of the wait.

In each run the cluster is held by us four times, once for each way that workers have of dying: they end on SIGTERM, checkpoint
for 3 s in a handler, ignore it, or have setsid children that do. In turn with that it is empty, twice, and twice every node has
a preemptible job of somebody else's: `srun sleep`, the least that preemption costs. Steps' processes are tracked by cgroup, as
on most sites, if this machine has a freezer of cgroup v1 and we are root; else, or with --tracking linuxproc, by /proc. Ctrl-C
prints what has been measured.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import signal
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from impact import WAYS, WORKERS, Impact, Start
from slurm_lab import DEFAULTS, Lab, Settings, missing_cgroups
from slurm_versions import INSTALLED, VERSIONS, SlurmVersion

EMPTY, PLAIN, ALL = "", "plain jobs", "all workers"
SITES = {"defaults": (DEFAULTS, 1.5), "recommended": (Settings(), 0.1)}


def p95(values: list[float]) -> float:
    """Nearest rank."""
    ordered = sorted(values)
    return ordered[max(0, -(-95 * len(ordered) // 100) - 1)]


def measure(
    site: str, tracking: str, by: str, sizes: list[int], workers: list[str], runs: int, version: SlurmVersion
) -> dict[tuple[int, str], list[Start]]:
    """Starts by size and who was there: :data:`EMPTY`, :data:`PLAIN`, or a kind of worker."""
    folder = Path(tempfile.mkdtemp(prefix="bftrainer-impact."))
    lab = Lab(folder / "slurm", replace(SITES[site][0], proctrack=tracking), version)
    found: dict[tuple[int, str], list[Start]] = {}
    try:
        lab.start()
        impact = Impact(lab, folder, by=by)
        for run in range(runs):
            for size in sizes:
                starts = []
                for number, worker in enumerate(workers):  # alternating, and the yardsticks are as well known as we are
                    if number % 2 == 0:
                        starts.append((EMPTY, impact.start_on_empty(size)))
                    else:
                        starts.append((PLAIN, impact.start_on_plain(size)))
                    starts.append((worker, impact.start_on_held(size, worker)))
                for who, start in starts:
                    found.setdefault((size, who), []).append(start)
                told = ", ".join(f"{who or 'empty'} {start.took_s:.2f} s" for who, start in starts)
                print(f"{site} by {by}: run {run + 1} of {runs}, {size} nodes: {told}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print(f"{site} by {by}: interrupted", file=sys.stderr)
    finally:
        lab.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return found


def report(site: str, by: str, target: float, found: dict[tuple[int, str], list[Start]]) -> list[dict[str, object]]:
    """Print the table; its rows."""
    print(
        f"\n{site}: seconds from {by} to the first line of the main job (wanted: difference of medians below {target} s)"
    )
    heads = f"{'runs':>5}{'median':>9}{'p95':>9}{'d median':>10}{'d p95':>9}{'notice to nodes':>18}{'CPU':>6}"
    print(f"{'nodes':>5}  {'cluster':<27}{heads}  left, late")
    rows = []
    pooled = dict(found)
    for size in {size for size, _ in found}:
        ours = [start for (n, who), starts in found.items() if n == size and who in WORKERS for start in starts]
        pooled[size, ALL] = ours
    order = [EMPTY, PLAIN, ALL, *WORKERS]
    for (size, worker), starts in sorted(pooled.items(), key=lambda item: (item[0][0], order.index(item[0][1]))):
        took, base = [s.took_s for s in starts], [s.took_s for s in found[size, ""]]
        after = [s.allocated_s - s.notice_s for s in starts if s.notice_s is not None]
        row = {
            "site": site, "by": by,
            "nodes": size, "worker": worker or None, "runs": len(took), "median_s": statistics.median(took),
            "p95_s": p95(took), "median_difference_s": statistics.median(took) - statistics.median(base),
            "p95_difference_s": p95(took) - p95(base), "left": sum(s.left for s in starts),
            "late": sum(len(s.late) for s in starts),
            "notice_to_nodes_s": after, "busy_s": statistics.median(s.busy_s for s in starts),
        }  # fmt: skip
        rows.append(row)
        name = f"held, {worker}" if worker not in (EMPTY, PLAIN) else worker or "empty"
        differences = f"{row['median_difference_s']:>+10.2f}{row['p95_difference_s']:>+9.2f}" if worker else " " * 19
        print(
            f"{size:>5}  {name:<27}{row['runs']:>5}{row['median_s']:>9.2f}{row['p95_s']:>9.2f}{differences}"
            + (f"{statistics.median(after):>10.2f}, {p95(after):.2f} p95" if after else " " * 18)
            + f"{row['busy_s']:>6.2f}  {row['left']}, {row['late']}"
        )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20, help="of each (default 20)")
    parser.add_argument("--sizes", default="1,4,8", help="nodes of the main job (default 1,4,8)")
    parser.add_argument("--sites", default=",".join(SITES), help=f"of {', '.join(SITES)}")
    parser.add_argument("--by", default=",".join(WAYS), help=f"how main jobs are submitted: of {', '.join(WAYS)}")
    parser.add_argument("--workers", default="0,1,2,3", help=f"by number: {', '.join(WORKERS)}")
    tracking = "linuxproc" if missing_cgroups() else "cgroup"
    parser.add_argument("--tracking", choices=["cgroup", "linuxproc"], default=tracking, help=f"here: {tracking}")
    parser.add_argument("--json", type=Path, help="write every single start there, too")
    parser.add_argument(
        "--slurm", choices=[*VERSIONS], default=INSTALLED.name, help=f"version (default {INSTALLED.name})"
    )
    options = parser.parse_args()
    version = VERSIONS[options.slurm]
    if missing := version.missing():
        print(f"zero impact: {missing}", file=sys.stderr)
        return 2
    workers = [list(WORKERS)[int(number)] for number in options.workers.split(",")]
    for number in (signal.SIGINT, signal.SIGTERM):  # which a job in the background would not hear
        signal.signal(number, signal.default_int_handler)
    rows, begun_s, bad = [], time.monotonic(), 0
    single = []
    sizes = [int(size) for size in options.sizes.split(",")]
    for site, by in itertools.product(options.sites.split(","), options.by.split(",")):
        found = measure(site, options.tracking, by, sizes, workers, options.runs, version)
        rows += report(f"{site} ({options.tracking}, Slurm {version.number})", by, SITES[site][1], found)
        bad += sum(s.left + len(s.late) for starts in found.values() for s in starts)
        single += [
            {
                "site": site,
                "slurm": version.number,
                "tracking": options.tracking,
                "by": by,
                "nodes": size,
                "worker": worker or None,
                "took_s": s.took_s,
                "notice_s": s.notice_s,
                "allocated_s": s.allocated_s,
                "busy_s": s.busy_s,
            }
            for (size, worker), starts in found.items()
            for s in starts
        ]
    print(
        f"\nmeasured in {(time.monotonic() - begun_s) / 60:.0f} min; CPU: seconds of all cores until the first line; left: "
        "worker processes on the main job's nodes when it ran, late: nodes left after that (both are to be 0)"
    )
    if options.json:
        options.json.write_text(json.dumps({"rows": rows, "starts": single}, indent=1))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
