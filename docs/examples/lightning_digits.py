"""Lightning on generated digits, under the launcher torchrun: bftrainer needs one callback.

    bftrainer submit --name light --launcher torchrun --max-nodes 4 --set samples_per_s=500 -- python lightning_digits.py

At a change of nodes the script checkpoints and starts again. Lightning resumes from the checkpoint, also within an epoch.
"""

import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from bftrainer import progress

CHECKPOINT = Path(os.environ.get("CHECKPOINT", "light.ckpt"))
EPOCHS = int(os.environ.get("EPOCHS", "20"))
BATCH = 32


class OnIdleNodes(lightning.Callback):
    """Reports each step; at a stop request, checkpoints and leaves at the same step on all ranks."""

    def setup(self, trainer, module, stage):
        self.report = progress.Reporter(rank=trainer.global_rank)
        self.agreement = progress.Agreement(self.report, lambda value: trainer.strategy.broadcast(value, src=0))

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        module.samples += BATCH * trainer.world_size
        self.report.step(
            step=trainer.global_step,
            samples=int(module.samples),
            loss=outputs["loss"].item(),
            world_size=trainer.world_size,
        )
        if self.agreement.to_stop():
            self.save(trainer)
            self.report.leave()

    def save(self, trainer):
        trainer.save_checkpoint(CHECKPOINT.with_suffix(".new"))  # all ranks; rank 0 writes
        if trainer.is_global_zero:
            CHECKPOINT.with_suffix(".new").replace(CHECKPOINT)
            self.report.checkpointed()
        trainer.strategy.barrier()

    def on_train_end(self, trainer, module):
        self.report.done()


class Digits(lightning.LightningModule):
    """A small network. ``samples`` counts the samples seen so far and is saved with the weights."""

    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
        self.register_buffer("samples", torch.zeros((), dtype=torch.long))

    def training_step(self, batch, batch_idx):
        return nn.functional.cross_entropy(self.network(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.02, momentum=0.9)


torch.set_num_threads(1)
torch.manual_seed(7)
patterns = torch.randn(10, 64)
labels = torch.randint(0, 10, (4096,))
data = TensorDataset(patterns[labels] + 0.8 * torch.randn(4096, 64), labels)
trainer = lightning.Trainer(
    max_epochs=EPOCHS, accelerator="cpu", strategy="ddp", num_nodes=int(os.environ.get("GROUP_WORLD_SIZE", "1")),
    devices=int(os.environ.get("LOCAL_WORLD_SIZE", "1")), callbacks=[OnIdleNodes()],
    logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
)  # fmt: skip
trainer.fit(Digits(), DataLoader(data, BATCH, shuffle=True), ckpt_path=CHECKPOINT if CHECKPOINT.exists() else None)
print(f"{trainer.global_step} steps")
