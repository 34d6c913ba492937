"""Which processes a payload without job steps ends."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest
from support.slurm_lab import wait_until

from bftrainer_clusters.on_node import job_payload, payload


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    """A process of a job that names a node."""
    env = {"PBS_JOBID": "7.head", job_payload.ONE_OF_SEVERAL: "n2", "PATH": os.environ["PATH"]}
    process = subprocess.Popen(["sleep", "600"], env=env)
    wait_until(
        lambda: payload.read(process.pid, "cmdline").startswith(b"sleep"),
        "the worker to be a sleep",
    )
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize(("node", "is_swept"), [("", True), ("n2", True), ("n1", False)])
def test_a_payload_leaves_alone_only_what_another_payload_of_its_job_ends(
    worker: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, node: str, is_swept: bool
) -> None:
    """A training that was submitted inside another holder brings the name of a node along."""
    monkeypatch.delenv(job_payload.ONE_OF_SEVERAL, raising=False)
    if node:
        monkeypatch.setenv(job_payload.ONE_OF_SEVERAL, node)
    sweep = job_payload.JobSweep("PBS_JOBID", "7.head", 1)
    assert sweep.of_job(worker.pid) is is_swept
