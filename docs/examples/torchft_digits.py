"""torchft on generated digits: replicas that train on when a node joins or is lost, without any
restart.

    bftrainer submit docs/examples/torchft_digits.toml
    python torchft_digits.py --epochs 2        (alone)

Without bftrainer the script trains alone.
"""

import argparse
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import nn

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
options.add_argument("--checkpoint-every-s", type=float, default=60.0)
options = options.parse_args()

torch.set_num_threads(1)
torch.manual_seed(7)
patterns = torch.randn(10, 64)
labels = torch.randint(0, 10, (options.samples,))
data = torch.utils.data.TensorDataset(
    patterns[labels] + 0.8 * torch.randn(options.samples, 64), labels
)
torch.manual_seed(options.seed)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
rate = progress.LearningRate(base=0.02, base_batch=options.batch, warmup_steps=50)
sampler = progress.Sampler(
    data, progress.batches(progress.Scaling.WEAK, options.batch), seed=options.seed
)
loader = torch.utils.data.DataLoader(data, batch_sampler=sampler)


def save():
    """Write a checkpoint under another name, then rename it."""
    torch.save(replicas.state_dict(), options.checkpoint.with_suffix(".new"))
    options.checkpoint.with_suffix(".new").replace(options.checkpoint)


def checksum():
    """A checksum of the weights, to compare the replicas."""
    return round(sum(p.detach().double().abs().sum().item() for p in model.parameters()), 6)


replicas = progress.Replicas(
    model, optimizer, sampler, rate, checkpoint=save, checkpoint_every_s=options.checkpoint_every_s
)
if options.checkpoint.exists():
    replicas.load_state_dict(torch.load(options.checkpoint, weights_only=True))
for inputs, targets in replicas.batches(loader, options.epochs):
    replicas.step(nn.functional.cross_entropy(replicas.model(inputs), targets))
    time.sleep(options.step_s)
print(
    f"rank {replicas.rank}: {replicas.steps} steps, {sampler.samples} samples, weights "
    f"{checksum()}",
    flush=True,
)
