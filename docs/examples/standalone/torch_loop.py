"""A loop in torchtitan's style that resumes at any number of workers, without a pilot.

    torchrun --nproc-per-node=2 torch_loop.py --stop-after 5
    torchrun --nproc-per-node=3 torch_loop.py

`ElasticLoader` is a data loader with `state_dict` and `load_state_dict`, the shape that torchtitan
checkpoints. Its state is the same on all ranks and has no number of workers in it.
"""

import argparse
import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

from bftrainer import progress


class ElasticLoader:
    """Batches of the same endless sequence of samples at every number of workers.

    A batch counts as used when the loop has it: save the state after its step.
    """

    def __init__(self, data, global_batch, rank, world_size, seed=0, **options):
        self.batches = progress.batches(progress.Scaling.STRONG, global_batch)
        self.sampler = progress.Sampler(data, self.batches, rank, world_size, seed=seed)
        self.loader = DataLoader(data, batch_sampler=self.sampler, **options)

    def __iter__(self):
        while True:
            for batch in self.loader:
                self.sampler.advance()
                yield batch

    def state_dict(self):
        return self.sampler.state_dict()

    def load_state_dict(self, state):
        self.sampler.load_state_dict(state)


class Numbers(Dataset):
    """Samples that know their index."""

    def __len__(self):
        return 96

    def __getitem__(self, index):
        return index, torch.tensor([index / 96.0])


class Trainer:
    """Model, optimizer, data and step: what a checkpoint has."""

    def __init__(self, rank, size, options):
        self.rank, self.size, self.options = rank, size, options
        torch.manual_seed(7)
        self.model = nn.Linear(1, 1)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.scheduler = torch.optim.lr_scheduler.LinearLR(
            self.optimizer, total_iters=options.steps
        )
        self.loader = ElasticLoader(Numbers(), options.global_batch, rank, size)
        self.step = 0
        if options.checkpoint.exists():
            self.load_state_dict(torch.load(options.checkpoint, weights_only=True))
        self.parallel = DistributedDataParallel(self.model)

    def parts(self):
        names = ("model", "optimizer", "scheduler", "loader")
        return {name: getattr(self, name) for name in names}

    def state_dict(self):
        return {name: part.state_dict() for name, part in self.parts().items()} | {
            "step": self.step
        }

    def load_state_dict(self, state):
        for name, part in self.parts().items():
            part.load_state_dict(state[name])
        self.step = state["step"]

    def train(self):
        weight = self.loader.batches.weight(self.rank, self.size)
        batches = iter(self.loader)
        until = min(self.options.steps, self.step + (self.options.stop_after or self.options.steps))
        while self.step < until:
            indices, inputs = next(batches)
            loss = (self.parallel(inputs) - 2 * inputs).square().mean()
            self.optimizer.zero_grad()
            (loss * weight).backward()  # shares of the batch may differ by one sample
            self.optimizer.step()
            self.scheduler.step()
            self.step += 1
            log(self.options.samples_log, self.rank, indices)
        self.save()

    def save(self):
        if self.rank == 0:
            part = self.options.checkpoint.with_suffix(".part")
            torch.save(self.state_dict(), part)
            part.replace(self.options.checkpoint)
        dist.barrier()


def log(folder, rank, indices):
    """Write the samples of a step to a file of this rank, to check that each is used once."""
    if folder is not None:
        with (folder / f"samples.{os.getpid()}.{rank}").open("a") as file:
            print(*indices.tolist(), sep="\n", file=file)


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--steps", type=int, default=8)
    options.add_argument("--stop-after", type=int, help="steps, as if the job ended then")
    options.add_argument("--global-batch", type=int, default=12)
    options.add_argument("--checkpoint", type=Path, default=Path("checkpoint.pt"))
    options.add_argument("--samples-log", type=Path, help="folder for the samples that were used")
    dist.init_process_group("gloo")
    Trainer(dist.get_rank(), dist.get_world_size(), options.parse_args()).train()
    dist.destroy_process_group()
