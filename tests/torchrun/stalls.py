"""What a rescale costs a torchrun trainer: from the last step at the old size to the first at the
new one.

    python tests/torchrun/stalls.py [--repeat 5]        (make stalls, after Horovod's)

The DistributedDataParallel example with local workers, a checkpoint after every step of 20 ms: our
launcher with warm workers, and torchrun's own agents in the settings that suit them best (a store
that no agent holds, one second of waiting for more nodes, nodes counted as gone after 3 s of
silence). ``--kinds "bftrainer, cold"`` measures our launcher with cold workers, ``--kinds FSDP2
DDP`` one transformer, sharded or not, with the same checkpoints.
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

from support.horovod_trainer import CHECKOUT, Trainer, example
from support.stall_table import Cluster, Kind, hosts_of, print_stalls

COMMAND = example("torchrun", "--checkpoint-every=1")
TEXT = [
    sys.executable,
    str(CHECKOUT / "docs/examples/fsdp_text.py"),
    "--epochs=100000",
    "--step-s=0.02",
]
"""A transformer, sharded or with --ddp replicated, with the same checkpoints."""


def stall_s(trainer: Trainer, world_size: int, after_s: float) -> float:
    """Of the change to ``world_size`` after a time; every step is followed by a line."""
    trainer.read()
    lines = sorted(trainer.progress, key=lambda line: line["time"])
    first = next(
        x
        for x in lines
        if x["time"] >= after_s and x["world_size"] == world_size and x["phase"] == "running"
    )
    return float(
        first["time"]
        - max(
            x["time"] for x in lines if x["time"] < first["time"] and x["world_size"] != world_size
        )
    )


@contextmanager
def ours(
    folder: Path, slots: int, *, warm: bool, command: list[str] = COMMAND
) -> Iterator[Cluster]:
    """A trainer under our launcher."""
    with hosts_of(Trainer(folder, command, driver="torchrun", warm=warm), slots, stall_s) as made:
        yield made


class Stock:
    """torchrun's agents, one per node, with their own store."""

    def __init__(self, folder: Path, slots: int) -> None:
        self.trainer = Trainer(folder, COMMAND)
        self.slots = slots
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        keep = (
            "from torch.distributed import TCPStore; import time; s = "
            f"TCPStore('127.0.0.1', {self.port}, "
        )
        keep += "is_master=True, wait_for_workers=False); time.sleep(1e6)"
        self.store = subprocess.Popen([sys.executable, "-c", keep])
        self.agents: list[subprocess.Popen[bytes]] = []

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
        self.agents.pop(0).terminate()
        return self._measured(asked_s)

    def kill(self) -> float:
        killed_s = time.time()
        self._lose(self.agents.pop(len(self.agents) // 2))
        return self._measured(killed_s)

    def close(self) -> None:
        """End everything."""
        for agent in self.agents:
            self._lose(agent)
        self.store.kill()
        self.store.wait()

    def _measured(self, asked_s: float) -> float:
        size = len(self.agents) * self.slots
        self.trainer.steps(size, timeout_s=240)
        return stall_s(self.trainer, size, asked_s)

    def _join(self) -> None:
        conf = "is_host=0,last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=3,join_timeout=600"
        agent = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--nnodes=1:8",
            f"--nproc-per-node={self.slots}",
        ]
        agent += [
            "--rdzv-id=stock",
            "--rdzv-backend=c10d",
            f"--rdzv-endpoint=127.0.0.1:{self.port}",
        ]
        agent += [
            f"--rdzv-conf={conf}",
            "--max-restarts=100",
            "--monitor-interval=0.1",
            "--local-addr=127.0.0.1",
        ]
        env = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "lo",
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
            "BFTRAINER_TRAINER_DIR": str(self.trainer.path),
        }
        with (self.trainer.path / "stock.log").open("ab") as log:
            self.agents.append(
                subprocess.Popen(
                    [*agent, *COMMAND[1:]],
                    env=env,
                    cwd=self.trainer.path,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def _lose(self, agent: subprocess.Popen[bytes]) -> None:
        """The node is lost with all its processes."""
        if agent.poll() is None:
            for child in children(agent.pid):
                os.kill(child, signal.SIGKILL)
            agent.kill()
        agent.wait()


def children(pid: int) -> list[int]:
    """Of a process, by the kernel's list."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextmanager
def stock(folder: Path, slots: int) -> Iterator[Cluster]:
    """torchrun's own agents."""
    made = Stock(folder, slots)
    try:
        yield made
    finally:
        made.close()


KINDS: dict[str, Kind] = {
    "bftrainer": functools.partial(ours, warm=True),
    "bftrainer, cold": functools.partial(ours, warm=False),
    "torchrun's agents": stock,
    "FSDP2": functools.partial(ours, warm=True, command=TEXT),
    "DDP": functools.partial(ours, warm=True, command=[*TEXT, "--ddp"]),
}


if __name__ == "__main__":
    print_stalls(__doc__, KINDS, once=["bftrainer, cold", "torchrun's agents"])
