"""``python -m bftrainer_adapters.drivers.horovod.horovodrun_driver DIR``: one trainer under stock horovodrun, if allowed."""

from __future__ import annotations

import sys

from bftrainer.errors import InvalidValueError
from bftrainer_adapters.drivers.common.directory import TrainerDirectory
from bftrainer_adapters.drivers.common.events import EventWriter
from bftrainer_adapters.drivers.horovod.program import HorovodRun, run_driver


def prepare(directory: TrainerDirectory, events: EventWriter) -> HorovodRun:
    """Stock horovodrun, if the configuration says so."""
    settings = directory.read_driver()
    if not settings.allow_stock_horovodrun:
        raise InvalidValueError(
            "stock horovodrun runs whatever is sent to its port, on every interface; use the launcher 'horovod', or set "
            "allow_stock_horovodrun where nobody else reaches this host"
        )
    import horovod.runner  # noqa: F401  # say so now if it is missing

    from bftrainer_adapters.drivers.horovod.stock_run import StockRun

    return StockRun(directory, directory.read_trainer(), settings, events)


if __name__ == "__main__":
    run_driver("horovodrun", sys.argv[1], prepare)
