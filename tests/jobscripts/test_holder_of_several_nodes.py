"""holder.sh on the first of several nodes, with a program in place of python and of pbs_tmrsh."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.slurm_lab import wait_until

from bftrainer_clusters.holding.holder_files import HolderFiles
from bftrainer_clusters.holding.holder_jobs import holder_script
from bftrainer_clusters.on_node import payload

OTHER = "n2#7.n2"


@dataclass
class FirstNode:
    """The process of the first node's payload, which SIGTERM ends."""

    process: subprocess.Popen[bytes]
    files: HolderFiles
    folder: Path

    def end_other(self, status: int) -> None:
        """Let pbs_tmrsh end, and wait until nothing that the script has started runs."""
        (self.folder / "status").write_text(f"{status}\n")
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children")

        def is_alone() -> bool:
            is_over = self.process.poll() is not None
            return is_over or not any(map(payload.is_alive, map(int, children.read_text().split())))

        wait_until(is_alone, "what the script has started")


@pytest.fixture
def first_node(tmp_path: Path) -> Iterator[FirstNode]:
    programs = {
        "python": "[[ $3 == starter ]] || exec sleep 600",
        "pbs_tmrsh": f"until [[ -s {tmp_path}/status ]]; do sleep 0.05; done\n"
        f"exit $(<{tmp_path}/status)",
    }
    for name, text in programs.items():
        path = tmp_path / name
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)
    files = HolderFiles(tmp_path / "holders")
    files.hold(OTHER)
    words = (f"{tmp_path}/python", "payload", "starter", str(files.root), "60", "0", "n1:n2")
    script = holder_script(None, "holder.sh")
    process = subprocess.Popen(
        ["/bin/bash", str(script), *words, "PBS_JOBID", "PBS_"],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "PBS_JOBID": "7.head"},
    )
    wait_until(
        lambda: payload.read(process.pid, "cmdline").startswith(b"sleep"), "the first payload"
    )
    yield FirstNode(process, files, tmp_path)
    process.kill()
    process.wait()


def test_the_end_of_a_payload_ends_the_others(first_node: FirstNode) -> None:
    first_node.end_other(1)
    assert first_node.process.wait(60.0) == -signal.SIGTERM


def test_a_payload_that_leaves_a_released_node_leaves_the_others(first_node: FirstNode) -> None:
    first_node.end_other(0)
    assert first_node.process.poll() is None


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_node_that_is_taken_from_the_job_leaves_the_others(
    first_node: FirstNode, is_gone: bool
) -> None:
    """PBS kills what runs there, or has not noticed yet that the payload has ended: pbs_tmrsh
    fails.
    """
    first_node.files.mark_released(OTHER)
    if is_gone:
        shutil.rmtree(first_node.files.root / OTHER)
    first_node.end_other(137)
    assert first_node.process.poll() is None
