#!/usr/bin/env python3
"""Pilots of many ordinary users on one Slurm; the first submits 100 times as much. As root.

    python tests/slurm/twenty_users.py --users 20 --nodes 40 --minutes 60

Main jobs of a quarter, half or all of the nodes last 45 s, one every four minutes or so. Printed
are the worst user's node-seconds over an equal split of the nodes that main jobs left, and over
what whole nodes allow; and the calls to slurmctld.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from conftest import started
from slurm.test_many_users import broker, held, house, pilot
from support.ordinary_user import restart_uncovered
from support.slurm_lab import Lab, Settings
from support.slurm_user import NAME, lab_user
from support.slurm_versions import VERSIONS

WARM_S, STEP_S = 120.0, 2.0


def calls(lab: Lab) -> int:
    """Of ordinary users so far."""
    rows = re.findall(r"\(\s*(\d+)\) count:(\d+)", lab.run("sdiag").partition("by user")[2])
    return sum(int(count) for uid, count in rows if uid != "0")


def measure(lab: Lab, names: list[str], minutes: float) -> None:
    chance, nodes = random.Random(0), lab.settings.nodes
    has, split, whole = Counter[str](), 0.0, 0.0
    time.sleep(WARM_S)
    before, begun_s, at_rest = calls(lab), time.monotonic(), 0.0
    last_s, main_s = begun_s, begun_s + 60
    while last_s - begun_s < 60 * minutes:
        time.sleep(STEP_S)
        taken = sum(map(int, lab.run("squeue", "-h", "-t", "R", "-p", "main", "-o", "%D").split()))
        now, passed_s = held(lab), time.monotonic() - last_s
        last_s += passed_s
        for name in names:
            has[name] += now[name] * passed_s
        split += (nodes - taken) / len(names) * passed_s
        whole += (nodes - taken) // len(names) * passed_s
        if last_s >= main_s:
            at_rest = at_rest or 60 * (calls(lab) - before) / (last_s - begun_s)
            size = chance.choice((nodes // 4, nodes // 2, nodes))
            lab.submit("sleep 45", "-p", "main", f"-N{size}", "-t", "5")
            main_s = last_s + chance.uniform(200, 300)
    parts = sorted(has[name] for name in names)
    print(
        f"of the equal split: worst {parts[0] / split:.3f}, best {parts[-1] / split:.3f}, of "
        "whole nodes: worst",
        end=" ",
    )
    per_minute = 60 * (calls(lab) - before) / (last_s - begun_s)
    print(
        f"{parts[0] / whole:.3f}; {per_minute:.0f} calls a minute, {at_rest:.0f} before the "
        "first main job"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--users", type=int, default=20)
    parser.add_argument("--nodes", type=int, default=40)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--slurm", choices=VERSIONS, default="installed")
    parser.add_argument("--poll", type=float, default=10.0, help="times.poll_s (default 10)")
    parser.add_argument("--broker", action="store_true", help="one process polls for all")
    options = parser.parse_args()
    restart_uncovered()
    settings = Settings(nodes=options.nodes, service=-(-options.users // 2))
    for lab in started(settings, VERSIONS[options.slurm]):
        with ExitStack() as stack:
            users = [
                stack.enter_context(lab_user(lab, name=f"{NAME}-{n}")) for n in range(options.users)
            ]
            its = {}
            if options.broker:
                its = stack.enter_context(
                    broker(stack.enter_context(lab_user(lab, name=f"{NAME}-b")))
                )
            for n, user in enumerate(users):
                house(user, 1 if n else 100, 8, options.poll, **its)
            for user in users:
                pilot(user)
            measure(lab, [user.name for user in users], options.minutes)


if __name__ == "__main__":
    main()
