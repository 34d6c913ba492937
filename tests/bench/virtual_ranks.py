"""The time of a step with virtual ranks beside DistributedDataParallel's, in one run.

    python tests/bench/virtual_ranks.py [--workers 2] [--steps 20] [--large]

Workers of this host train three models on one global batch, by turns: under DDP, and with eight
virtual ranks. Medians over the steps of the time of a step and of the CPU time of a worker; and the
bytes that a worker sends, in multiples of its gradients (those of DDP: of a ring).
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

VIRTUAL_RANKS = 8
FIRST_STEPS = 3
"""Steps that are not counted."""


def main(options: argparse.Namespace) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    shared = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(options.workers),
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
    }
    argv = [sys.executable, "-W", "ignore", __file__, *sys.argv[1:]]
    workers = [
        subprocess.Popen(argv, env={**os.environ, **shared, "RANK": str(rank)})
        for rank in range(options.workers)
    ]
    for worker in workers:
        if worker.wait():
            raise SystemExit(1)


def models(is_large: bool) -> dict[str, tuple[Callable[[], Any], int]]:
    """Return for each name the function that makes the model, and the global batch."""
    from torch import nn

    scale = 2 if is_large else 1

    def convolutions() -> nn.Module:
        width = 32 * scale
        return nn.Sequential(
            nn.Unflatten(1, (1, 16, 16)),
            nn.Conv2d(1, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(2 * width * 64, 10),
        )

    def layers() -> nn.Module:
        width = 1400 * scale
        return nn.Sequential(
            nn.Linear(256, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, 10),
        )

    def transformer() -> nn.Module:
        width = 128 * scale
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, "gelu", batch_first=True)
        encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        split = nn.Unflatten(1, (32, 8))
        return nn.Sequential(
            split, nn.Linear(8, width), encoder, nn.Flatten(), nn.Linear(32 * width, 10)
        )

    return {
        "layers": (layers, 64 * scale),
        "convolutions": (convolutions, 128 * scale),
        "transformer": (transformer, 32 * scale),
    }


def measure(options: argparse.Namespace) -> None:
    import torch
    import torch.distributed as dist

    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for name, (make, batch) in models(options.large).items():
        torch.manual_seed(0)
        data = torch.randn(batch, 256), torch.randint(10, (batch,))
        steps = {"DDP": ddp_step(make, data), "virtual ranks": virtual_step(make, data)}
        wall_ms: dict[str, list[float]] = {kind: [] for kind in steps}
        cpu_ms: dict[str, list[float]] = {kind: [] for kind in steps}
        for _ in range(FIRST_STEPS + options.steps):
            for kind, step in steps.items():
                dist.barrier()
                began_s, began_cpu_s = time.perf_counter(), time.process_time()
                step()
                dist.barrier()
                cpu_ms[kind].append((time.process_time() - began_cpu_s) * 1000)
                wall_ms[kind].append((time.perf_counter() - began_s) * 1000)
        if dist.get_rank() == 0:
            weights = sum(weight.numel() for weight in make().parameters())
            print(f"{name}: {weights / 1e6:.2f} million weights, batch {batch}", flush=True)
            for kind in steps:
                show(kind, wall_ms, cpu_ms, options.workers)
    dist.destroy_process_group()


def show(
    kind: str, wall_ms: dict[str, list[float]], cpu_ms: dict[str, list[float]], workers: int
) -> None:
    """Print one line of the table."""
    wall, wall_of_ddp, cpu, cpu_of_ddp = (
        statistics.median(times[name][FIRST_STEPS:])
        for times in (wall_ms, cpu_ms)
        for name in (kind, "DDP")
    )
    print(
        f"  {kind:14} {wall:8.2f} ms {wall / wall_of_ddp:5.2f} x   CPU {cpu:8.2f} ms "
        f"{cpu / cpu_of_ddp:5.2f} x   sends {sent(kind, workers):.2f} gradients",
        flush=True,
    )


def sent(kind: str, workers: int) -> float:
    """Return how often rank 0 sends as many bytes as its gradients have."""
    from bftrainer.progress.virtual_rank_tree import subtrees, virtual_ranks_of

    trees = 1
    if kind != "DDP":
        trees = len(subtrees(virtual_ranks_of(VIRTUAL_RANKS, 0, workers)))
    return (trees + 1) * (workers - 1) / workers


def ddp_step(make: Callable[[], Any], data: tuple[torch.Tensor, ...]) -> Callable[[], None]:
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    rank, size = dist.get_rank(), dist.get_world_size()
    model = DistributedDataParallel(make())
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    inputs, targets = (part[rank::size] for part in data)

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()

    return step


def virtual_step(make: Callable[[], Any], data: tuple[torch.Tensor, ...]) -> Callable[[], None]:
    import torch

    from bftrainer.progress import Reporter
    from bftrainer.progress.torch import Training

    model = make()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    training = Training(
        model,
        optimizer,
        torch.utils.data.TensorDataset(*data),
        batch=len(data[0]),
        checkpoint=Path(tempfile.gettempdir(), f"never-written-{os.getpid()}.pt"),
        virtual_ranks=VIRTUAL_RANKS,
        reporter=Reporter({}),
    )
    batches = next(iter(training.loader))

    def loss_of(batch: Any) -> torch.Tensor:
        inputs, targets = batch
        return torch.nn.functional.cross_entropy(model(inputs), targets)

    def step() -> None:
        optimizer.zero_grad()
        training.gradients(loss_of, batches)
        optimizer.step()

    return step


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--large", action="store_true", help="twice the width and the batch")
    arguments = parser.parse_args()
    if "RANK" in os.environ:
        measure(arguments)
    else:
        main(arguments)
