"""Driver ``restart``: any program that can checkpoint. At each change of nodes it saves, stops and
starts on the new nodes.

The driver requests a stop in the file ``leave``, which ``bftrainer.progress`` reads, and with
``stop_signal`` if it is set; workers that are left after ``stop_s`` are killed. The program is
started once per slot, or (``started_per = "trainer"``) once on the first node, for programs such as
``mpiexec`` that start their own workers. Neither torch nor Horovod is needed.

Workers get RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torch's
``env://`` needs them, and BFTRAINER_HOSTS (``node:slots,node:slots``). Run as ``python -m
bftrainer_drivers.restart.main TRAINER_DIR``.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from bftrainer.wires.hosts_file import HostSlots
from bftrainer.wires.messages import StartedPer
from bftrainer_drivers.common.restarts import Rank, RestartBackend, ranked_workers
from bftrainer_drivers.common.run_loop import Run, drive

_FIRST_PORT, _PORTS = 20_000, 10_000
"""A worker's meeting port is one of these: they are below the ports that Linux gives to clients."""


class PlainBackend(RestartBackend):
    """A program that is started as the trainer's ``started_per`` says."""

    def __init__(self, run: Run) -> None:
        self._per_trainer = run.trainer.started_per is StartedPer.TRAINER
        super().__init__(run, collective=False, warm=not self._per_trainer)

    def ranks(self, incarnation: int, hosts: Sequence[HostSlots]) -> list[Rank]:
        """Return the workers, which meet at a random port on the first node: nobody can listen
        there before rank 0, and two incarnations do not meet. The port has no key
        (docs/security.md).
        """
        port = _FIRST_PORT + secrets.randbelow(_PORTS)
        workers = ranked_workers(hosts, {"MASTER_ADDR": hosts[0].node, "MASTER_PORT": str(port)})
        return workers[:1] if self._per_trainer else workers


if __name__ == "__main__":
    drive("restart", PlainBackend)
