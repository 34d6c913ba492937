"""Milliseconds of a pilot's split among users, a third of whom find no idle node: ``python tests/bench/split.py``."""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time

from bftrainer.core.fair_share import ShareMemory, Sharer, split


def took_ms(users: int, nodes: int, polls: int) -> list[float]:
    chance, memory, found = random.Random(0), ShareMemory(), list[float]()
    each = nodes // users
    claims = [
        Sharer(f"u{i}", "p", chance.randint(1, 4 * each), chance.randint(0, each), i % 3 == 0) for i in range(users)
    ]
    idle = [f"n{i}" for i in range(nodes - sum(c.holds for c in claims))]
    for poll in range(polls):
        begun_s = time.perf_counter()
        memory = split(claims[0], 0, claims[1:], idle, math.inf, memory, 10.0 * poll).memory
        found.append(1e3 * (time.perf_counter() - begun_s))
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--polls", type=int, default=200)
    polls = parser.parse_args().polls
    for users, nodes in ((5, 100), (5, 800), (50, 1000), (200, 1000)):
        ms = took_ms(users, nodes, polls)
        print(f"{users} users, {nodes} nodes: median {statistics.median(ms):.2f} ms, worst {max(ms):.2f} ms")
