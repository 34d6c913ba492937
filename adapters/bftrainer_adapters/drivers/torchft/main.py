"""Driver ``torchft``: ``python -m bftrainer_adapters.drivers.torchft.main TRAINER_DIR``."""

from __future__ import annotations

import sys

from bftrainer.protocol.messages import DriverSettings, TrainerMessage
from bftrainer.protocol.paths import TrainerDirectory
from bftrainer.protocol.typed_json import read_json
from bftrainer_adapters.drivers.common.event_writer import EventWriter
from bftrainer_adapters.drivers.common.lifecycle import Run, run_driver


def prepare(directory: TrainerDirectory, events: EventWriter) -> Run:
    """Replicas that train on when one of them is lost."""
    from bftrainer_adapters.drivers.torchft.run import ReplicaRun

    return ReplicaRun(
        directory, read_json(TrainerMessage, directory.trainer), read_json(DriverSettings, directory.driver), events
    )


if __name__ == "__main__":
    run_driver("torchft", sys.argv[1], prepare, "install it in the pilot's Python: pip install 'bftrainer[torchft]'")
