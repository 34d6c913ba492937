#!/usr/bin/env python3
"""The main queue does not notice: starts of main jobs on an empty cluster and on one held to the
last node.

    make zero-impact                                       all of it, 20 runs each (two hours)
    python tests/slurm/zero_impact.py --runs 3 --sizes 8   a part of it

A real Slurm of 8 nodes on this machine, with Slurm's own defaults (bf_interval 30, KillWait 30,
GraceTime 30, no preempt_send_user_signal) and as recommended; on each, main jobs come by salloc,
which slurmctld serves at once, so that hardly anything but the hand-over is measured, and by
sbatch, where its own turn of up to a second is most of the wait.

In each run the cluster is held by us four times, once for each way that workers have of dying: they
end on SIGTERM, checkpoint for 3 s in a handler, ignore it, or have setsid children that do. In turn
with that it is empty, twice, and twice every node has a preemptible job of somebody else's: `srun
sleep`, the least that preemption costs. Steps' processes are tracked by cgroup, as on most sites,
if this machine has a freezer of cgroup v1 and we are root; else, or with --tracking linuxproc, by
/proc. Ctrl-C prints what has been measured. With --slurm installed,trixie,sid --rotate versions
take turns.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.impact import FRAMEWORKS, WAYS, WORKERS, Impact, Start
from support.slurm_lab import DEFAULTS, Lab, Settings, missing_cgroups
from support.slurm_versions import INSTALLED, VERSIONS, SlurmVersion

from bftrainer.decide.domain.node_stages import p95

EMPTY, PLAIN, ALL = "", "plain jobs", "all workers"
KINDS = [*WORKERS, *FRAMEWORKS]
TRACKING = {
    "linuxproc": {"proctrack": "linuxproc"},
    "cgroup": {"proctrack": "cgroup"},
    "cgroup2": {"proctrack": "cgroup", "cgroups": "v2"},
}
Starts = dict[tuple[int, str], list[Start]]
SITES = {"defaults": (DEFAULTS, 1.5), "recommended": (Settings(), 0.1)}


def measure(
    options: argparse.Namespace, site: str, by: str, versions: list[SlurmVersion]
) -> list[Starts]:
    """Starts by size and who was there, for each version: :data:`EMPTY`, :data:`PLAIN`, or a kind
    of worker.

    Versions take turns, so that a machine that others use, too, is as busy for one as for the
    other.
    """
    folder = Path(tempfile.mkdtemp(prefix="bftrainer-impact."))
    tracked = replace(
        SITES[site][0], **TRACKING[options.tracking], nodes=max(options.nodes, *options.sizes)
    )
    labs = [Lab(folder / version.name, tracked, version) for version in versions]
    found: list[Starts] = [{} for _ in labs]
    try:
        for lab in labs:
            lab.start()
        impacts = []
        for lab in labs:
            (state := folder / f"{lab.version.name}-holders").mkdir()
            impacts.append(
                Impact(lab, state, by=by, settings={"nodes_per_holder": options.nodes_per_holder})
            )
        for run, size in itertools.product(range(options.runs), options.sizes):
            for impact, starts in zip(impacts, found, strict=True):
                workers = options.workers
                if options.rotate:
                    workers = [workers[run % len(workers)]]
                new = list(_one_run(impact, size, workers, both=options.rotate))
                for who, start in new:
                    starts.setdefault((size, who), []).append(start)
                told = ", ".join(f"{who or 'empty'} {start.took_s:.2f} s" for who, start in new)
                version = impact.lab.version.number
                head = (
                    f"{site} by {by}, Slurm {version}: run {run + 1} of {options.runs}, "
                    f"{size} nodes"
                )
                print(f"{head}: {told}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print(f"{site} by {by}: interrupted", file=sys.stderr)
    finally:
        for lab in labs:
            lab.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return found


def _one_run(
    impact: Impact, size: int, workers: list[str], both: bool
) -> Iterator[tuple[str, Start]]:
    """Alternating, so that the yardsticks are as well known as we are; with ``both`` of them before
    each worker.
    """
    for number, worker in enumerate(workers):
        if both or number % 2 == 0:
            yield EMPTY, impact.start_on_empty(size)
        if both or number % 2 == 1:
            yield PLAIN, impact.start_on_plain(size)
        yield worker, impact.start_on_held(size, worker)


def report(site: str, by: str, target: float, found: Starts) -> None:
    """Print the table."""
    print(
        f"\n{site}: seconds from {by} to the first line of the main job (wanted: difference of "
        f"medians below {target} s)"
    )
    heads = f"{'runs':>5}{'median':>9}{'p95':>9}{'d median':>10}{'d p95':>9}{'notice to nodes':>18}{'CPU':>6}"
    print(f"{'nodes':>5}  {'cluster':<27}{heads}  left, late")
    pooled = dict(found)
    for size in {size for size, _ in found}:
        pooled[size, ALL] = [
            s for (n, who), starts in found.items() if n == size and who in KINDS for s in starts
        ]
    order = [EMPTY, PLAIN, ALL, *KINDS]
    for (size, worker), starts in sorted(
        pooled.items(), key=lambda item: (item[0][0], order.index(item[0][1]))
    ):
        took, base = [s.took_s for s in starts], [s.took_s for s in found[size, EMPTY]]
        median = statistics.median(took)
        after = [
            s.allocated_s - s.notice_s
            for s in starts
            if s.notice_s is not None and s.allocated_s is not None
        ]
        name = f"held, {worker}" if worker not in (EMPTY, PLAIN) else worker or "empty"
        differences = (
            f"{median - statistics.median(base):>+10.2f}{p95(took) - p95(base):>+9.2f}"
            if worker
            else " " * 19
        )
        print(
            f"{size:>5}  {name:<27}{len(took):>5}{median:>9.2f}{p95(took):>9.2f}{differences}"
            + (f"{statistics.median(after):>10.2f}, {p95(after):.2f} p95" if after else " " * 18)
            + f"{statistics.median(s.busy_s for s in starts):>6.2f}  "
            + f"{sum(s.left for s in starts)}, {sum(len(s.late) for s in starts)}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20, help="of each (default 20)")
    parser.add_argument("--sizes", default="1,4,8", help="nodes of the main job (default 1,4,8)")
    parser.add_argument("--nodes", type=int, default=8, help="of the cluster (default 8)")
    parser.add_argument("--sites", default=",".join(SITES), help=f"of {', '.join(SITES)}")
    parser.add_argument(
        "--by", default=",".join(WAYS), help=f"how main jobs are submitted: of {', '.join(WAYS)}"
    )
    kinds = ", ".join(f"{number} {name}" for number, name in enumerate(KINDS))
    parser.add_argument(
        "--workers", default="0,1,2,3", help=f"by number (default 0,1,2,3): {kinds}"
    )
    parser.add_argument(
        "--rotate", action="store_true", help="one kind of worker in each run, in turn"
    )
    tracking = "linuxproc" if missing_cgroups() else "cgroup"
    parser.add_argument(
        "--tracking", choices=[*TRACKING], default=tracking, help=f"here: {tracking}"
    )
    parser.add_argument(
        "--nodes-per-holder", type=int, default=1, help="that share a holder job (default 1)"
    )
    parser.add_argument(
        "--slurm",
        default=INSTALLED.name,
        help=f"versions, in turn: of {', '.join(VERSIONS)} (default {INSTALLED.name})",
    )
    options = parser.parse_args()
    options.workers = [KINDS[int(number)] for number in options.workers.split(",")]
    options.sizes = [int(size) for size in options.sizes.split(",")]
    versions = [VERSIONS[name] for name in options.slurm.split(",")]
    if missing := next(filter(None, (version.missing() for version in versions)), ""):
        print(f"zero impact: {missing}", file=sys.stderr)
        return 2
    for number in (signal.SIGINT, signal.SIGTERM):  # which a job in the background would not hear
        signal.signal(number, signal.default_int_handler)
    begun_s, bad = time.monotonic(), 0
    for site, by in itertools.product(options.sites.split(","), options.by.split(",")):
        for version, found in zip(versions, measure(options, site, by, versions), strict=True):
            name = f"{site} ({options.tracking}, Slurm {version.number})"
            bad += sum(s.left + len(s.late) for starts in found.values() for s in starts)
            report(name, by, SITES[site][1], found)
    print(
        f"\nmeasured in {(time.monotonic() - begun_s) / 60:.0f} min; CPU: seconds of all cores "
        "until the first line; left: "
        "worker processes on the main job's nodes when it ran, late: nodes left after that "
        "(both are to be 0)"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
