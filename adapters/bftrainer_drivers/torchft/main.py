"""Driver ``torchft``: ``python -m bftrainer_drivers.torchft.main TRAINER_DIR``. It needs
no package of torchft.
"""

from __future__ import annotations

from bftrainer_drivers.common.run_loop import drive
from bftrainer_drivers.torchft.backend import ReplicaBackend

if __name__ == "__main__":
    drive("torchft", ReplicaBackend)
