"""What a rescale costs a torchrun trainer: from the last step at the old size to the first at the new one.

    python tests/torchrun/stalls.py [--repeat 5]        (make stalls, after Horovod's)

The DistributedDataParallel example with local workers, a checkpoint after every step of 20 ms: our launcher with warm workers,
the same with cold ones, and torchrun's own agents in the settings that suit them best (a store that no agent holds, one second
of waiting for more nodes, nodes counted as gone after 3 s of silence).
"""

from __future__ import annotations

import functools
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from horovod_trainer import CHECKOUT, Trainer
from stall_table import print_stalls

COMMAND = [sys.executable, str(CHECKOUT / "docs/examples/torch_digits.py"), "--epochs=100000", "--step-s=0.02"]
COMMAND += ["--checkpoint-every=1"]


def stall_s(trainer: Trainer, world_size: int, after_s: float) -> float:
    """Of the change to ``world_size`` after a time; every step is followed by a line."""
    trainer.read()
    lines = sorted(trainer.progress, key=lambda line: line["time"])
    first = next(x for x in lines if x["time"] >= after_s and x["world_size"] == world_size and x["phase"] == "running")
    return float(
        first["time"] - max(x["time"] for x in lines if x["time"] < first["time"] and x["world_size"] != world_size)
    )


def ours(folder: Path, *, warm: bool) -> dict[str, float]:
    """One trainer under our launcher through all the cases."""
    found = {}
    with Trainer(folder, COMMAND, driver="torchrun", warm=warm) as trainer:

        def case(name: str, world_size: int, asked_s: float) -> None:
            trainer.event("running", asked_s, world_size=world_size)
            trainer.steps(world_size)
            found[name] = stall_s(trainer, world_size, asked_s)

        trainer.start("a:1:1")
        trainer.steps(1)
        case("up 1 to 2", 2, trainer.hosts("a:1:1 b:1:2"))
        case("down 2 to 1", 1, trainer.hosts("a:1:1"))
        case("", 2, trainer.hosts("a:1:1 c:1:3"))
        case("rank 0 leaves", 1, trainer.hosts("c:1:3"))
        case("", 2, trainer.hosts("c:1:3 d:1:4"))
        case("worker killed", 1, trainer.kill("4"))
    found.pop("")
    return found


class Stock:
    """torchrun's agents, one per node, with their own store."""

    def __init__(self, folder: Path) -> None:
        self.trainer = Trainer(folder, COMMAND)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        keep = f"from torch.distributed import TCPStore; import time; s = TCPStore('127.0.0.1', {self.port}, "
        keep += "is_master=True, wait_for_workers=False); time.sleep(1e6)"
        self.processes = [subprocess.Popen([sys.executable, "-c", keep])]

    def join(self) -> subprocess.Popen[bytes]:
        """A node joins."""
        conf = "is_host=0,last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=3,join_timeout=600"
        agent = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1:4", "--nproc-per-node=1", "--rdzv-id=stock"]
        agent += ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{self.port}", f"--rdzv-conf={conf}"]
        agent += ["--max-restarts=100", "--monitor-interval=0.1", "--local-addr=127.0.0.1", *COMMAND[1:]]
        env = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "lo",
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        }
        env["BFTRAINER_TRAINER_DIR"] = str(self.trainer.path)
        with (self.trainer.path / "stock.log").open("ab") as log:
            started = subprocess.Popen(
                agent, env=env, cwd=self.trainer.path, stdout=log, stderr=log, start_new_session=True
            )
        self.processes.append(started)
        return started

    def kill(self, agent: subprocess.Popen[bytes]) -> float:
        """The node is lost with all its processes."""
        for child in children(agent.pid):
            os.kill(child, signal.SIGKILL)
        agent.kill()
        return time.time()

    def leave(self, agent: subprocess.Popen[bytes]) -> float:
        """The node leaves with notice."""
        asked_s = time.time()
        agent.terminate()
        return asked_s

    def close(self) -> None:
        """End everything."""
        for process in self.processes[::-1]:
            if process.poll() is None:
                self.kill(process)
            process.wait()


def children(pid: int) -> list[int]:
    """Of a process, by the kernel's list."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def stock(folder: Path) -> dict[str, float]:
    """torchrun's agents through the same cases."""
    found = {}
    it = Stock(folder)
    try:

        def case(name: str, world_size: int, asked_s: float) -> None:
            it.trainer.steps(world_size, timeout_s=120)
            found[name] = stall_s(it.trainer, world_size, asked_s)

        a = it.join()
        it.trainer.steps(1, timeout_s=120)
        for name, go in (
            ("up 1 to 2", None),
            ("down 2 to 1", it.leave),
            ("", None),
            ("rank 0 leaves", it.leave),
            ("", None),
        ):
            asked_s = time.time()
            if go is None:
                b = it.join()
                case(name, 2, asked_s)
            elif name == "rank 0 leaves":
                asked_s, a = go(a), b
                case(name, 1, asked_s)
            else:
                case(name, 1, go(b))
        case("worker killed", 1, it.kill(b))
    finally:
        it.close()
    found.pop("")
    return found


KINDS = {
    "our launcher, warm": functools.partial(ours, warm=True),
    "our launcher, cold": functools.partial(ours, warm=False),
    "torchrun's own agents": stock,
}

if __name__ == "__main__":
    print_stalls(__doc__, KINDS)
