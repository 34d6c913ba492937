"""One trial of a search: a small network learns generated digits, with NumPy alone, in about a
second.

    bftrainer submit docs/examples/search/trial.toml --grid lr=0.03,0.1,0.3,1 --grid hidden=8,32

It reports its loss at every step and its accuracy on unseen digits at every epoch; `bftrainer
results` shows both.
"""

import argparse
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from bftrainer import progress

options = argparse.ArgumentParser()
options.add_argument("--lr", type=float, default=0.1)
options.add_argument("--hidden", type=int, default=16)
options.add_argument("--epochs", type=int, default=8)
options.add_argument("--checkpoint", type=Path, default=Path("trial.npz"))
options.add_argument(
    "--step-s", type=float, default=0.0, help="sleep per step, to stand in for a larger model"
)
options = options.parse_args()
rng = np.random.default_rng(7)
patterns = rng.standard_normal((10, 64))


def digits(count):
    """Noisy patterns and their numbers."""
    labels = rng.integers(10, size=count)
    return patterns[labels] + 1.5 * rng.standard_normal((count, 64)), labels


def scores(images):
    """The activations of both layers."""
    hidden = np.maximum(images @ first, 0)
    return hidden, hidden @ second


(images, labels), (unseen, answers) = digits(1024), digits(512)
first = rng.standard_normal((64, options.hidden)) / 8
second = rng.standard_normal((options.hidden, 10)) / options.hidden**0.5
report = progress.Reporter()
sampler = progress.Sampler(len(images), progress.batches(progress.Scaling.STRONG, 64))
step = 0
if options.checkpoint.exists():
    with np.load(options.checkpoint) as saved:
        first, second, step = saved["first"], saved["second"], int(saved["step"])
        sampler.samples = int(saved["samples"])


def save():
    """Write a checkpoint under another name, then rename it."""
    part = options.checkpoint.with_suffix(".part.npz")
    np.savez(part, first=first, second=second, step=step, samples=sampler.samples)
    part.replace(options.checkpoint)
    report.checkpointed(options.checkpoint)


while (epoch := sampler.epoch) < options.epochs:
    for mine in sampler:
        hidden, out = scores(images[mine])
        chances = np.exp(out - out.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        truth = np.eye(10)[labels[mine]]
        loss = float(-np.log((chances * truth).sum(axis=1) + 1e-12).mean())
        back = (chances - truth) / len(mine)
        change = images[mine].T @ ((back @ second.T) * (hidden > 0))
        second -= options.lr * hidden.T @ back
        first -= options.lr * change
        sampler.advance()
        step += 1
        metrics = {}
        if sampler.epoch > epoch:
            metrics = {"accuracy": float((scores(unseen)[1].argmax(axis=1) == answers).mean())}
        if report.step(step=step, samples=sampler.samples, loss=loss, metrics=metrics):
            save()
            report.leave()
        time.sleep(options.step_s)
save()
report.done()
