"""DistributedDataParallel on generated digits, written as for torchrun: a small network on any
number of nodes.

    bftrainer submit docs/examples/torch_digits.toml
    torchrun --nproc-per-node=2 torch_digits.py --epochs 2        (alone)

bftrainer needs the lines with `report` and `agreement`; without bftrainer they only agree that no
worker stops. torchrun needs the checkpoint as well: each change of nodes starts the script again
from it.
"""

import argparse
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bftrainer import progress

options = argparse.ArgumentParser()
options.add_argument("--epochs", type=int, default=20)
options.add_argument("--samples", type=int, default=4096, help="size of the data set")
options.add_argument("--batch", type=int, default=32, help="per worker (weak scaling)")
options.add_argument(
    "--seed", type=int, default=7, help="of the initial weights and the order of the data"
)
options.add_argument(
    "--step-s", type=float, default=0.0, help="sleep per step, to stand in for a larger model"
)
options.add_argument("--checkpoint", type=Path, default=Path("digits.pt"))
options.add_argument("--checkpoint-every", type=int, default=200, help="steps between checkpoints")
options = options.parse_args()

torch.set_num_threads(1)
torch.manual_seed(7)
dist.init_process_group("gloo")  # "nccl" on GPUs
rank, size = dist.get_rank(), dist.get_world_size()

patterns = torch.randn(10, 64)
labels = torch.randint(0, 10, (options.samples,))
data = torch.utils.data.TensorDataset(
    patterns[labels] + 0.8 * torch.randn(options.samples, 64), labels
)
torch.manual_seed(options.seed)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
batches = progress.batches(progress.Scaling.WEAK, options.batch)
rate = progress.LearningRate(base=0.02, base_batch=options.batch, warmup_steps=50)
sampler = progress.Sampler(data, batches, rank, size, seed=options.seed)
loader = torch.utils.data.DataLoader(data, batch_sampler=sampler)
step = 0
if options.checkpoint.exists():
    content = torch.load(options.checkpoint, weights_only=True)
    model.load_state_dict(content["model"])
    optimizer.load_state_dict(content["optimizer"])
    sampler.load_state_dict(content["sampler"])
    rate.load_state_dict(content["rate"])
    step = content["step"]
parallel = DistributedDataParallel(model)
report = progress.Reporter()
report.watch(model, optimizer, sampler=sampler, rate=rate)
agreement = progress.Agreement.of_torch(report, dist)


def save():
    """Write a checkpoint on rank 0 under another name, then rename it. All ranks wait for it."""
    if rank == 0:
        content = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
        content |= {"sampler": sampler.state_dict(), "rate": rate.state_dict()}
        torch.save(content, options.checkpoint.with_suffix(".new"))
        options.checkpoint.with_suffix(".new").replace(options.checkpoint)
        report.checkpointed()
    dist.barrier()


def checksum():
    """A checksum of the weights, to compare two lines of the progress log."""
    return round(sum(p.detach().double().abs().sum().item() for p in model.parameters()), 6)


print(f"rank {rank} of {size} at step {step}: weights {checksum()}", flush=True)
weight = batches.weight(rank, size)  # with strong scaling, batches may differ by one sample
while sampler.epoch < options.epochs:
    for inputs, targets in loader:
        rate.apply(optimizer, batches.total(size), step)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(parallel(inputs), targets)
        (loss * weight).backward()
        optimizer.step()
        time.sleep(options.step_s)
        sampler.advance()
        step += 1
        report.step(
            step=step,
            samples=sampler.samples,
            loss=loss.item(),
            world_size=size,
            checksum=checksum(),
        )
        if agreement.to_stop():
            save()
            report.leave()
        if step % options.checkpoint_every == 0:
            save()
            if agreement.to_stop_after_save():
                report.leave()

save()
report.done()
if rank == 0:
    print(f"{step} steps, {sampler.samples} samples, weights {checksum()}")
dist.destroy_process_group()
