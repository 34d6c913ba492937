"""A worker script of the tests: trains, and fails where its arguments say.

    fails_on_schedule.py --ranks 0,2 --at-step 20 --how exception|kill [--always]

A worker fails if the rank with which it started is listed and its group is the first one; with
``--always``, the last rank of every group fails, ``--at-step`` steps after the group was formed.
"""

import argparse
import os
import signal
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import horovod.torch as hvd
import torch

from bftrainer import progress

options = argparse.ArgumentParser()
options.add_argument("--ranks", default="")
options.add_argument("--at-step", type=int, default=20)
options.add_argument("--how", choices=["exception", "kill"], default="exception")
options.add_argument("--always", action="store_true")
options = options.parse_args()

hvd.init()
first_rank, first_size = hvd.rank(), hvd.size()
listed = {int(word) for word in options.ranks.split(",") if word}
state = progress.track(hvd.elastic.TorchState(step=0, samples=0, total=torch.zeros(())), hvd)


def fails(steps_of_group: int) -> bool:
    if options.always:
        return steps_of_group == options.at_step and hvd.rank() == hvd.size() - 1
    return state.step == options.at_step and hvd.size() == first_size and first_rank in listed


@hvd.elastic.run
def train(state):
    print("group of", hvd.size(), "started as", first_rank, "now", hvd.rank(), flush=True)
    begin = state.step
    while True:
        if fails(state.step - begin):
            if options.how == "exception":
                raise ValueError(f"rank {hvd.rank()} has bad data")
            os.kill(os.getpid(), signal.SIGKILL)
        state.total += hvd.allreduce(torch.ones(()), op=hvd.Sum, name="ones")
        time.sleep(0.01)
        state.step += 1
        state.samples += hvd.size()
        state.commit()
        assert int(state.total) == state.samples, (state.total, state.samples)


train(state)
