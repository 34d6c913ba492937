"""The step time of bftrainer's averaging beside that of DistributedDataParallel, in one run.

    python tests/bench/averaging.py [STEPS]

Two workers on this host, by turns: a model whose gradients are averaged by ``GradientAverage``, the
same under DDP, with and without ``find_unused_parameters``; and the time that ``seed_step`` adds.
"""

from __future__ import annotations

import copy
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

DEPTH, WIDTH, BATCH = 48, 128, 32
TURNS = 12


def main(steps: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    shared = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": "2",
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
    }
    argv = [sys.executable, __file__, str(steps)]
    workers = [
        subprocess.Popen(argv, env={**os.environ, **shared, "RANK": str(rank)}) for rank in range(2)
    ]
    for worker in workers:
        if worker.wait():
            raise SystemExit(1)


def measure(steps: int) -> None:
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    from bftrainer.progress import seed_step
    from bftrainer.progress.averaging import GradientAverage

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(DEPTH)]
    plain = nn.Sequential(*layers)
    averaged, bare, unused = (copy.deepcopy(plain) for _ in range(3))
    GradientAverage(averaged, 2)
    models = {
        "GradientAverage": averaged,
        "DDP": DistributedDataParallel(bare),
        "DDP, find_unused_parameters": DistributedDataParallel(unused, find_unused_parameters=True),
    }
    inputs = torch.randn(BATCH, WIDTH)

    def step(model: nn.Module) -> None:
        model.zero_grad()
        model(inputs).square().mean().backward()

    times_ms: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(TURNS):
        for name, model in models.items():
            times_ms[name].append(mean_ms(lambda model=model: step(model), steps))
    seeds_ms = mean_ms(lambda: seed_step(1, 2, 3), 1000)
    if dist.get_rank() == 0:
        reference_ms = statistics.median(times_ms["DDP"])
        for name, values in times_ms.items():
            median_ms = statistics.median(values)
            print(f"{name:30} {median_ms:7.2f} ms a step {median_ms / reference_ms:6.2f} x DDP")
        print(f"{'seed_step':30} {seeds_ms:7.3f} ms")
    dist.destroy_process_group()


def mean_ms(call: Callable[[], object], count: int) -> float:
    for _ in range(3):
        call()
    began_s = time.process_time()
    for _ in range(count):
        call()
    return (time.process_time() - began_s) * 1000 / count


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    if "RANK" in os.environ:
        measure(count)
    else:
        main(count)
