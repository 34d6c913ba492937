"""Main jobs as arrays and heterogeneous jobs: their ids, and the plans that Slurm shows of them."""

from __future__ import annotations

import math

import pytest
from support.slurm_lab import Lab, wait_until

from bftrainer.cluster.model import Availability
from bftrainer.cluster.windows import PilotJobs, free_nodes
from bftrainer_clusters.slurm.calls import SlurmCalls
from bftrainer_clusters.slurm.observe import SlurmScheduler

pytestmark = pytest.mark.every_slurm


def waiting(lab: Lab, count: int) -> None:
    wait_until(
        lambda: len(lab.run("squeue", "-h", "-t", "PD", "-o", "%A").split()) == count,
        "the jobs to wait",
    )


def test_nodes_that_are_planned_for_another_task_of_an_array_are_not_free(lab: Lab) -> None:
    """Slurm shows the plan of one task only; of the other tasks' nodes, it says no more than that
    they are planned.
    """
    lab.submit("sleep 600", "-w", "node[04-08]", "-N5", "-t", "10")
    lab.submit("sleep 600", "-N4", "--array=1-2", "-t", "10")
    scheduler = SlurmScheduler(calls=SlurmCalls(lab.env))

    def idle() -> dict[str, Availability]:
        return {
            node.name: node.availability
            for node in scheduler.observe().nodes
            if node.name < "node04"
        }

    wait_until(
        lambda: set(idle().values()) == {Availability.PLANNED}, "the idle nodes to be planned"
    )
    seen = scheduler.observe()
    (job,) = seen.pending
    assert job.size == 4
    assert [
        free.node.name for free in free_nodes(seen, PilotJobs()) if math.isinf(free.end.at_s)
    ] == []
