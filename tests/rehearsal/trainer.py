"""A trainer for rehearsals, standard library only: a line is fitted with momentum. One planted fault at a time.

python trainer.py FAULT    "sound", or a name of FAULTS
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from bftrainer.progress import Reporter

FAULTS = ("no-checkpoint", "not-atomic", "ignores-sigterm", "forgets-optimizer", "counts-twice")
fault = sys.argv[1]
assert fault == "sound" or fault in FAULTS
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
report, checkpoint, counter = Reporter(), Path("checkpoint.json"), Path("samples.txt")
state = {"step": 0, "samples": 0, "weights": [0.0] * 4, "velocity": [0.0] * 4}
if fault == "ignores-sigterm":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def load():
    if checkpoint.exists() and fault != "no-checkpoint":
        state.update(json.loads(checkpoint.read_text()))
    if counter.exists() and fault == "counts-twice":
        state["samples"] = int(counter.read_text())


def save():
    kept = {key: value for key, value in state.items() if not (key == "velocity" and fault == "forgets-optimizer")}
    if fault == "no-checkpoint":
        return
    if fault == "not-atomic":
        checkpoint.write_text(json.dumps(kept))
    else:
        part = checkpoint.with_suffix(".part")
        part.write_text(json.dumps(kept))
        part.replace(checkpoint)
    report.checkpointed()


def step():
    """One batch: the same at this step, whoever computes it, and however often."""
    numbers = random.Random(state["step"])
    loss, gradient = 0.0, [0.0] * 4
    for _ in range(8):
        inputs = [numbers.gauss(0, 1) for _ in range(4)]
        error = sum(
            (w - t) * x for w, t, x in zip(state["weights"], (1, -2, 3, -4), inputs, strict=True)
        ) + numbers.gauss(0, 0.3)
        loss += error * error / 8
        gradient = [g + 2 * error * x / 8 for g, x in zip(gradient, inputs, strict=True)]
    state["velocity"] = [0.9 * v + g for v, g in zip(state["velocity"], gradient, strict=True)]
    state["weights"] = [w - 0.002 * v for w, v in zip(state["weights"], state["velocity"], strict=True)]
    state["step"] += 1
    state["samples"] += 8 * size
    if fault == "counts-twice":
        counter.with_suffix(".part").write_text(str(state["samples"]))
        counter.with_suffix(".part").replace(counter)
    return loss


load()
while rank != 0:  # a worker that only listens
    time.sleep(0.01)
    if report.stop_requested():
        report.leave()
while state["step"] < 100_000:
    loss = step()
    time.sleep(0.01)
    asked = report.step(step=state["step"], samples=state["samples"], loss=loss, world_size=size)
    if asked and fault != "ignores-sigterm":
        save()
        report.leave()
    if state["step"] % 80 == 0:  # seldom: a kill between two of them loses something, also if it comes late
        save()
