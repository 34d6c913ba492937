"""Accelerate on generated digits, on whatever nodes are idle."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import TensorDataset

from bftrainer.progress.accelerate import AcceleratedTraining

EPOCHS = int(os.environ.get("EPOCHS", "20"))

torch.set_num_threads(1)
torch.manual_seed(7)
accelerator = Accelerator(cpu=True)
patterns = torch.randn(10, 64)
labels = torch.randint(0, 10, (1024,))
data = TensorDataset(patterns[labels] + 0.8 * torch.randn(1024, 64), labels)
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
model, optimizer = accelerator.prepare(model, optimizer)
training = AcceleratedTraining(
    accelerator, model, optimizer, data, batch=32, checkpoint="digits.pt"
)

for epoch in training.epochs(EPOCHS):
    for inputs, targets in training.loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        training.backward(loss)
        optimizer.step()
        training.step(loss)
    accelerator.print(f"epoch {epoch}: loss {loss.item():.4f}", flush=True)
accelerator.save(accelerator.unwrap_model(model).state_dict(), "weights.pt")
accelerator.end_training()
