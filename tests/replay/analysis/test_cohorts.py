"""Cohorts of a log: hits and time at risk by hand, constants of a known hazard, and the commands
that fit them.
"""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from replay.windows import window

from bftrainer.decide.policies.cohort_worth import CohortModel
from bftrainer_replay.analysis.cohorts import cohort_hits, fitted, policy_name
from bftrainer_replay.logs.model import LogWindow


def known_hazard(
    cohorts: int, first_s: float, knee_s: float, late: float, whole: float
) -> LogWindow:
    """Each cohort of eight nodes is hit at the rate 1 / mean_to_hit_s(age); ``whole`` of the hits
    take all that is left.
    """
    rng, events = random.Random(1), []
    for i in range(cohorts):
        nodes = [f"c{i}-{k}" for k in range(8)]
        joined_s = 100.0 * i
        events.append((joined_s, nodes))
        age_s = 0.0
        while nodes:
            due = rng.expovariate(1.0)  # the integral of the rate at the next hit
            while due > 0:
                mean_s = first_s + min(age_s, knee_s) + late * max(age_s - knee_s, 0.0)
                due -= 8.0 / mean_s
                age_s += 8.0
            taken = len(nodes) if rng.random() < whole else 1
            events.append((joined_s + age_s, nodes[:taken]))
            nodes = nodes[taken:]
    events.sort(key=lambda event: event[0])
    return window(events[-1][0], "", *events, nodes=8 * cohorts)


def test_hits_and_time_at_risk_by_hand() -> None:
    """The first three join within 5 s; of them one leaves, then two. ``x`` is older than the
    window, ``d`` stays.
    """
    found = cohort_hits(
        window(400.0, "x", (100.0, "ab"), (103.0, "c"), (200.0, "da"), (300.0, "bcx"))
    )
    assert found.hits.sum() == 2
    assert found.node_hits.sum() == 3
    assert found.at_risk_s.sum() == pytest.approx(200.0 + 200.0)
    assert found.nodes_at_risk_s.sum() == pytest.approx(3 * 2 + 97 * 3 + 100 * 2 + 200)
    assert (found.whole, found.partial) == (((2, 1),), ((3, 1),))
    one_hundred = int(np.searchsorted(found.edges_s, 100.0, side="right")) - 1
    assert found.hits[one_hundred] == 1


def test_the_constants_of_a_known_hazard_are_found() -> None:
    model = fitted(cohort_hits(known_hazard(800, 300.0, 1200.0, 0.3, 0.5)))
    assert model.mean_to_hit_s(100.0) == pytest.approx(400.0, rel=0.2)
    assert model.mean_to_hit_s(1000.0) == pytest.approx(1300.0, rel=0.2)
    assert model.mean_to_hit_s(5000.0) == pytest.approx(2640.0, rel=0.3)
    assert 1 / (1 + model.at_once * math.log(5)) == pytest.approx(0.5, abs=0.1)
    assert model.outlast > 1.2  # half of the hits take one node only


def test_too_few_hits_fit_nothing() -> None:
    assert fitted(cohort_hits(window(1000.0, "", (100.0, "ab"), (200.0, "a")))) is None


def test_the_policy_is_named_with_what_differs_from_its_defaults() -> None:
    assert policy_name(CohortModel()) == "cohort"
    assert policy_name(CohortModel(first_s=90.0, late=0.2)) == "cohort?first_s=90&late=0.2"
