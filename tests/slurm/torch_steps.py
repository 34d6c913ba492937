"""The same trainer as horovod_steps.py, in plain torch.distributed for the launcher torchrun: it
starts again at each change.

Between checkpoints steps may be made twice, as after a crash of any such program. A second
argument: seconds of each checkpoint.
"""

import hashlib
import json
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.distributed as dist

from bftrainer import progress

PACE_S, CHECKPOINT_EVERY, CHECKPOINT = float(sys.argv[1]), 20, Path("weights.pt")
SAVE_S = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
torch.set_num_threads(1)
torch.manual_seed(7)
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
model = torch.nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
done = {"step": 0, "samples": 0}
if CHECKPOINT.exists():
    content = torch.load(CHECKPOINT, weights_only=True)
    model.load_state_dict(content["model"])
    optimizer.load_state_dict(content["optimizer"])
    done = content["done"]
parallel = torch.nn.parallel.DistributedDataParallel(model)
report = progress.Reporter()
agreement = progress.Agreement.of_torch(report, dist)


def weights() -> str:
    return hashlib.sha256(
        b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    ).hexdigest()[:16]


def note(name: str, **fields: object) -> None:
    line = {
        "at_s": time.time(),
        "incarnation": int(os.environ["BFTRAINER_INCARNATION"]),
        "size": size,
        **fields,
    }
    with Path(name).open("a") as out:
        out.write(json.dumps(line) + "\n")


def save() -> None:
    if rank == 0:
        content = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "done": done}
        time.sleep(SAVE_S)
        torch.save(content, CHECKPOINT.with_suffix(".new"))
        note("saved.jsonl", **done, weights=weights())
        CHECKPOINT.with_suffix(".new").replace(CHECKPOINT)
        report.checkpointed()
    dist.barrier()


note("begins.jsonl", rank=rank, **done, weights=weights())
told = torch.zeros(1)
while not told:
    torch.manual_seed(1000 * done["step"] + rank)
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(parallel(torch.randn(8, 16)), torch.randn(8, 4)).backward()
    optimizer.step()
    time.sleep(PACE_S)
    done = {"step": done["step"] + 1, "samples": done["samples"] + 8 * size}
    if rank == 0:
        note("steps.jsonl", **done, weights=weights())
    report.step(**done, world_size=size)
    if agreement.to_stop():
        save()
        report.leave()
    told = torch.tensor([float(Path("finish").exists())])
    dist.all_reduce(told)
    if done["step"] % CHECKPOINT_EVERY == 0:
        save()
        if agreement.to_stop_after_save():
            report.leave()
save()
report.done()
dist.destroy_process_group()
