"""Lightning on generated digits, on whatever nodes are idle."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import lightning
import torch
from torch import nn
from torch.utils.data import TensorDataset

from bftrainer.progress.lightning import OnIdleNodes

EPOCHS = int(os.environ.get("EPOCHS", "20"))


class Digits(lightning.LightningModule):
    """A small network."""

    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def training_step(self, batch, batch_idx):
        return nn.functional.cross_entropy(self.network(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.02, momentum=0.9)


torch.set_num_threads(1)
torch.manual_seed(7)
patterns = torch.randn(10, 64)
labels = torch.randint(0, 10, (1024,))
data = TensorDataset(patterns[labels] + 0.8 * torch.randn(1024, 64), labels)
model = Digits()
idle = OnIdleNodes(data, batch=32, epochs=EPOCHS, checkpoint="digits.ckpt")
quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
trainer = lightning.Trainer(accelerator="cpu", strategy="ddp", **idle.arguments, **quiet)
trainer.fit(model, idle.loader, ckpt_path=idle.ckpt_path)
if trainer.is_global_zero:
    torch.save(model.state_dict(), "weights.pt")
