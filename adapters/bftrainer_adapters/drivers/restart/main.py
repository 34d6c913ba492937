"""Driver ``restart``: any program that can checkpoint. At each change of nodes it saves, stops and starts on the new nodes.

The driver requests a stop in the file ``leave``, which ``bftrainer.progress`` reads, and with ``stop_signal`` if it is set;
workers that are left after ``stop_s`` are killed. The program is started once per slot, or (``started_per = "trainer"``) once
on the first node, for programs such as ``mpiexec`` that start their own workers. Neither torch nor Horovod is needed.

Run as ``python -m bftrainer_adapters.drivers.restart.main TRAINER_DIR``.
"""

from __future__ import annotations

import sys

from bftrainer.protocol.messages import DriverSettings, StartedPer, TrainerMessage
from bftrainer.protocol.paths import TrainerDirectory
from bftrainer_adapters.drivers.common.restarting.program import PlainProgram, Program
from bftrainer_adapters.drivers.common.restarting.restarter import run_driver
from bftrainer_adapters.drivers.common.warm_command import warm_command


def make(directory: TrainerDirectory, trainer: TrainerMessage, settings: DriverSettings) -> Program:
    """A program that is started as the trainer's ``started_per`` says."""
    per_trainer = trainer.started_per is StartedPer.TRAINER
    return PlainProgram(directory, per_trainer, warm=None if per_trainer else warm_command(trainer.command))


if __name__ == "__main__":
    sys.exit(run_driver(sys.argv[1:], make))
