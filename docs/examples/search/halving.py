"""Successive halving: trials that are worse than most others at the same number of samples are canceled.

    python docs/examples/search/halving.py --trials 16

The rule is asynchronous, since idle nodes rarely suffice for all trials at once: a trial that passes a rung goes on if its loss
there is among the best half of all trials that have passed it so far. A pilot must be running on the state directory.
"""

import argparse
import time
from pathlib import Path

import bftrainer

options = argparse.ArgumentParser()
options.add_argument("--trials", type=int, default=16)
options.add_argument("--rungs", type=int, nargs="+", default=[1024, 2048, 4096], help="samples")
options.add_argument("--step-s", type=float, default=0.05)
options.add_argument("--group", default="halving")
options = options.parse_args()

FILE = Path(__file__).with_name("trial.toml")
command = ["python", "trial.py", "--lr", "{lr}", "--checkpoint", "{name}.npz", "--step-s", str(options.step_s)]
rates = [10 ** (-3 + 3.5 * i / max(options.trials - 1, 1)) for i in range(options.trials)]
# A sweep that is submitted again returns the trials that are there: this script can be interrupted and started again.
handles = bftrainer.sweep(
    FILE, name=options.group, group=options.group, command=command, parameters={},
    trials=[{"lr": f"{rate:.4g}"} for rate in rates],
)  # fmt: skip
passed = {rung: {} for rung in options.rungs}


def loss_at(handle, rung):
    """The first reported loss at this number of samples or more; None before."""
    points = handle.history().points
    return next((point.loss for point in points if point.samples >= rung and point.loss is not None), None)


open_ones = list(handles)
while open_ones:
    for handle in list(open_ones):
        if handle.done():
            open_ones.remove(handle)
        for rung, losses in passed.items():
            if handle.name not in losses and (loss := loss_at(handle, rung)) is not None:
                losses[handle.name] = loss
                better = sum(other < loss for other in losses.values())
                if len(losses) > 1 and better >= (len(losses) + 1) // 2 and not handle.done():
                    handle.cancel()
                    print(f"{handle.name}: loss {loss:.3f} at {rung} samples, canceled", flush=True)
    time.sleep(0.2)
rows = [
    row for row in bftrainer.results(options.group, minimize="loss") if row.status is bftrainer.SubmissionStatus.DONE
]
print(
    f"best: {rows[0].name} with loss {rows[0].metric('loss').least:.3f}; {len(rows)} of {len(handles)} trained to the end"
)
