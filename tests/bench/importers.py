"""A million jobs of sacct in under a minute and 2 GB: generate such a log, import it in a process
of its own, measure.

    python tests/bench/importers.py [JOBS] [--swf | --shared]

``--shared`` generates jobs of one core on shared nodes, with all columns of the documented command,
as a computing center of physics has 44 million of a year.

Ends with status 1 where either bound is broken. The time that counts is the processor's: the import
is one thread, so that is what it takes on a machine with a core to spare.
"""

from __future__ import annotations

import argparse
import heapq
import random
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from bftrainer_replay.logs.slurm_columns import SACCT_COLUMNS

SECONDS, MEGABYTES = 60.0, 2048.0
ZONE = ZoneInfo("America/Chicago")  # clocks go forward and back in the log
HEADER = "JobID|JobName|Partition|Submit|Eligible|Start|End|ElapsedRaw|NNodes|NodeList|State\n"
# (lanes, nodes a lane): each lane runs jobs one after the other with gaps; 5,120 nodes, 3.7 nodes a
# job on average.
LANES = ((1024, 1), (256, 4), (96, 16), (16, 96))
IMPORT = """
import resource, sys, time
from pathlib import Path
from bftrainer_replay.logs.open import open_log
from bftrainer_replay.logs.source import ImportOptions
began = time.perf_counter()
opened = open_log(Path(sys.argv[1]), ImportOptions(timezone=sys.argv[2], max_bytes=1 << 36))
took, used = time.perf_counter() - began, time.process_time()
for line in (*opened.totals, *opened.remarks):
    print("  " + line)
print(f"  {len(opened.log.events):,} events")
print(took, used, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def generate(path: Path, jobs: int) -> None:
    """A year-like sacct dump; the node lists are ranges, lists and single names as Slurm
    abbreviates them.
    """
    draw = random.Random(1)
    lanes = [(size, number) for count, size in LANES for number in range(count)]
    first, names = 1, []
    for size, _ in lanes:
        numbers = list(range(first, first + size))
        first += size
        if size == 1:
            names.append(f"cn{numbers[0]:05d}")
        else:
            half = size // 2
            names.append(
                f"cn[{numbers[0]:05d}-{numbers[half - 1]:05d},{numbers[half]:05d}-{numbers[-1]:05d}]"
            )
    clock = [1690000000 + draw.randrange(86400) for _ in lanes]
    hours: dict[int, str] = {}

    def stamp(at_s: int) -> str:
        hour = at_s // 3600
        if hour not in hours:
            hours[hour] = datetime.fromtimestamp(3600 * hour, ZONE).strftime("%Y-%m-%dT%H")
        return f"{hours[hour]}:{at_s // 60 % 60:02d}:{at_s % 60:02d}"

    with path.open("w", encoding="utf-8") as out:
        out.write(HEADER)
        for job in range(1, jobs + 1):
            lane = draw.randrange(len(lanes))
            start = clock[lane] + (0 if draw.random() < 0.3 else int(draw.expovariate(1 / 900)))
            end = start + 30 + int(draw.expovariate(1 / 28800))
            clock[lane] = end
            submit = start - int(draw.expovariate(1 / 3600))
            state = "COMPLETED" if draw.random() < 0.9 else "TIMEOUT"
            out.write(
                f"{job}|run|batch|{stamp(submit)}|{stamp(submit)}|{stamp(start)}|{stamp(end)}|{end - start}|"
                f"{lanes[lane][0]}|{names[lane]}|{state}\n"
            )


def generate_shared(path: Path, jobs: int) -> None:
    """Jobs of one core on 1,200 nodes of 40, in order of their starts, with all columns of the
    documented command.
    """
    draw = random.Random(1)
    free = [(1690000000 + draw.randrange(86400), lane) for lane in range(48_000)]
    heapq.heapify(free)

    def stamp(at_s: int) -> str:
        return f"{days[at_s // 86400]}{at_s // 3600 % 24:02d}:{at_s // 60 % 60:02d}:{at_s % 60:02d}"

    days = {
        day: f"{datetime.fromtimestamp(86400 * day, UTC):%Y-%m-%dT}"
        for day in range(19_000, 24_000)
    }
    with path.open("w", encoding="utf-8") as out:
        out.write(SACCT_COLUMNS.replace(",", "|") + "\n")
        for job in range(1, jobs + 1):
            ended, lane = free[0]
            start = ended + int(draw.random() * 200)
            end = start + 30 + int(draw.expovariate(1 / 34_000))
            heapq.heapreplace(free, (end, lane))
            submit = start - int(draw.expovariate(1 / 3600))
            group = lane % 37
            eligible = submit + (60 if group == 5 else 0)
            out.write(
                f"{job}|c|u{group}|g{group}|{stamp(submit)}|{stamp(eligible)}|{stamp(start)}|{stamp(end)}|{end - start}|"
                f"{1440 * (1 + group % 7)}|1|wn{lane // 40:04d}|COMPLETED|{'htc' if group % 3 else 'long'}|q{group % 4}|None|"
                "billing=1,cpu=1,mem=3G,node=1|billing=1,cpu=1,mem=3G,node=1|(null)|SchedMain\n"
            )


def generate_swf(path: Path, jobs: int) -> None:
    """Jobs without node names on 24,515 processors, which count as nodes: most are small, a few
    take a third of them.
    """
    draw = random.Random(1)
    nodes, at_s, running = 24_515, 0, list[tuple[int, int]]()
    free = nodes
    with path.open("w", encoding="utf-8") as out:
        out.write(f"; UnixStartTime: 1400000000\n; MaxProcs: {nodes}\n; MaxNodes: {nodes}\n")
        for job in range(1, jobs + 1):
            asked = min(int(draw.paretovariate(0.9)), nodes // 3)
            submit = at_s = at_s + int(draw.expovariate(1 / 60))
            while free < asked or (running and running[0][0] <= at_s):
                end, back = heapq.heappop(running)
                at_s, free = max(at_s, end), free + back
            run = 10 + int(draw.expovariate(1 / 6000))
            heapq.heappush(running, (at_s + run, asked))
            free -= asked
            out.write(
                f"{job} {submit} {at_s - submit} {run} {asked} -1 -1 {asked} 86400 -1 1 1 1 -1 "
                "1 -1 -1 -1\n"
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("jobs", type=int, nargs="?", default=1_000_000, metavar="JOBS")
    parser.add_argument(
        "--swf", action="store_true", help="SWF without node names, 188,041 jobs by default"
    )
    parser.add_argument("--shared", action="store_true", help="jobs of one core on shared nodes")
    chosen = parser.parse_args()
    make = generate_swf if chosen.swf else generate_shared if chosen.shared else generate
    jobs = 188_041 if chosen.swf and chosen.jobs == 1_000_000 else chosen.jobs
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        began = time.perf_counter()
        make(path, jobs)
        size = path.stat().st_size / 1e6
        print(f"generated {jobs:,} jobs, {size:,.0f} MB, in {time.perf_counter() - began:.1f} s")
        run = subprocess.run(
            [sys.executable, "-c", IMPORT, str(path), "UTC" if chosen.shared else ZONE.key],
            capture_output=True,
            text=True,
            timeout=3600,
        )
    if run.returncode:
        print(run.stderr)
        return 1
    *told, last = run.stdout.splitlines()
    took, used, megabytes = (float(text) for text in last.split())
    print("\n".join(told))
    print(
        f"imported in {took:.1f} s, {used:.1f} s of them on a core ({jobs / used:,.0f} "
        f"jobs/s); {megabytes:,.0f} MB at most"
    )
    seconds = SECONDS * max(jobs / 4_400_000, 1)  # ten minutes for 44 million
    if used > seconds or megabytes > MEGABYTES:
        print(f"too slow or too large: the bounds are {seconds:g} s and {MEGABYTES:g} MB")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
