"""Lightning on generated digits, under the launcher torchrun: bftrainer needs one callback.

    bftrainer submit --name light --launcher torchrun --max-nodes 4 --set samples_per_s=500 -- python lightning_digits.py

At a change of nodes the script checkpoints and starts again. Lightning resumes from the checkpoint, also within an epoch.
"""

import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from bftrainer import progress

CHECKPOINT = Path(os.environ.get("CHECKPOINT", "light.ckpt"))
EPOCHS = int(os.environ.get("EPOCHS", "20"))
STEP_S = float(os.environ.get("STEP_S", "0"))  # sleep per step, to stand in for a larger model
SAVE_EVERY = int(os.environ.get("SAVE_EVERY", "200"))  # steps between checkpoints
SEED = int(os.environ.get("SEED", "7"))  # of the initial weights and the order of the data


class OnIdleNodes(lightning.Callback):
    """Sets the learning rate and reports each step; at a stop request, checkpoints and leaves at the same step on all ranks.

    Lightning saves the callback's state, position and learning rate, with the weights.
    """

    def __init__(self, sampler, rate):
        self.sampler, self.rate = sampler, rate

    def setup(self, trainer, module, stage):
        self.report = progress.Reporter(rank=trainer.global_rank)
        self.agreement = progress.Agreement(self.report, lambda value: trainer.strategy.broadcast(value, src=0))
        self.sampler.shard(trainer.global_rank, trainer.world_size)

    def on_train_start(self, trainer, module):
        self.report.watch(module, trainer.optimizers[0], sampler=self.sampler, rate=self.rate)

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        total = self.sampler.batches.total(trainer.world_size)
        self.rate.apply(trainer.optimizers[0], total, trainer.global_step)

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.sampler.advance()
        self.report.step(
            step=trainer.global_step,
            samples=self.sampler.samples,
            loss=outputs["loss"].item(),
            world_size=trainer.world_size,
        )
        if self.agreement.to_stop():
            self.save(trainer)
            self.report.leave()
        if trainer.global_step % SAVE_EVERY == 0:
            self.save(trainer)
        trainer.should_stop = self.sampler.epoch >= EPOCHS

    def save(self, trainer):
        trainer.save_checkpoint(CHECKPOINT.with_suffix(".new"))  # all ranks; rank 0 writes
        if trainer.is_global_zero:
            CHECKPOINT.with_suffix(".new").replace(CHECKPOINT)
            self.report.checkpointed()
        trainer.strategy.barrier()

    def on_train_end(self, trainer, module):
        self.report.done()

    def state_dict(self):
        return {"sampler": self.sampler.state_dict(), "rate": self.rate.state_dict()}

    def load_state_dict(self, state):
        self.sampler.load_state_dict(state["sampler"])
        self.rate.load_state_dict(state["rate"])


class Digits(lightning.LightningModule):
    """A small network."""

    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def training_step(self, batch, batch_idx):
        time.sleep(STEP_S)
        return nn.functional.cross_entropy(self.network(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.02, momentum=0.9)


torch.set_num_threads(1)
torch.manual_seed(7)
patterns = torch.randn(10, 64)
labels = torch.randint(0, 10, (4096,))
data = TensorDataset(patterns[labels] + 0.8 * torch.randn(4096, 64), labels)
batches = progress.batches(progress.Scaling.WEAK, 32)  # weak scaling: all workers have equal batches
rate = progress.LearningRate(base=0.02, base_batch=batches.global_batch, warmup_steps=50)
sampler = progress.Sampler(data, batches, seed=SEED)
# The sampler counts the epochs: Lightning's own count is of no use where the size changes within an epoch.
trainer = lightning.Trainer(
    max_epochs=-1, accelerator="cpu", strategy="ddp", num_nodes=int(os.environ.get("GROUP_WORLD_SIZE", "1")),
    devices=int(os.environ.get("LOCAL_WORLD_SIZE", "1")), callbacks=[OnIdleNodes(sampler, rate)],
    use_distributed_sampler=False, logger=False, enable_checkpointing=False, enable_progress_bar=False,
    enable_model_summary=False,
)  # fmt: skip
torch.manual_seed(SEED)
loader = DataLoader(data, batch_sampler=sampler)
trainer.fit(Digits(), loader, ckpt_path=CHECKPOINT if CHECKPOINT.exists() else None)
print(f"{trainer.global_step} steps, {sampler.samples} samples")
