"""A small transformer sharded by FSDP2 (`fully_shard`) on generated text, on any number of nodes.

    bftrainer submit docs/examples/fsdp_text.toml
    torchrun --nproc-per-node=2 fsdp_text.py --epochs 2        (alone)

Checkpoints of `torch.distributed.checkpoint` hold shards: each size loads those of another one.
They are written while training goes on, so that they may be seconds apart.
"""

import argparse
import hashlib
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from bftrainer import progress

options = argparse.ArgumentParser()
options.add_argument("--epochs", type=int, default=20)
options.add_argument("--samples", type=int, default=2048, help="size of the data set")
options.add_argument("--batch", type=int, default=8, help="per worker (weak scaling)")
options.add_argument("--width", type=int, default=64, help="of the transformer")
options.add_argument(
    "--step-s", type=float, default=0.0, help="sleep per step, to stand in for a larger model"
)
options.add_argument("--checkpoint", type=Path, default=Path("checkpoints"))
options.add_argument("--checkpoint-every", type=int, default=20, help="steps between checkpoints")
options.add_argument(
    "--ddp", action="store_true", help="replicate the model instead: DistributedDataParallel"
)
options = options.parse_args()

torch.set_num_threads(1)
torch.manual_seed(7)
dist.init_process_group("gloo")  # "cpu:gloo,cuda:nccl" on GPUs
rank, size = dist.get_rank(), dist.get_world_size()

starts, strides = torch.randint(0, 50, (2, options.samples, 1))
data = torch.utils.data.TensorDataset((starts + strides * torch.arange(17)) % 50)


class Transformer(nn.Module):
    """Predicts the next of 50 symbols."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.symbols, self.places = nn.Embedding(50, width), nn.Embedding(16, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True) for _ in range(2)
        )
        self.head = nn.Linear(width, 50)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        x = self.symbols(text) + self.places.weight
        for layer in self.layers:
            x = layer(
                x, src_mask=nn.Transformer.generate_square_subsequent_mask(16), is_causal=True
            )
        return self.head(x.flatten(0, 1))


model = Transformer(options.width)
if options.ddp:
    parallel = DistributedDataParallel(model)
else:
    mesh = init_device_mesh("cpu", (size,))  # "cuda" on GPUs
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    parallel = fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
batches = progress.batches(progress.Scaling.WEAK, options.batch)
rate = progress.LearningRate(base=3e-3, base_batch=options.batch, warmup_steps=50)
sampler = progress.Sampler(data, batches, rank, size, seed=7)
loader = torch.utils.data.DataLoader(data, batch_sampler=sampler)
report = progress.Reporter()
checkpoints = progress.Sharded(
    options.checkpoint, model, optimizer, report, sampler=sampler, rate=rate
)
step = checkpoints.load()
report.watch(model, optimizer, sampler=sampler, rate=rate)
agreement = progress.Agreement.of_torch(report, dist)


def digest() -> str:
    """A digest of all weights, gathered from all workers."""
    whole = (
        weight.detach().full_tensor() if hasattr(weight, "full_tensor") else weight
        for weight in model.parameters()
    )
    return hashlib.sha256(
        b"".join(weight.detach().numpy().tobytes() for weight in whole)
    ).hexdigest()[:16]


def say(what: str) -> None:
    """Print the weights at the beginning and the end of each incarnation, for a comparison."""
    weights = digest()
    print(f"rank {rank} of {size} {what} at step {step}: weights {weights}", flush=True)


say("begins")
weight = batches.weight(rank, size)  # with strong scaling, batches may differ by one sample
while sampler.epoch < options.epochs:
    for (text,) in loader:
        rate.apply(optimizer, batches.total(size), step)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(parallel(text[:, :-1]), text[:, 1:].flatten())
        (loss * weight).backward()
        optimizer.step()
        time.sleep(options.step_s)
        sampler.advance()
        step += 1
        report.step(step=step, samples=sampler.samples, loss=loss.item(), world_size=size)
        if agreement.to_stop():
            checkpoints.save(step)
            say("leaves")
            report.leave()
        if step % options.checkpoint_every == 0:
            checkpoints.begin(step)

checkpoints.save(step)
say("ends")
report.done()
dist.destroy_process_group()
