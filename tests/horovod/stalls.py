"""What a rescale costs: from the last step of the old group to the first of the new one, by the progress log.

    python tests/horovod/stalls.py [--repeat 5]        (make stalls)

Real Elastic Horovod with local workers, a small model, a commit every step of 20 ms: our driver with warm workers, the same
with cold ones, and stock horovodrun, one after the other. A stall holds the step itself and the wait for the next commit.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from horovod_trainer import Trainer
from stall_table import print_stalls

KINDS: dict[str, dict[str, Any]] = {
    "our driver, warm": {},
    "our driver, cold": {"warm": False},
    "stock horovodrun": {"driver": "horovodrun", "allow_stock_horovodrun": True},
}


def stall_s(trainer: Trainer, after_s: float) -> float:
    """Of the first rescale after a time. The step before it may have been reported by another rank 0."""
    lines = sorted((line for line in trainer.progress if line["phase"] == "running"), key=lambda line: line["time"])
    formed = next(index for index, line in enumerate(lines) if line.get("formed") and line["time"] >= after_s)
    before = max(line["time"] for line in lines[:formed] if line["step"] <= lines[formed]["step"])
    first = next(
        line for line in lines[formed + 1 :] if not line.get("formed") and line["step"] > lines[formed]["step"]
    )
    return float(first["time"] - before)


def measure(folder: Path, kind: dict[str, Any]) -> dict[str, float]:
    """One trainer through all the cases."""
    found = {}
    with Trainer(folder, **dict(kind)) as trainer:

        def case(name: str, world_size: int, asked_s: float) -> None:
            trainer.event("running", asked_s, world_size=world_size)
            trainer.steps(world_size)
            found[name] = stall_s(trainer, asked_s)

        trainer.start("a:1:1")
        trainer.steps(1)
        case("up 1 to 2", 2, trainer.hosts("a:1:1 b:1:2"))
        case("down 2 to 1", 1, trainer.hosts("a:1:1"))
        asked_s = trainer.hosts("a:1:1 c:1:3")
        trainer.event("running", asked_s, world_size=2)
        trainer.steps(2)
        case("rank 0 leaves", 1, trainer.hosts("c:1:3"))
        asked_s = trainer.hosts("c:1:3 d:1:4")
        trainer.event("running", asked_s, world_size=2)
        trainer.steps(2)
        case("worker killed", 1, trainer.kill("4"))
        trainer.check_continuity()
    return found


if __name__ == "__main__":
    print_stalls(__doc__, {name: functools.partial(measure, kind=kind) for name, kind in KINDS.items()})
