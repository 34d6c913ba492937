"""DistributedDataParallel on generated digits, as a script for torchrun is usually written."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

EPOCHS = int(os.environ.get("EPOCHS", "20"))

torch.set_num_threads(1)
torch.manual_seed(7)
dist.init_process_group("gloo")  # "nccl" on GPUs
patterns = torch.randn(10, 64)
labels = torch.randint(0, 10, (1024,))
data = TensorDataset(patterns[labels] + 0.8 * torch.randn(1024, 64), labels)
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
parallel = DistributedDataParallel(model)
sampler = DistributedSampler(data, seed=7)
loader = DataLoader(data, batch_size=32, sampler=sampler)

for epoch in range(EPOCHS):
    sampler.set_epoch(epoch)
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(parallel(inputs), targets)
        loss.backward()
        optimizer.step()
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), "weights.pt")
        print(f"epoch {epoch}: loss {loss.item():.4f}", flush=True)
dist.destroy_process_group()
