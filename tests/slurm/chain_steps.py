"""A trainer for tests under the launcher ``restart``: its weights are a chain of hashes, so each
step shows the whole past.

Writes what horovod_steps.py writes. A second argument: seconds of each checkpoint.
"""

import hashlib
import json
import os
import sys
import time
from pathlib import Path

from bftrainer.progress import Reporter

PACE_S, CHECKPOINT_EVERY, CHECKPOINT = float(sys.argv[1]), 20, Path("weights.json")
SAVE_S = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
report = Reporter()
step, samples, weights = json.loads(CHECKPOINT.read_text()) if CHECKPOINT.exists() else (0, 0, "")


def note(name: str, **fields: object) -> None:
    line = {
        "at_s": time.time(),
        "incarnation": report.incarnation,
        "size": SIZE,
        "step": step,
        "samples": samples,
    }
    with Path(name).open("a") as out:
        out.write(json.dumps({**line, "weights": weights, **fields}) + "\n")


def save() -> None:
    if RANK == 0:
        time.sleep(SAVE_S)
        CHECKPOINT.with_suffix(".new").write_text(json.dumps([step, samples, weights]))
        note("saved.jsonl")
        CHECKPOINT.with_suffix(".new").replace(CHECKPOINT)
        report.checkpointed()


note("begins.jsonl", rank=RANK)
while not Path("finish").exists():
    step, samples = step + 1, samples + 8 * SIZE
    weights = hashlib.sha256(f"{weights} {step}".encode()).hexdigest()[:16]
    time.sleep(PACE_S)
    if RANK == 0:
        note("steps.jsonl")
    if report.step(step=step, samples=samples, world_size=SIZE):
        save()
        report.leave()
    if step % CHECKPOINT_EVERY == 0:
        save()
save()
report.done()
