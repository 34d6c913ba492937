"""``python -m bftrainer_adapters.horovod_driver TRAINER_DIR``: one Elastic Horovod trainer (``docs/trainer-directory.md``)."""

from __future__ import annotations

import sys

from bftrainer_adapters.driver.directory import TrainerDirectory
from bftrainer_adapters.driver.events import EventWriter
from bftrainer_adapters.elastic_horovod.program import Run, run_driver


def prepare(directory: TrainerDirectory, events: EventWriter) -> Run:
    """Our own driver: warm workers, fragments, a closed rendezvous."""
    from bftrainer_adapters.elastic_horovod.trainer_run import TrainerRun

    return TrainerRun(directory, directory.read_trainer(), directory.read_driver(), events)


if __name__ == "__main__":
    run_driver("horovod", sys.argv[1], prepare)
