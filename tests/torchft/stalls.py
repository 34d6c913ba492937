"""What a rescale costs a torchft trainer: the longest time between two steps while the group changes.

    python tests/torchft/stalls.py [--repeat 3]        (make stalls, after torchrun's)

The example with local workers and a sleep of 20 ms in each step: under our launcher, whose driver is the lighthouse, and under
torchft's own lighthouse (heartbeat time-out 5 s, the default, and 0.4 s) with the same workers. A figure is the longest step
around the change; a step without one takes about 0.03 s on a quiet host.
"""

from __future__ import annotations

import functools
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import itertools

from horovod_trainer import CHECKOUT, Trainer
from stall_table import Cluster, Kind, hosts_of, print_stalls

COMMAND = [sys.executable, str(CHECKOUT / "docs/examples/torchft_digits.py"), "--epochs=100000", "--step-s=0.02"]
ENVIRONMENT = {"BFTRAINER_REPORT_EVERY_S": "0"}
AFTER_STEPS = 5


def stall_s(trainer: Trainer, world_size: int, after_s: float) -> float:
    """The longest time between two steps from a moment on until a few steps after the first at ``world_size``."""
    trainer.read()
    ends = [line for line in trainer.progress if line["phase"] == "running" and not line.get("formed")]
    ends.sort(key=lambda line: line["time"])
    first = next(n for n, line in enumerate(ends) if line["time"] >= after_s and line["world_size"] == world_size)
    begin = max(n for n, line in enumerate(ends) if line["time"] < after_s)
    times = [line["time"] for line in ends[begin : first + AFTER_STEPS]]
    return float(max(new - old for old, new in itertools.pairwise(times)))


@contextmanager
def ours(folder: Path, slots: int) -> Iterator[Cluster]:
    """A trainer under our launcher."""
    with hosts_of(Trainer(folder, COMMAND, driver="torchft", environment=ENVIRONMENT), slots, stall_s) as made:
        yield made


class Stock:
    """torchft's own lighthouse, and workers that are started and killed by hand."""

    def __init__(self, folder: Path, slots: int, heartbeat_ms: int) -> None:
        self.trainer = Trainer(folder, COMMAND)
        self.slots = slots
        self.last = 0
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        argv = ["torchft_lighthouse", "--min_replicas=1", "--quorum_tick_ms=20", "--join_timeout_ms=60000"]
        argv += [f"--heartbeat_timeout_ms={heartbeat_ms}", f"--bind=127.0.0.1:{self.port}"]
        with (folder / "stock.log").open("ab") as log:
            path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
            self.lighthouse = subprocess.Popen(argv, stdout=log, stderr=log, env={**os.environ, "PATH": path})
        self.nodes: list[list[subprocess.Popen[bytes]]] = []

    def begin(self, nodes: int) -> None:
        for _ in range(nodes):
            self._join()
        self.trainer.steps(nodes * self.slots, timeout_s=240)

    def grow(self) -> float:
        asked_s = time.time()
        self._join()
        return self._measured(asked_s)

    def shrink(self) -> float:
        asked_s = time.time()
        self._lose(self.nodes.pop(0))
        return self._measured(asked_s)

    def kill(self) -> float:
        asked_s = time.time()
        self._lose(self.nodes.pop(len(self.nodes) // 2))
        return self._measured(asked_s)

    def close(self) -> None:
        """End everything."""
        for node in self.nodes:
            self._lose(node)
        self.lighthouse.kill()
        self.lighthouse.wait()

    def _measured(self, asked_s: float) -> float:
        size = len(self.nodes) * self.slots
        self.trainer.steps(size, timeout_s=240)
        return stall_s(self.trainer, size, asked_s)

    def _join(self) -> None:
        node = []
        for _ in range(self.slots):
            self.last += 1
            env = {
                **os.environ,
                **ENVIRONMENT,
                "OMP_NUM_THREADS": "1",
                "GLOO_SOCKET_IFNAME": "lo",
                "TORCHFT_LIGHTHOUSE": f"http://127.0.0.1:{self.port}",
                "TORCHFT_TIMEOUT_SEC": "60",
                "BFTRAINER_TRAINER_DIR": str(self.trainer.path),
            }
            with (self.trainer.path / f"worker-{self.last}.log").open("ab") as log:
                node.append(subprocess.Popen(COMMAND, env=env, cwd=self.trainer.path, stdout=log, stderr=log))
        self.nodes.append(node)

    def _lose(self, node: list[subprocess.Popen[bytes]]) -> None:
        for worker in node:
            worker.send_signal(signal.SIGKILL)
        for worker in node:
            worker.wait()


@contextmanager
def stock(folder: Path, slots: int, *, heartbeat_ms: int) -> Iterator[Cluster]:
    """torchft's own lighthouse."""
    made = Stock(folder, slots, heartbeat_ms)
    try:
        yield made
    finally:
        made.close()


KINDS: dict[str, Kind] = {
    "bftrainer": ours,
    "torchft's lighthouse, 5 s": functools.partial(stock, heartbeat_ms=5000),
    "torchft's lighthouse, 0.4 s": functools.partial(stock, heartbeat_ms=400),
}

if __name__ == "__main__":
    print_stalls(__doc__, KINDS, once=[kind for kind in KINDS if kind != "bftrainer"])
