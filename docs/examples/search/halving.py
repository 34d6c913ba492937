"""Asynchronous successive halving (ASHA): the pilot ends trials that are worse than most others at
the same number of samples.

    python docs/examples/search/halving.py --trials 16

A pilot must be running on the state directory. This script only waits: it can be interrupted and
started again, since a sweep that is submitted again returns the trials that are there.
"""

import argparse
from pathlib import Path

import bftrainer

options = argparse.ArgumentParser()
options.add_argument("--trials", type=int, default=16)
options.add_argument("--first", type=int, default=1024, help="samples of the first rung")
options.add_argument("--most", type=int, default=8192, help="samples of a whole training")
options.add_argument("--step-s", type=float, default=0.05)
options.add_argument("--group", default="halving")
options = options.parse_args()

FILE = Path(__file__).with_name("trial.toml")
command = [
    "python",
    "trial.py",
    "--lr",
    "{lr}",
    "--checkpoint",
    "{name}.npz",
    "--step-s",
    str(options.step_s),
]
rates = [10 ** (-3 + 3.5 * i / max(options.trials - 1, 1)) for i in range(options.trials)]
handles = bftrainer.sweep(
    FILE,
    name=options.group,
    group=options.group,
    command=command,
    parameters={},
    trials=[{"lr": f"{rate:.4g}"} for rate in rates],
    stop=bftrainer.ASHA("loss", first=options.first, most=options.most, factor=2),
)
for handle in bftrainer.as_completed(handles):
    print(f"{handle.name}: {handle.view().reason or 'done'}", flush=True)
rows = [
    row
    for row in bftrainer.results(options.group, minimize="loss")
    if row.status is bftrainer.SubmissionStatus.DONE
]
print(
    f"best: {rows[0].name} with loss {rows[0].metric('loss').least:.3f}; {len(rows)} of "
    f"{len(handles)} trained to the end"
)
