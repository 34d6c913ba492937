"""Seeded random allocation problems, for the tests that want a fixed number of them and for the
bench.
"""

from __future__ import annotations

import random
from dataclasses import replace

from bftrainer.decide.allocation.two_costs import with_two_costs
from bftrainer.decide.domain.model import Curve
from bftrainer.decide.domain.problem import Problem, TrainerDemand
from bftrainer.decide.domain.rescaling import Rescaling


def mixed(rng: random.Random) -> Problem:
    """1-12 trainers on 1-60 nodes: every shape of curve, dead zones, maps with and without room,
    some listed sizes.
    """
    pool = rng.randint(1, 60)
    demands = []
    free = pool if rng.random() < 0.8 else 0  # else: nobody holds anything
    full = rng.random() < 0.3  # the map leaves no room
    trainers = rng.randint(1, 12)
    for j in range(trainers):
        largest = rng.randint(1, max(1, rng.choice((4, 16, pool, pool + 8))))
        smallest = rng.choice((1, 1, rng.randint(1, largest)))
        current = min(rng.randint(0, largest), free)
        if not full and rng.random() < 0.4:
            current = 0
        free -= current
        sizes = listed(rng, smallest, largest) if rng.random() < 0.15 else None
        demands.append(
            TrainerDemand(
                f"t{j}",
                curve(rng, smallest, largest),
                smallest,
                largest,
                rng.choice((0.0, rng.uniform(1, 60), rng.uniform(60, 600))),
                rng.choice((0.0, rng.uniform(1, 60))),
                current,
                sizes,
            )
        )
    forward_s = rng.choice((0.0, 10.0, 120.0, 120.0, 3600.0))
    weights = (
        tuple(rng.choice((1.0, rng.uniform(0.01, 2.0))) for _ in demands)
        if rng.random() < 0.3
        else ()
    )
    return Problem(pool, forward_s, tuple(demands), weights)


def overlapping(rng: random.Random) -> Problem:
    """The same, of trainers whose old nodes train on while new ones start: most at rest, some
    stalled, some starting.
    """
    problem = mixed(rng)
    forward_s = max(problem.forward_s, 10.0)
    return replace(
        problem,
        forward_s=forward_s,
        demands=tuple(_overlapping(rng, c, forward_s) for c in problem.demands),
    )


def _overlapping(rng: random.Random, demand: TrainerDemand, forward_s: float) -> TrainerDemand:
    start_s, at_s = rng.choice((0.0, rng.uniform(1, 30), rng.uniform(30, 200))), 1000.0
    up_s, kind = min(demand.scale_up_s, 90.0), rng.random()
    demand = replace(demand, scale_up_s=up_s)
    stalled_s = at_s + rng.choice((0.0, rng.uniform(0, 40)))
    left = None
    if kind < 0.25:
        left = Rescaling(frozenset(), stalled_s, stalled_s)
    elif kind < 0.6 and demand.current and start_s:
        training = frozenset(f"n{i}" for i in range(rng.randint(0, demand.current - 1)))
        switch_s = at_s + rng.uniform(0.0, start_s)
        left = Rescaling(training, stalled_s, max(stalled_s, switch_s + up_s), switch_s)
    return with_two_costs(demand, start_s, left, at_s, forward_s)


def listed(rng: random.Random, smallest: int, largest: int) -> tuple[int, ...]:
    """Powers of two mostly; 0 nearly always among them, as without it a pool is soon too small."""
    powers = [2**i for i in range(12) if smallest <= 2**i <= largest]
    some = (
        powers
        if powers and rng.random() < 0.6
        else sorted({rng.randint(smallest, largest) for _ in range(3)})
    )
    return (0, *some) if rng.random() < 0.9 else tuple(some)


def curve(rng: random.Random, smallest: int, largest: int) -> Curve:
    """Concave, convex, irregular (it may fall) or linear, with 1 to 7 breakpoints that cover
    [smallest, largest].
    """
    first, last = rng.randint(1, smallest), rng.randint(largest, largest + 6)
    nodes = sorted({first, last, *(rng.randint(first, last) for _ in range(rng.randint(0, 5)))})
    unit = 10 ** rng.uniform(0, 4)
    shape = rng.choice(("concave", "convex", "irregular", "linear"))
    power = {"concave": rng.uniform(0.3, 0.99), "convex": rng.uniform(1.1, 2.0)}.get(shape, 1.0)
    noise = {"irregular": 0.6}.get(shape, 0.0)
    return Curve(
        tuple(nodes), tuple(unit * n**power * rng.uniform(1 - noise, 1 + noise) for n in nodes)
    )


def like_table_2(rng: random.Random, trainers: int, pool: int, largest: int = 64) -> Problem:
    """Concave curves, breakpoints at powers of two (1 to 64 nodes as the paper's Table 2 has), a
    random feasible map.
    """
    nodes = tuple(2**i for i in range(largest.bit_length()))
    demands = []
    free = pool
    for j in range(trainers):
        power, unit = rng.uniform(0.6, 0.98), rng.uniform(100, 3000)
        current = min(rng.randint(0, min(largest, max(1, 2 * pool // trainers))), free)
        free -= current
        demands.append(
            TrainerDemand(
                f"t{j}",
                Curve(nodes, tuple(unit * n**power for n in nodes)),
                rng.choice((1, 1, 2, 4)),
                largest,
                rng.uniform(5, 60),
                rng.uniform(5, 30),
                current,
            )
        )
    return Problem(pool, 120.0, tuple(demands))


def small(rng: random.Random, pool: int) -> Problem:
    """1-4 trainers on ``pool`` nodes, without listed sizes: brute force can follow, and 0 is always
    legal.
    """
    demands, free = [], pool
    for j in range(rng.randint(1, 4)):
        largest = rng.randint(1, 9)
        smallest = rng.randint(1, largest)
        current = rng.randint(0, min(largest, free))
        free -= current
        costs = rng.uniform(0, 60), rng.uniform(0, 60)
        demands.append(
            TrainerDemand(
                f"t{j}", curve(rng, smallest, largest), smallest, largest, *costs, current=current
            )
        )
    return Problem(pool, 120.0, tuple(demands))
