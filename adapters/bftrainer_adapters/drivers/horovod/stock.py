"""Driver ``horovodrun``: ``python -m bftrainer_adapters.drivers.horovod.stock TRAINER_DIR``, if the site allows it."""

from __future__ import annotations

import sys

from bftrainer.errors import InvalidValueError
from bftrainer.protocol.messages import DriverSettings, TrainerMessage
from bftrainer.protocol.paths import TrainerDirectory
from bftrainer.protocol.typed_json import read_json
from bftrainer_adapters.drivers.common.event_writer import EventWriter
from bftrainer_adapters.drivers.common.lifecycle import Run, run_driver


def prepare(directory: TrainerDirectory, events: EventWriter) -> Run:
    """Stock horovodrun. Raises :class:`InvalidValueError` unless the configuration allows it."""
    settings = read_json(DriverSettings, directory.driver)
    if not settings.allow_stock_horovodrun:
        raise InvalidValueError(
            "stock horovodrun executes code that anyone sends to its port, and listens on every interface; use the launcher "
            "'horovod', or set allow_stock_horovodrun if nobody else can reach this host"
        )
    import horovod.runner  # noqa: F401  # fail now if it is missing

    from bftrainer_adapters.drivers.horovod.stock_run import StockRun

    return StockRun(directory, read_json(TrainerMessage, directory.trainer), settings, events)


if __name__ == "__main__":
    run_driver("horovodrun", sys.argv[1], prepare, "see docs/horovod.md for how to build it")
