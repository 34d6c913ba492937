"""A trainer for rehearsals, standard library only: a line is fitted with momentum. One planted
fault at a time.

Every worker computes every step; they need no connection.

python trainer.py FAULT    "sound", or a name of FAULTS
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from bftrainer.progress import Batches, LearningRate, Reporter, Sampler, Scaling

FAULTS = (
    "no-checkpoint",
    "not-atomic",
    "ignores-sigterm",
    "forgets-optimizer",
    "counts-twice",
    "alone",
)
fault = sys.argv[1]
assert fault == "sound" or fault in FAULTS
rank, size = int(os.environ["RANK"]), 1 if fault == "alone" else int(os.environ["WORLD_SIZE"])
report, checkpoint, counter = Reporter(), Path("checkpoint.json"), Path("samples.txt")
state = {
    "step": 0,
    "samples": 0,
    "weights": [0.0] * 4,
    "velocity": [0.0] * 4,
    "sampler": None,
    "rate": None,
}
sampler, rate = (
    Sampler(100_000, Batches(Scaling.WEAK, 8), rank % size, size),
    LearningRate(base=0.002, base_batch=8),
)


class Weights:
    """The part of an array that is watched."""

    size = 4

    def reshape(self, _):
        return self

    def __getitem__(self, _):
        return self

    def tobytes(self):
        return repr(state["weights"]).encode()

    def __abs__(self):
        return self

    def sum(self):
        return sum(map(abs, state["weights"]))


if fault == "ignores-sigterm":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def load():
    if checkpoint.exists() and fault != "no-checkpoint":
        state.update(json.loads(checkpoint.read_text()))
    if state["sampler"] is not None:
        sampler.load_state_dict(state["sampler"])
        rate.load_state_dict(state["rate"])
    if counter.exists() and fault == "counts-twice":
        state["samples"] = int(counter.read_text())


def save():
    kept = {
        key: value
        for key, value in state.items()
        if not (key == "velocity" and fault == "forgets-optimizer")
    }
    if fault == "no-checkpoint" or rank != 0:
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
    lr = rate.at(sampler.batches.total(size), state["step"])
    state["weights"] = [
        w - lr * v for w, v in zip(state["weights"], state["velocity"], strict=True)
    ]
    state["step"] += 1
    state["samples"] += 8 * size
    sampler.advance()
    state.update(sampler=sampler.state_dict(), rate=rate.state_dict())
    if fault == "counts-twice" and rank == 0:
        counter.with_suffix(".part").write_text(str(state["samples"]))
        counter.with_suffix(".part").replace(counter)
    return loss


load()
report.watch(lambda: [Weights()], sampler=sampler, rate=rate)
while state["step"] < 100_000:
    loss = step()
    time.sleep(0.01)
    asked = report.step(step=state["step"], samples=state["samples"], loss=loss, world_size=size)
    if asked and fault != "ignores-sigterm":
        save()
        report.leave()
    if (
        state["step"] % 80 == 0
    ):  # seldom: a kill between two of them loses something, also if it comes late
        save()
