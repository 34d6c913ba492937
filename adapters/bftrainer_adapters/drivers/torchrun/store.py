"""The store at which the workers of one incarnation meet: torch's TCPStore, held by the driver, on one interface.

Because the driver holds the store, it survives the loss of any node. Each incarnation has a new port, which keeps late workers
of the last incarnation out. torch's store has no password: anyone who reaches the port can read and change keys, and so stop
or disturb the training (docs/torchrun.md). Nobody can run code through it: no process here unpickles its content, unlike the
c10d rendezvous of torchrun's agents.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import socket
import threading
from typing import Any

from bftrainer.errors import BFTrainerError
from bftrainer.system.network import interface_address


class NoTorchError(BFTrainerError):
    """The driver's Python has no torch."""


class StoreHost:
    """Listens at once; torch, whose import takes seconds, takes over in the background."""

    def __init__(self, interface: str) -> None:
        if importlib.util.find_spec("torch") is None:
            raise NoTorchError(
                "launcher torchrun: torch, which the driver needs for its workers' store, is not installed in the pilot's "
                "Python (pip install torch, or use the launcher restart)"
            )
        self.address = interface_address(interface)
        self._listener = socket.socket()
        self._listener.bind((self.address, 0))
        self._listener.listen(1024)
        self.port: int = self._listener.getsockname()[1]
        self._store: Any = None
        self._serving = threading.Thread(target=self._serve, name="torch store", daemon=True)
        self._serving.start()

    def close(self) -> None:
        self._serving.join()
        self._store = None  # ends torch's server, which closes its descriptor

    def _serve(self) -> None:
        distributed = importlib.import_module("torch.distributed")
        # torch closes the descriptor that it gets.
        handle = os.dup(self._listener.fileno())
        self._listener.close()
        self._store = distributed.TCPStore(
            self.address, self.port, is_master=True, wait_for_workers=False, master_listen_fd=handle
        )
