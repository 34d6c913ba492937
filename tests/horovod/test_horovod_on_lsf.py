"""The same driver with workers in holders of the stand-in LSF: each started by the starter of its
holder.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.horovod_trainer import Trainer
from support.lsf_under_test import QUEUE, LsfLab, StandInLsf

from bftrainer.cluster.model import FragmentPhase, NodeRequest
from bftrainer.system.processes import with_variable

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("elastic_horovod")]


@pytest.fixture
def lsf(tmp_path: Path) -> Iterator[StandInLsf]:
    lsf = StandInLsf(LsfLab(tmp_path / "lsf", nodes=3, slots=4, queue=QUEUE), tmp_path)
    yield lsf
    lsf.close()


def test_nodes_come_go_and_a_main_job_takes_one(lsf: StandInLsf, tmp_path: Path) -> None:
    holder = lsf.holder(lease_s=600.0)
    holder.poll()
    assert not holder.acquire(tuple(NodeRequest(node) for node in lsf.nodes)).refusals
    lsf.until(
        lambda: [f.phase for f in holder.poll()] == [FragmentPhase.READY] * 3,
        "the holders to be ready",
    )
    jobs = [fragment.id for fragment in holder.poll()]
    one, two, three = (f"{fragment.node}:1:{fragment.id}" for fragment in holder.poll())
    prefix = [
        sys.executable,
        "-m",
        "bftrainer_clusters.holding.worker",
        str(holder.holders),
        "{node}",
        "{fragment_id}",
    ]
    with Trainer(tmp_path / "trainer", prefix=prefix, drop_environment=["LSB_", "LS_"]) as trainer:

        def workers(*ids: str) -> list[object]:
            mine = set(with_variable("BFTRAINER_TRAINER_DIR", str(trainer.path)))
            return [
                process
                for job in ids
                for process in with_variable("LSB_JOBID", job)
                if process in mine
            ]

        trainer.start(one)
        trainer.steps(1)
        asked_s = trainer.hosts(f"{one} {two} {three}")
        trainer.event("running", asked_s, fragments=sorted(jobs))
        trainer.steps(3)
        assert all(workers(job) for job in jobs)
        # By order, rank 0 among them.
        asked_s = trainer.hosts(f"{two} {three}")
        trainer.event("running", asked_s, fragments=sorted(jobs[1:]))
        lsf.until(lambda: not workers(jobs[0]), "its worker to end")
        trainer.steps(2)
        # Without warning: a main job wants the node.
        main = lsf.lab.main_job(lsf.nodes[2], holders=[jobs[2]])
        trainer.event("withheld", asked_s, fragment=jobs[2])
        trainer.event("running", asked_s, fragments=[jobs[1]])
        lsf.until(lambda: lsf.lab.started_s(main), "the main job to start")
        assert lsf.lab.left(main) == []
        trainer.steps(1)
        trainer.check_continuity()
