"""A trainer for tests on real Elastic Horovod: paced steps, a hash of its weights with each, an end
when it is told.

Rank 0 appends a line per step to ``steps.jsonl`` in its working directory, every rank one per start
of the loop to ``begins.jsonl``: what the weights are after a rescale, a loss or a restart is
compared with what they were before. A second argument: seconds of each checkpoint.
"""

import hashlib
import json
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import horovod.torch as hvd
import torch

from bftrainer import progress

PACE_S, COMMIT_EVERY, CHECKPOINT = float(sys.argv[1]), 5, Path("weights.pt")
SAVE_S = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
torch.set_num_threads(1)
torch.manual_seed(7)
hvd.init()
model = torch.nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())


def weights() -> str:
    return hashlib.sha256(
        b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    ).hexdigest()[:16]


def note(name: str, **fields: object) -> None:
    line = {
        "at_s": time.time(),
        "incarnation": int(os.environ["BFTRAINER_INCARNATION"]),
        "size": hvd.size(),
        **fields,
    }
    with Path(name).open("a") as out:
        out.write(json.dumps(line) + "\n")


def save() -> None:
    content = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": state.step}
    time.sleep(SAVE_S)
    torch.save(content | {"samples": state.samples}, CHECKPOINT.with_suffix(".new"))
    note("saved.jsonl", step=state.step, samples=state.samples, weights=weights())
    CHECKPOINT.with_suffix(".new").replace(CHECKPOINT)


begin = {"step": 0, "samples": 0}
if CHECKPOINT.exists():
    content = torch.load(CHECKPOINT, weights_only=True)
    model.load_state_dict(content["model"])
    optimizer.load_state_dict(content["optimizer"])
    begin = {key: content[key] for key in begin}
state = hvd.elastic.TorchState(model=model, optimizer=optimizer, **begin)
state = progress.track(state, hvd, checkpoint=save, checkpoint_every_s=2.0)


@hvd.elastic.run
def train(state: hvd.elastic.TorchState) -> None:
    note("begins.jsonl", rank=hvd.rank(), step=state.step, samples=state.samples, weights=weights())
    told = False
    while not told:
        torch.manual_seed(1000 * state.step + hvd.rank())
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(torch.randn(8, 16)), torch.randn(8, 4)).backward()
        optimizer.step()
        time.sleep(PACE_S)
        state.step += 1
        state.samples += 8 * hvd.size()
        if hvd.rank() == 0:
            note("steps.jsonl", step=state.step, samples=state.samples, weights=weights())
        # All of them end in the same step.
        told = bool(
            hvd.allreduce(torch.tensor([float(Path("finish").exists())]), op=hvd.Sum, name="told")
            > 0
        )
        if state.step % COMMIT_EVERY == 0:
            state.commit()


train(state)
if hvd.rank() == 0:
    save()
