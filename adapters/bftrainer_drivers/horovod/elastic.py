"""Driver ``horovod``: Elastic Horovod with warm workers, fragments and a protected rendezvous.

Run as ``python -m bftrainer_drivers.horovod.elastic TRAINER_DIR``.
"""

from __future__ import annotations

from bftrainer_drivers.common.run_loop import Backend, Run, drive


def make(run: Run) -> Backend:
    """Build the backend. Raises ``ImportError`` without Horovod."""
    from bftrainer_drivers.horovod.backend import HorovodBackend

    return HorovodBackend(run)


if __name__ == "__main__":
    drive("horovod", make, "see docs/horovod.md for how to build it")
