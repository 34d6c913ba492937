"""Driver ``torchft``: ``python -m bftrainer_adapters.drivers.torchft.main TRAINER_DIR``."""

from __future__ import annotations

from bftrainer_adapters.drivers.common.run import Backend, Run, drive


def make(run: Run) -> Backend:
    """Replicas that train on when one of them is lost. Raises ``ImportError`` without torchft's packages."""
    from bftrainer_adapters.drivers.torchft.backend import ReplicaBackend

    return ReplicaBackend(run)


if __name__ == "__main__":
    drive("torchft", make, "install it in the pilot's Python: pip install 'bftrainer[torchft]'")
