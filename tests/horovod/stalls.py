"""What a rescale costs: from the last step of the old group to the first of the new one, by the
progress log.

    python tests/horovod/stalls.py [--repeat 5]        (make stalls)

Real Elastic Horovod with local workers, a small model, a commit every step of 20 ms: our driver
with warm workers, and stock horovodrun, whose survivors wait for Gloo's timeout (its default of 30
s) where they wait for each other. A stall holds the step itself and the wait for the next commit.
``--kinds "bftrainer, cold"`` measures our driver with cold workers.
"""

from __future__ import annotations

import functools
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.horovod_trainer import Trainer
from support.stall_table import Cluster, hosts_of, print_stalls

KINDS: dict[str, dict[str, Any]] = {
    "bftrainer": {},
    "bftrainer, cold": {"warm": False},
    "stock horovodrun": {
        "driver": "horovodrun",
        "allow_stock_horovodrun": True,
        "environment": {"HOROVOD_GLOO_TIMEOUT_SECONDS": "30"},
    },
}


def stall_s(trainer: Trainer, _: int, after_s: float) -> float:
    """Of the first rescale after a time. The step before it may have been reported by another rank
    0.
    """
    lines = sorted(
        (line for line in trainer.progress if line["phase"] == "running"),
        key=lambda line: line["time"],
    )
    formed = next(
        index for index, line in enumerate(lines) if line.get("formed") and line["time"] >= after_s
    )
    before = max(line["time"] for line in lines[:formed] if line["step"] <= lines[formed]["step"])
    first = next(
        line
        for line in lines[formed + 1 :]
        if not line.get("formed") and line["step"] > lines[formed]["step"]
    )
    return float(first["time"] - before)


def made(folder: Path, slots: int, kind: dict[str, Any]) -> AbstractContextManager[Cluster]:
    """A trainer of one kind."""
    return hosts_of(Trainer(folder, **dict(kind)), slots, stall_s)


if __name__ == "__main__":
    kinds = {name: functools.partial(made, kind=kind) for name, kind in KINDS.items()}
    print_stalls(__doc__, kinds, once=["bftrainer, cold", "stock horovodrun"])
