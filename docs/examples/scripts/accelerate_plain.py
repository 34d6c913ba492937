"""Accelerate on generated digits, as a script is usually written."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = int(os.environ.get("EPOCHS", "20"))

torch.set_num_threads(1)
torch.manual_seed(7)
accelerator = Accelerator(cpu=True)
patterns = torch.randn(10, 64)
labels = torch.randint(0, 10, (1024,))
data = TensorDataset(patterns[labels] + 0.8 * torch.randn(1024, 64), labels)
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
loader = DataLoader(data, batch_size=32, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

for epoch in range(EPOCHS):
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        accelerator.backward(loss)
        optimizer.step()
    accelerator.print(f"epoch {epoch}: loss {loss.item():.4f}", flush=True)
accelerator.save(accelerator.unwrap_model(model).state_dict(), "weights.pt")
accelerator.end_training()
