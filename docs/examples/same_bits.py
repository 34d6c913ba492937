"""An image classifier whose final weights are the same, bit by bit, on 1 to 8 workers, whatever
stops and losses its training sees.

    bftrainer submit docs/examples/same_bits.toml
    torchrun --nproc-per-node=3 same_bits.py --epochs 4        (alone)

The last line is a digest of the weights.
"""

import argparse
import hashlib
import os
import random
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # another number of threads means other bits

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bftrainer.progress.torch import Training

options = argparse.ArgumentParser()
options.add_argument("--epochs", type=int, default=4)
options.add_argument("--step-s", type=float, default=0.0, help="sleep per step")
options.add_argument("--loader-workers", type=int, default=0)
options.add_argument("--checkpoint", type=Path, default=Path("same_bits.pt"))
options = options.parse_args()

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)
torch.manual_seed(7)
if "RANK" in os.environ:
    dist.init_process_group("gloo")  # "nccl" on GPUs


class Images(torch.utils.data.Dataset):
    """Ten noisy patterns, shifted at random each time that one is read."""

    patterns = torch.randn(10, 1, 12, 12)

    def __len__(self):
        return 1000

    def __getitem__(self, index):
        image = self.patterns[index % 10] + 0.5 * torch.randn(1, 12, 12)
        return image.roll(random.randrange(3), 2), index % 10


model = nn.Sequential(
    nn.Conv2d(1, 8, 3),
    nn.BatchNorm2d(8),
    nn.ReLU(),
    nn.Flatten(),
    nn.Dropout(0.2),
    nn.Linear(800, 10),
)
parallel = DistributedDataParallel(model) if dist.is_initialized() else model
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
training = Training(
    parallel,
    optimizer,
    Images(),
    batch=32,  # of all workers
    checkpoint=options.checkpoint,
    virtual_ranks=8,
    loader_options={"num_workers": options.loader_workers},
)


def loss_of(batch):
    """Return the mean loss of the batch of a virtual rank."""
    images, labels = batch
    return nn.functional.cross_entropy(parallel(images), labels)


for _ in training.epochs(options.epochs):
    for batches in training.loader:
        optimizer.zero_grad()
        loss = training.gradients(loss_of, batches)
        optimizer.step()
        training.step(loss)
        time.sleep(options.step_s)

values = torch.cat([tensor.double().flatten() for tensor in model.state_dict().values()])
if training.rank == 0:
    print("weights", hashlib.sha256(values.numpy().tobytes()).hexdigest()[:16])
if dist.is_initialized():
    dist.barrier()
    dist.destroy_process_group()
