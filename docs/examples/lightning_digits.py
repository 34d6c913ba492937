"""Lightning on generated digits, under the launcher torchrun: bftrainer needs one callback.

    bftrainer submit --name light --launcher torchrun --max-nodes 4 --set samples_per_s=500 --
    python lightning_digits.py

At a change of nodes the script checkpoints and starts again. Lightning resumes from the checkpoint,
also within an epoch.
"""

import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import lightning
import torch
from torch import nn
from torch.utils.data import TensorDataset

from bftrainer.progress.lightning import OnIdleNodes

CHECKPOINT = Path(os.environ.get("CHECKPOINT", "light.ckpt"))
EPOCHS = int(os.environ.get("EPOCHS", "20"))
STEP_S = float(os.environ.get("STEP_S", "0"))  # sleep per step, to stand in for a larger model
SAVE_EVERY = int(os.environ.get("SAVE_EVERY", "200"))  # steps between checkpoints
SEED = int(os.environ.get("SEED", "7"))  # of the initial weights and the order of the data


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
idle = OnIdleNodes(
    data,
    batch=32,
    epochs=EPOCHS,
    checkpoint=CHECKPOINT,
    checkpoint_every=SAVE_EVERY,
    warmup_steps=50,
    seed=SEED,
)
trainer = lightning.Trainer(
    accelerator="cpu",
    strategy="ddp",
    **idle.arguments,
    logger=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
torch.manual_seed(SEED)
trainer.fit(Digits(), idle.loader, ckpt_path=idle.ckpt_path)
print(f"{trainer.global_step} steps, {idle.sampler.samples} samples")
