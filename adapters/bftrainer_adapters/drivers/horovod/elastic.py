"""Driver ``horovod``: ``python -m bftrainer_adapters.drivers.horovod.elastic TRAINER_DIR``."""

from __future__ import annotations

import sys

from bftrainer.protocol.messages import DriverSettings, TrainerMessage
from bftrainer.protocol.paths import TrainerDirectory
from bftrainer.protocol.typed_json import read_json
from bftrainer_adapters.drivers.common.event_writer import EventWriter
from bftrainer_adapters.drivers.common.lifecycle import Run, run_driver


def prepare(directory: TrainerDirectory, events: EventWriter) -> Run:
    """Elastic Horovod with warm workers, fragments and a protected rendezvous."""
    from bftrainer_adapters.drivers.horovod.elastic_run import ElasticRun

    return ElasticRun(
        directory, read_json(TrainerMessage, directory.trainer), read_json(DriverSettings, directory.driver), events
    )


if __name__ == "__main__":
    run_driver("horovod", sys.argv[1], prepare, "see docs/horovod.md for how to build it")
