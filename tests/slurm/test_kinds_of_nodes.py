"""Nodes with GPUs, MIG slices and shards; reservations of every kind; partitions with Exclusive=NODE, USER and TOPO."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from clusters_under_test import RealSlurm
from conftest import started
from impact import Impact
from promises import promise
from slurm_gpus import A100, MIG, SHARD, Gpus, missing_gpus
from slurm_lab import Lab, Settings, wait_until
from slurm_versions import SlurmVersion

from bftrainer.core.windows import PilotJobs, free_nodes
from bftrainer.domain.cluster import Availability, Fragment, FragmentPhase, NodeRequest
from bftrainer_adapters.slurm.hold import SlurmHolder
from bftrainer_adapters.slurm.observe import SlurmScheduler

pytestmark = pytest.mark.slow


def held(holder: SlurmHolder, *requests: NodeRequest) -> list[Fragment]:
    """These nodes, with running payloads."""
    holder.poll()
    found = holder.acquire(requests)
    assert found.refusals == ()
    wait_until(lambda: {f.phase for f in holder.poll()} == {FragmentPhase.READY}, "the holders to be ready")
    return list(holder.poll())


@pytest.mark.skipif(bool(missing_gpus()), reason=f"no device files: {missing_gpus()}")
@pytest.mark.parametrize(
    ("gpus", "settings", "seen"),
    [
        (A100, {}, "0,1,2,3"),
        (A100, {"options": ["--gpus-per-node=4"]}, "0,1,2,3"),
        (A100, {"gres": "gpu:a100:4"}, "0,1,2,3"),
        (MIG, {}, "0,1,2"),
        (SHARD, {}, "0,1"),
    ],
    ids=["a100", "gpus-per-node", "gres", "mig", "shard"],
)
def test_a_holder_has_all_gpus_of_its_node_and_its_workers_see_them(
    gpus: Gpus, settings: dict[str, object], seen: str, slurm_version: SlurmVersion, tmp_path: Path
) -> None:
    for lab in started(Settings(nodes=1, gpus=gpus), slurm_version):
        cluster = RealSlurm(lab, tmp_path)
        (node,) = cluster.scheduler.observe().nodes
        holder = cluster.holder(**settings)
        (fragment,) = held(holder, NodeRequest(node.name, gpus=node.gpu_count))
        gres = [f"--gres={settings['gres']}"] if "gres" in settings else []
        argv = ["srun", f"--jobid={fragment.id}", "--overlap", "-w", node.name, "-N1", "-n1", "--mem=0", *gres]
        shown = subprocess.run(
            [*argv, "--cpu-bind=none", "--export=ALL", "bash", "-c", "echo $CUDA_VISIBLE_DEVICES"],
            env=lab.environ(), capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        assert shown.stdout.strip() == seen
        holder.release(frozenset({fragment.name}))
        wait_until(lambda holder=holder: not holder.poll(), "the holder to end")
