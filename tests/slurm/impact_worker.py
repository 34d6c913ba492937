"""A worker of zero_impact.py in a real framework, until it is killed: ``impact_worker.py
horovod|torchrun|restart|pool UP``.
"""

import os
import signal
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
KIND, UP = sys.argv[1], Path(sys.argv[2])
if KIND == "pool":
    from bftrainer.progress.tasks import tasks

    for _ in tasks(range(10_000), results=f"{UP}.jsonl"):
        UP.touch()
        time.sleep(0.2)

import torch  # noqa: E402

torch.set_num_threads(1)
model = torch.nn.Linear(512, 512)
optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
if KIND == "horovod":
    import horovod.torch as hvd

    hvd.init()
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
elif KIND == "torchrun":
    import torch.distributed as dist

    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(model)  # type: ignore[assignment]
else:  # it saves when it is asked to end, for as long as that takes

    def save(*signaled: object) -> None:
        for _ in range(30):
            torch.save(model.state_dict(), UP.with_suffix(".weights"))
            time.sleep(0.1)
        sys.exit()

    signal.signal(signal.SIGTERM, save)

while True:
    optimizer.zero_grad()
    model(torch.ones(8, 512)).sum().backward()
    optimizer.step()
    UP.touch()
    time.sleep(0.2)
