"""A trainer for tests, without numpy: counts steps, checkpoints every tenth, says so, obeys stop
requests.

It is done after so many steps, or when a file beside its record ends in .enough.
"""

import json
import os
import sys
import time
from pathlib import Path

from bftrainer.progress import Reporter

checkpoint, record, steps, pace_s = (
    Path(sys.argv[1]),
    Path(sys.argv[2]),
    int(sys.argv[3]),
    float(sys.argv[4]),
)
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
report = Reporter()
enough = record.with_suffix(".enough")
step = json.loads(checkpoint.read_text()) if checkpoint.exists() else 0


def save() -> None:
    if rank == 0:
        part = checkpoint.with_suffix(".part")
        part.write_text(json.dumps(step))
        part.replace(checkpoint)
        report.checkpointed()


while step < steps and not enough.exists():
    step += 1
    if rank == 0:
        with record.open("a") as out:
            out.write(f"{report.incarnation} {step} {size}\n")
    if report.step(
        step=step,
        samples=step,
        world_size=size,
        loss=1 / step if "REPORTS_LOSS" in os.environ else None,
    ):
        save()
        report.leave()
    if step % 10 == 0:
        save()
    time.sleep(pace_s)
save()
report.done()
