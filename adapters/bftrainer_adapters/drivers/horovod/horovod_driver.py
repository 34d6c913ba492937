"""``python -m bftrainer_adapters.drivers.horovod.horovod_driver DIR``: one Elastic Horovod trainer."""

from __future__ import annotations

import sys

from bftrainer_adapters.drivers.common.directory import TrainerDirectory
from bftrainer_adapters.drivers.common.events import EventWriter
from bftrainer_adapters.drivers.horovod.program import HorovodRun, run_driver


def prepare(directory: TrainerDirectory, events: EventWriter) -> HorovodRun:
    """Our own driver: warm workers, fragments, a closed rendezvous."""
    from bftrainer_adapters.drivers.horovod.trainer_run import TrainerRun

    return TrainerRun(directory, directory.read_trainer(), directory.read_driver(), events)


if __name__ == "__main__":
    run_driver("horovod", sys.argv[1], prepare)
