"""Every pool policy on the real Summit log and on a fixed pool: the loop's invariants at every decision."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from data import data_file

from bftrainer_papers.fixed_pool import fixed_window
from bftrainer_replay.comparison.compare import enriched
from bftrainer_replay.conformance.checks import plans
from bftrainer_replay.conformance.policy_contract import builder_of
from bftrainer_replay.logs.event_log import parse_time, read_event_log
from bftrainer_replay.logs.model import cut
from bftrainer_replay.simulation.play import Scenario
from bftrainer_replay.workload.curves import TABLE_2
from bftrainer_replay.workload.workload import diverse, read_workload, submissions

POLICIES = (
    "bftrainer", "equal-share", "modelarts-greedy", "modelarts-optimal", "afs-l", "afs-p", "srtf", "fcfs-rigid", "plain",
    "loss-phase", "flowcon", "cohort",
)  # fmt: skip

HOURS = 24


@lru_cache
def summit() -> Scenario:
    """The first day of the paper's week of 1,024 nodes, its trainers of seven models, ten at a time."""
    nodes = data_file("summit-2021-02/summit-nodes-in-column-order.txt").read_text().split()[:1024]
    start_s = parse_time("2021-02-10T20:21:15")
    log = read_event_log(data_file("summit-2021-02/summit-2021-02-events.csv.gz"))
    window = cut(log, start_s=start_s, end_s=start_s + HOURS * 3600, nodes=nodes, machine_nodes=1024)
    table = data_file("summit-trainers-table2/imagenet-1001-trainers.csv")
    return Scenario(window, enriched(read_workload(table, TABLE_2).arrivals, 8), 10)


def check(policy: str, scenario: Scenario) -> int:
    """Replay it; :func:`plans` checks every decision. Returns how many there were."""
    decided = plans(scenario, builder_of(policy)())
    used = np.array([sum(counts) for counts, _ in decided])
    assert used.max() > 0, "it never gave out a node"
    return len(decided)


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_the_summit_log(policy: str) -> None:
    scenario = summit()
    assert check(policy, scenario) >= 1 + len(scenario.window.events)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_fixed_pool(policy: str) -> None:
    arrivals = enriched(diverse(submissions(0.0, 30, 1800.0, poisson_seed=1), seed=1), 8)
    assert check(policy, Scenario(fixed_window(60, 0.0, 2 * 86_400.0), arrivals, 12)) >= 30
