"""Driver ``restart``: any program that can checkpoint. At each change of nodes it saves, stops and
starts on the new nodes.

The driver requests a stop in the file ``leave``, which ``bftrainer.progress`` reads, and with
``stop_signal`` if it is set; workers that are left after ``stop_s`` are killed. The program is
started once per slot, or (``started_per = "trainer"``) once on the first node, for programs such as
``mpiexec`` that start their own workers. Neither torch nor Horovod is needed.

Workers get RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torch's
``env://`` needs them, and BFTRAINER_HOSTS (``node:slots,node:slots``). A group of torch that a
Python program forms meets at a store of the driver, which has a key. Run as ``python -m
bftrainer_drivers.restart.main TRAINER_DIR``.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from bftrainer.errors import InvalidValueError
from bftrainer.wires.hosts_file import HostSlots
from bftrainer.wires.messages import DriverSettings, StartedPer
from bftrainer_drivers.common.group_guards import guard_variables
from bftrainer_drivers.common.keyed_store import KEYED_STORE, NO_STORE
from bftrainer_drivers.common.rendezvous_store import StoreHost
from bftrainer_drivers.common.restarts import Rank, RestartBackend, ranked_workers
from bftrainer_drivers.common.run_loop import Run, drive

_FIRST_PORT, _PORTS = 20_000, 10_000
"""A worker's meeting port is one of these: they are below the ports that Linux gives to clients."""


class PlainBackend(RestartBackend):
    """A program that is started as the trainer's ``started_per`` says."""

    def __init__(self, run: Run) -> None:
        self._per_trainer = run.trainer.started_per is StartedPer.TRAINER
        super().__init__(run, collective=False, warm=not self._per_trainer)
        is_guided = self._warm is not None and "MASTER_ADDR" not in run.trainer.environment
        self._store = KeyedStore(run.settings) if is_guided else None

    def ranks(self, incarnation: int, hosts: Sequence[HostSlots]) -> list[Rank]:
        """Return the workers, which meet at a random port on the first node: nobody can listen
        there before rank 0, and two incarnations do not meet. The port has no key; a group of torch
        meets at a store with one instead (docs/security.md).
        """
        port = _FIRST_PORT + secrets.randbelow(_PORTS)
        common = {"MASTER_ADDR": hosts[0].node, "MASTER_PORT": str(port)}
        if self._store is not None:
            common |= self._store.variables()
        workers = ranked_workers(hosts, common)
        return workers[:1] if self._per_trainer else workers

    def close(self) -> None:
        if self._store is not None:
            self._store.close()


class KeyedStore:
    """A store for the groups of torch that a program may form, with a new port and a new key for
    each incarnation.
    """

    def __init__(self, settings: DriverSettings) -> None:
        self._settings = settings
        self._host: StoreHost | None = None

    def variables(self) -> dict[str, str]:
        """Open a new store, and return the variables that its workers need.

        Programs that form no group do not need the store. So what keeps the driver from opening one
        ends only workers that form a group, with that reason.
        """
        settings = self._settings
        try:
            if self._host is None:
                self._host = StoreHost(settings.interface, settings.allow_from)
            return {KEYED_STORE: str(self._host.open()), **guard_variables(settings)}
        except (InvalidValueError, OSError) as error:
            return {KEYED_STORE: f"{NO_STORE}{error}"}

    def close(self) -> None:
        """End the last store."""
        if self._host is not None:
            self._host.close_store()


if __name__ == "__main__":
    drive("restart", PlainBackend)
