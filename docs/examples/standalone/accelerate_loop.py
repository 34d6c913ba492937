"""A loop of Accelerate with its own checkpoints that resumes at any number of workers.

    accelerate launch --cpu --num_processes 2 accelerate_loop.py --stop-after 5
    accelerate launch --cpu --num_processes 3 accelerate_loop.py

The loader is not prepared: `progress.Sampler` divides the batches. The sampler and the learning
rate are registered, so that `save_state` and `load_state` keep them beside the model.
"""

import argparse
import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, Dataset

from bftrainer import progress


class Numbers(Dataset):
    """Samples that know their index."""

    def __len__(self):
        return 96

    def __getitem__(self, index):
        return index, torch.tensor([index / 96.0])


options = argparse.ArgumentParser()
options.add_argument("--epochs", type=int, default=1)
options.add_argument("--stop-after", type=int, help="steps, as if the job ended then")
options.add_argument("--checkpoint", type=Path, default=Path("checkpoint"))
options.add_argument("--samples-log", type=Path, help="folder for the samples that were used")
options = options.parse_args()

accelerator = Accelerator(cpu=True)
rank, size = accelerator.process_index, accelerator.num_processes
torch.manual_seed(7)
data, model = Numbers(), nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
batches = progress.batches(progress.Scaling.WEAK, 4)
sampler = progress.Sampler(data, batches, rank, size, seed=7)
rate = progress.LearningRate(base=0.05, base_batch=4, warmup_steps=3)
loader = DataLoader(data, batch_sampler=sampler)
model, optimizer = accelerator.prepare(model, optimizer)
accelerator.register_for_checkpointing(sampler, rate)
if options.checkpoint.exists():
    accelerator.load_state(str(options.checkpoint))

steps = 0
while sampler.epoch < options.epochs and steps != options.stop_after:
    for indices, inputs in loader:
        inputs = inputs.to(accelerator.device)
        rate.apply(optimizer, batches.total(size), sampler.samples // batches.total(1))
        loss = (model(inputs) - 2 * inputs).square().mean()
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        sampler.advance()
        steps += 1
        if options.samples_log is not None:
            with (options.samples_log / f"samples.{os.getpid()}.{rank}").open("a") as file:
                print(*indices.tolist(), sep="\n", file=file)
        if steps == options.stop_after:
            break
accelerator.save_state(str(options.checkpoint))
accelerator.end_training()
