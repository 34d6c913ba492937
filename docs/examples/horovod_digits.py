"""Elastic Horovod on generated digits: a small network that trains on any number of nodes, one or
two seconds per epoch.

    bftrainer submit ... -- python horovod_digits.py --epochs 20
    python horovod_digits.py        (alone)

The data are ten random 8x8 patterns; each sample is one of them with noise. bftrainer needs one
changed line, `progress.track` around the state. Without bftrainer this line only synchronizes
`sampler` and `rate`, so that every worker, also one that joins, continues with the same data order
and learning rate.
"""

import argparse
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch and numpy: a worker has one core here

import horovod.torch as hvd
import torch
from torch import nn

from bftrainer import progress

options = argparse.ArgumentParser()
options.add_argument("--epochs", type=int, default=20)
options.add_argument("--samples", type=int, default=4096, help="size of the data set")
options.add_argument("--batch", type=int, default=32, help="per worker (weak scaling)")
options.add_argument("--commit-every", type=int, default=1, help="steps between commits")
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
hvd.init()

patterns = torch.randn(10, 64)
labels = torch.randint(0, 10, (options.samples,))
data = torch.utils.data.TensorDataset(
    patterns[labels] + 0.8 * torch.randn(options.samples, 64), labels
)
torch.manual_seed(options.seed)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
batches = progress.batches(progress.Scaling.WEAK, options.batch)
rate = progress.LearningRate(base=0.02, base_batch=options.batch, warmup_steps=50)
sampler = progress.Sampler(data, batches, seed=options.seed)
loader = torch.utils.data.DataLoader(data, batch_sampler=sampler)


def save():
    """Write a checkpoint under another name, then rename it: a checkpoint is never half-written."""
    content = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": state.step}
    content |= {"sampler": sampler.state_dict(), "rate": rate.state_dict()}
    torch.save(content, options.checkpoint.with_suffix(".new"))
    options.checkpoint.with_suffix(".new").replace(options.checkpoint)


def checksum():
    """A checksum of the weights, to compare two lines of the progress log."""
    return {
        "checksum": round(
            sum(p.detach().double().abs().sum().item() for p in model.parameters()), 6
        )
    }


step = 0
if options.checkpoint.exists():
    content = torch.load(options.checkpoint, weights_only=True)
    model.load_state_dict(content["model"])
    optimizer.load_state_dict(content["optimizer"])
    sampler.load_state_dict(content["sampler"])
    rate.load_state_dict(content["rate"])
    step = content["step"]

state = hvd.elastic.TorchState(model=model, optimizer=optimizer, step=step, samples=sampler.samples)
state = progress.track(  # the one changed line
    state,
    hvd,
    keep=[sampler, rate],
    checkpoint=save,
    checkpoint_every_s=options.checkpoint_every_s,
    further=checksum,
)


@hvd.elastic.run
def train(state):
    """Train; called again, from the last commit, at each change of the group."""
    print(
        f"rank {hvd.rank()} of {hvd.size()} at step {state.step}: weights {checksum()['checksum']}",
        flush=True,
    )
    while sampler.epoch < options.epochs:
        weight = batches.weight(
            hvd.rank(), hvd.size()
        )  # with strong scaling, batches may differ by one sample
        for inputs, targets in loader:
            rate.apply(optimizer, batches.total(hvd.size()), state.step)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), targets)
            (loss * weight).backward()
            optimizer.step()
            time.sleep(options.step_s)
            sampler.advance()
            state.step += 1
            state.samples = sampler.samples
            state.loss = loss.item()
            if state.step % options.commit_every == 0:
                state.commit()
    state.commit()


train(state)
if hvd.rank() == 0:
    save()
    print(f"{state.step} steps, {state.samples} samples, loss {state.loss:.4f}")
