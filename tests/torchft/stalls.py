"""What a rescale costs a torchft trainer: the longest time between two steps while the group
changes.

    python tests/torchft/stalls.py [--repeat 3]        (make stalls, after torchrun's)

The example with local workers and a sleep of 20 ms in each step. A figure is the longest step
around the change; a step without one takes about 0.03 s on a quiet host.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import itertools

from support.horovod_trainer import Trainer
from support.stall_table import Cluster, Kind, hosts_of, print_stalls

ENVIRONMENT = {"BFTRAINER_REPORT_EVERY_S": "0"}
AFTER_STEPS = 5


def stall_s(trainer: Trainer, world_size: int, after_s: float) -> float:
    """The longest time between two steps from a moment on until a few steps after the first at
    ``world_size``.
    """
    trainer.read()
    ends = [
        line for line in trainer.progress if line["phase"] == "running" and not line.get("formed")
    ]
    ends.sort(key=lambda line: line["time"])
    first = next(
        n
        for n, line in enumerate(ends)
        if line["time"] >= after_s and line["world_size"] == world_size
    )
    begin = max(n for n, line in enumerate(ends) if line["time"] < after_s)
    times = [line["time"] for line in ends[begin : first + AFTER_STEPS]]
    return float(max(new - old for old, new in itertools.pairwise(times)))


@contextmanager
def ours(folder: Path, slots: int) -> Iterator[Cluster]:
    """A trainer under our launcher."""
    with hosts_of(
        Trainer(folder, driver="torchft", environment=ENVIRONMENT), slots, stall_s
    ) as made:
        yield made


KINDS: dict[str, Kind] = {"bftrainer": ours}

if __name__ == "__main__":
    print_stalls(__doc__, KINDS, once=[])
