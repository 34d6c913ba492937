"""Driver ``horovodrun``: ``python -m bftrainer_drivers.horovod.stock TRAINER_DIR``, if the
site allows it.
"""

from __future__ import annotations

from bftrainer.errors import InvalidValueError
from bftrainer_drivers.common.run_loop import Backend, Run, drive


def make(run: Run) -> Backend:
    """Build the backend. Raises :class:`InvalidValueError` unless the configuration allows it, and
    ``ImportError`` without Horovod.
    """
    if not run.settings.allow_stock_horovodrun:
        raise InvalidValueError(
            "stock horovodrun executes code that anyone sends to its port, and listens on "
            "every interface; use the launcher "
            "'horovod', or set allow_stock_horovodrun if no other user can reach this host"
        )
    from bftrainer_drivers.horovod.stock_backend import StockBackend

    return StockBackend(run)


if __name__ == "__main__":
    drive("horovodrun", make, "see docs/horovod.md for how to build it")
