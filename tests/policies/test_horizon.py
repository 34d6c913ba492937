"""ModelArts' model with one binary per (i, t, k) has the optimum of the paper's literal delta form
(4.4).
"""

from __future__ import annotations

import math
import random

import highspy
import numpy as np
import pytest

from bftrainer.decide.allocation import highs
from bftrainer.decide.allocation.milp import ConstraintRows
from bftrainer_papers.policies.horizon import HorizonJob, solve

P_H = 5 / 60


def literal(demands: list[float], sizes: list[tuple[int, ...]], nodes: int, steps: int) -> float:
    """Section 4.4 as printed: n integer, s in node-hours, delta- and delta+ with big M, Eqns 2, 5,
    6, 15-20.
    """
    model = ConstraintRows(native_sos=False)
    used: list[list[tuple[int, float]]] = [[] for _ in range(steps)]
    inf = float("inf")
    for demand, legal in zip(demands, sizes, strict=True):
        big = 2.0 * max(legal) + 2.0
        before: list[tuple[int, float]] = []
        for t in range(steps):
            n = model.variable(min(legal), max(legal), integer=True)
            s = model.variable(0, demand, objective=1 / demand)
            minus, plus = [model.binary() for _ in legal], [model.binary() for _ in legal]
            for k, d_minus, d_plus in zip(legal, minus, plus, strict=True):
                # Eqn 16: (1 - d)/M - M d <= n - k <= M (1 - d); delta- = 1 says n <= k, delta- = 0
                # says n > k.
                model.row(1 / big + k, inf, [(n, 1.0), (d_minus, 1 / big + big)])
                model.row(-inf, big + k, [(n, 1.0), (d_minus, big)])
                # Eqn 17, the same for k - n.
                model.row(1 / big - k, inf, [(n, -1.0), (d_plus, 1 / big + big)])
                model.row(-inf, big - k, [(n, -1.0), (d_plus, big)])
            both = [*minus, *plus]
            model.row(len(legal) + 1, len(legal) + 1, [(d, 1.0) for d in both])  # Eqn 18
            speed = [k * 0.8 ** math.log2(k) for k in legal]
            gained = [
                (d, -P_H * v) for pair in (minus, plus) for d, v in zip(pair, speed, strict=True)
            ]
            model.row(-inf, -P_H * sum(speed), [(s, 1.0), *before, *gained])  # Eqns 19, 20
            before = [(s, -1.0)]
            used[t].append((n, 1.0))
            model.total += 1.0
    for entries in used:
        model.row(-inf, nodes, entries)
    milp = model.milp(0)
    solver = highs.loaded(highspy, milp, "literal", highs.OPTIONS)
    solver.run()
    assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return float(solver.getInfo().objective_function_value) * milp.scale


def a_case(rng: random.Random) -> tuple[list[float], list[tuple[int, ...]], int, int]:
    jobs = rng.randint(1, 4)
    demands = [rng.choice((rng.uniform(0.01, 0.3), rng.uniform(0.3, 3))) for _ in range(jobs)]
    sizes = []
    for _ in range(jobs):
        low = rng.choice((0, 0, 0, 1))
        sizes.append(tuple(2**i for i in range(low, rng.randint(low, 4) + 1)))
    nodes = sum(s[0] for s in sizes) + rng.randint(0, 12)
    return demands, sizes, nodes, rng.randint(1, 3)


def test_equal_to_the_literal_form_on_200_cases() -> None:
    rng = random.Random(2021)
    waits = 0
    for _ in range(200):
        demands, sizes, nodes, steps = a_case(rng)
        jobs = [
            HorizonJob(legal, tuple(P_H * k * 0.8 ** math.log2(k) / demand for k in legal))
            for demand, legal in zip(demands, sizes, strict=True)
        ]
        found = solve(jobs, nodes, steps, gap=0.0, max_search=10**6)
        assert found.proven
        assert found.objective == pytest.approx(literal(demands, sizes, nodes, steps), rel=1e-6)
        assert sum(found.counts) <= nodes
        assert all(n in legal for n, legal in zip(found.counts, sizes, strict=True))
        waits += sum(found.counts) < sum(max(s) for s in sizes)
    assert waits > 100, "the pool must bind in most cases, or nothing is shown"


def test_no_job_and_one_job() -> None:
    assert solve([], 4, 5, gap=0.0, max_search=1).counts == ()
    assert solve(
        [HorizonJob((1, 2, 4), (0.1, 0.16, 0.25))], 3, 5, gap=0.0, max_search=100
    ).counts == (2,)


def test_the_search_bound_ends_with_a_legal_answer() -> None:
    rng = np.random.default_rng(3)
    sizes = (1, 2, 4, 8, 16)
    jobs = [
        HorizonJob(sizes, tuple(5 / 60 * k * 0.8 ** math.log2(k) / d for k in sizes))
        for d in rng.uniform(0.05, 5, 25)
    ]
    found = solve(jobs, 60, 5, gap=0.0, max_search=1)
    assert sum(found.counts) <= 60
    assert set(found.counts) <= set(sizes)
