"""DistributedDataParallel on generated digits, written as for torchrun: a small network on any number of nodes.

    bftrainer submit docs/examples/torch_digits.toml        or alone:  torchrun --nproc-per-node=2 torch_digits.py --epochs 2

bftrainer needs the lines with `report` and `agreement`; without bftrainer they only agree that no worker stops. torchrun needs
the checkpoint as well: each change of nodes starts the script again from it.
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
options.add_argument("--step-s", type=float, default=0.0, help="sleep per step, to stand in for a larger model")
options.add_argument("--checkpoint", type=Path, default=Path("digits.pt"))
options.add_argument("--checkpoint-every", type=int, default=200, help="steps between checkpoints")
options = options.parse_args()

torch.set_num_threads(1)
torch.manual_seed(7)
dist.init_process_group("gloo")  # "nccl" on GPUs
rank, size = dist.get_rank(), dist.get_world_size()

patterns = torch.randn(10, 64)
labels = torch.randint(0, 10, (options.samples,))
images = patterns[labels] + 0.8 * torch.randn(options.samples, 64)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
done = {"step": 0, "samples": 0}
if options.checkpoint.exists():
    content = torch.load(options.checkpoint)
    model.load_state_dict(content["model"])
    optimizer.load_state_dict(content["optimizer"])
    done = content["done"]
parallel = DistributedDataParallel(model)
report = progress.Reporter()
agreement = progress.Agreement.of_torch(report, dist)
batches = progress.batches(progress.Scaling.WEAK, options.batch)
rate = progress.LearningRate(base=0.02, base_batch=options.batch, warmup_steps=50).rescaled(batches.total(size), 0)


def save():
    """Write a checkpoint on rank 0 under another name, then rename it. All ranks wait for it."""
    if rank == 0:
        content = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "done": done}
        torch.save(content, options.checkpoint.with_suffix(".new"))
        options.checkpoint.with_suffix(".new").replace(options.checkpoint)
        report.checkpointed()
    dist.barrier()


def checksum():
    """A checksum of the weights, to compare two lines of the progress log."""
    return round(sum(p.detach().double().abs().sum().item() for p in model.parameters()), 6)


print(f"rank {rank} of {size} at step {done['step']}: weights {checksum()}", flush=True)
while done["samples"] < options.epochs * options.samples:
    # The number of samples seen determines the next ones: at no size is a sample seen twice in an epoch.
    epoch, seen = divmod(done["samples"], options.samples)
    order = torch.randperm(options.samples, generator=torch.Generator().manual_seed(epoch))
    sizes = [batches.of(r, size) for r in range(size)]
    begin = seen + sum(sizes[:rank])
    chosen = order[begin : begin + sizes[rank]]
    for group in optimizer.param_groups:
        group["lr"] = rate.at(done["step"])
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(parallel(images[chosen]), labels[chosen], reduction="sum")
    # At the end of an epoch some workers have fewer samples, or none: gradients are weighted by samples, not workers.
    whole = min(sum(sizes), options.samples - seen)
    (loss * size / whole).backward()
    optimizer.step()
    time.sleep(options.step_s)
    done = {"step": done["step"] + 1, "samples": done["samples"] + whole}
    report.step(**done, loss=loss.item() / max(len(chosen), 1), world_size=size, checksum=checksum())
    if agreement.to_stop():
        save()
        report.leave()
    if done["step"] % options.checkpoint_every == 0:
        save()

save()
report.done()
if rank == 0:
    print(f"{done['step']} steps, {done['samples']} samples, weights {checksum()}")
dist.destroy_process_group()
