"""Workers that tests start in holders by the shared prefix, holding/worker.py."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from bftrainer.cluster.model import Fragment
from bftrainer.system.command import scrubbed
from bftrainer.system.processes import with_variable
from bftrainer_clusters.holding import worker
from support.patience import PATIENCE
from support.slurm_lab import wait_until

WORKER_MARK = "BFTRAINER_TEST_WORKER"


class OrderedWorkers:
    """Workers in the holders of ``state``, whose processes carry the name of the folder ``root``.
    ``env`` is added to the environment of each.
    """

    def __init__(self, state: Path, root: Path, env: Mapping[str, str] | None = None) -> None:
        self.state, self.root, self.env = state, root, env or {}
        self.prefixes: list[subprocess.Popen[bytes]] = []

    def start(self, fragment: Fragment, script: str) -> None:
        before = self.count()
        self.spawn(fragment, script)
        wait_until(lambda: self.count() > before, "the worker to start")

    def spawn(
        self, fragment: Fragment, script: str, pilot: str = "test"
    ) -> subprocess.Popen[bytes]:
        holders = str((self.state / f"holders-{pilot}").absolute())
        argv = [sys.executable, "-m", worker.__name__, holders, fragment.node, fragment.id]
        process = subprocess.Popen(
            [*argv, "bash", "-c", script],
            env={**scrubbed(os.environ), **self.env, WORKER_MARK: str(self.root)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self.prefixes.append(process)
        return process

    def count(self) -> int:
        """Processes of workers on the nodes, not the prefixes that ordered them."""
        ids = {process.pid for process in self.prefixes}
        return len([p for p in with_variable(WORKER_MARK, str(self.root)) if p.pid not in ids])

    def close(self) -> None:
        """Remove the holders' folders, as the pilot does for fragments that are gone: prefixes
        end.
        """
        for folder in self.state.glob("holders-*/*/"):
            shutil.rmtree(folder, ignore_errors=True)
        for process in self.prefixes:
            process.kill()
            process.wait(30 * PATIENCE)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
