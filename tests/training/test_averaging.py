"""Gradients of ranks that take different branches, compared with DistributedDataParallel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.needs import need_package
from support.patience import PATIENCE

MEMBER = """
import copy, sys
import torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from bftrainer.progress.averaging import GradientAverage

torch.set_num_threads(1)
rank = int(sys.argv[2])
dist.init_process_group("gloo", init_method="file://" + sys.argv[1] + "/meeting", rank=rank, world_size=2)


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 4, sparse=True)
        self.first, self.second, self.head = (nn.Linear(4, 4) for _ in range(3))
        self.idle, self.frozen = nn.Linear(4, 4), nn.Linear(4, 4).requires_grad_(False)

    def forward(self, tokens, branch):
        layer = self.first if branch == 0 else self.second
        return self.frozen(self.head(layer(self.embedding(tokens).mean(1)))).square().sum()


def gradients(model):
    return {
        name: None if weight.grad is None else weight.grad.to_dense().clone()
        for name, weight in model.named_parameters()
    }


def check(case, branches, unfreeze=False, batches=1):
    torch.manual_seed(rank)  # ranks begin with different weights
    own = Branches()
    reference = copy.deepcopy(own)
    GradientAverage(own, 2)
    if unfreeze:
        for model in (own, reference):
            model.frozen.requires_grad_(True)
    parallel = DistributedDataParallel(reference, find_unused_parameters=True)
    for number in range(batches):
        tokens = torch.arange(6).view(2, 3) + rank + number
        for model in (own, parallel):
            model(tokens, branches[rank]).backward()
    expected = gradients(reference)
    for name, gradient in gradients(own).items():
        if gradient is None:
            assert expected[name] is None or not expected[name].any(), (case, name)
        else:
            torch.testing.assert_close(gradient, expected[name], msg=lambda text: f"{case} {name} {text}")


check("alike", (0, 0))
check("different branches", (0, 1))
check("unfrozen later", (1, 0), unfreeze=True)
check("accumulated", (0, 1), batches=2)
dist.barrier()
dist.destroy_process_group()  # a thread of gloo that outlives Python would abort the process
print("equal")
"""


@pytest.mark.slow
def test_gradients_are_those_of_ddp_whichever_branches_ranks_take(tmp_path: Path) -> None:
    need_package("torch")
    (tmp_path / "member.py").write_text(MEMBER)
    argv = [sys.executable, "-W", "ignore", str(tmp_path / "member.py"), str(tmp_path)]
    members = [
        subprocess.Popen(
            [*argv, str(rank)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for rank in range(2)
    ]
    outputs = [member.communicate(timeout=60 * PATIENCE)[0] for member in members]
    assert outputs == ["equal\n", "equal\n"]
