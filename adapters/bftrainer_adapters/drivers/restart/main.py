"""Driver ``restart``: any program that can checkpoint. Every change of nodes is checkpoint, stop, start on the new nodes.

The program is asked to leave by the ``leave`` file that ``bftrainer.progress`` reads, and by its ``stop_signal`` where it
named one; what is not gone after ``stop_s`` is killed. It is started once per slot, or (``started_per`` "trainer") once on
the first node, for programs such as ``mpiexec`` that start their own workers. Needs neither torch nor Horovod.

Run as ``python -m bftrainer_adapters.drivers.restart.main TRAINER_DIR``.
"""

from __future__ import annotations

import sys

from bftrainer.protocol.messages import DriverSettings, StartedPer, TrainerMessage
from bftrainer.protocol.paths import TrainerDirectory
from bftrainer_adapters.drivers.common.restarting.program import PlainProgram, Program
from bftrainer_adapters.drivers.common.restarting.restarter import run_driver


def make(directory: TrainerDirectory, trainer: TrainerMessage, settings: DriverSettings) -> Program:
    """By the trainer's ``started_per``."""
    return PlainProgram(directory, trainer.started_per is StartedPer.TRAINER)


if __name__ == "__main__":
    sys.exit(run_driver(sys.argv[1:], make))
