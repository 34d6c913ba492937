"""Main-queue jobs beside held parts of nodes: where they land, how long they take to start, what
CPU-only jobs preempt.

    PYTHONPATH=tests python tests/slurm/parts.py [--slurm installed,trixie,sid] [--what
    landing,delay] [--by partition,qos]

As root: GPUs are device files. A cluster of 4 nodes with 8 GPUs, 16 cores and 64 GB. The pilot is
the part that holds nodes, with trainers that would use any number of GPUs; its workers are steps
that sleep. Times run from before sbatch to the job's first line. ``--without-rule`` holds parts
whatever idle nodes there are: the landing has to be worse then.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys

from support.shared_nodes import WAYS, beside, cluster, delays, landing
from support.slurm_versions import VERSIONS

from bftrainer.pilot.nodes import decisions


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--slurm", default="installed", help=f"of {', '.join(VERSIONS)} (default installed)"
    )
    parser.add_argument(
        "--what", default="landing,delay,beside", help="of landing, delay, beside (default: all)"
    )
    parser.add_argument(
        "--by", default="partition", help="how holders are preempted: partition (default), qos"
    )
    parser.add_argument("--runs", type=int, default=20, help="of the delay (default 20)")
    parser.add_argument("--without-rule", action="store_true")
    options = parser.parse_args()
    if options.without_rule:
        decisions.barred_partitions = lambda order, kept: frozenset()
        decisions.parts_to_end = lambda order, seen, kept, used: []
    bad = 0
    for version, way in itertools.product(options.slurm.split(","), options.by.split(",")):
        settings, table = WAYS[way]
        with cluster(version, settings) as lab:
            print(f"Slurm {VERSIONS[version].number}, by {way}", flush=True)
            if "landing" in options.what:
                wrong = landing(lab, table, (("node01", "node03"), ("node03", "node01")))
                print(f"  landing: {len(wrong)} wrong {wrong}", flush=True)
                bad += len(wrong)
            if "beside" in options.what:
                took_s, same = beside(lab, table)
                kept = "kept" if same else "LOST"
                print(
                    f"  CPU-only job beside a part: {took_s:.2f} s, the part is {kept}", flush=True
                )
                bad += not same
            for name, took in (
                delays(lab, table, options.runs).items() if "delay" in options.what else ()
            ):
                median_s = statistics.median(took)
                print(
                    f"  {name}: n {len(took)}, median {median_s:.2f} s, worst {max(took):.2f} s",
                    flush=True,
                )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
