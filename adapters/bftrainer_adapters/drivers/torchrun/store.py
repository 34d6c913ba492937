"""The store at which the workers of one incarnation meet: torch's TCPStore, held beside the driver, on one interface.

Because the store is held here, it survives the loss of any node. Each incarnation has a new port, which keeps late workers of
the last incarnation out. Nobody can run code through it: no process here unpickles its content, unlike the c10d rendezvous of
torchrun's agents.

torch's store has no password and no limit of connections. The kernel drops what comes from outside of the trainer's networks;
inside them, anyone who reaches the port can read and change keys, and so stop or disturb the training (docs/torchrun.md). The
store lives in a process of its own, so that its connections take none of the driver's descriptors and threads.
"""

from __future__ import annotations

import importlib.util
import json
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import IPv4Network, ip_network

from bftrainer.errors import BFTrainerError
from bftrainer.system.network import accept_only_from, interface_address
from bftrainer_adapters.drivers.torchrun import store_process

_BACKLOG = 1024
_ENDS_S = 60.0


class NoTorchError(BFTrainerError):
    """The driver's Python has no torch."""


class StoreHost:
    """A process with torch, started once, and the store of one incarnation after the other in it.

    A port listens at once; torch, whose import takes seconds, takes over when it is ready.
    """

    def __init__(self, interface: str, networks: Sequence[str]) -> None:
        if importlib.util.find_spec("torch") is None:
            raise NoTorchError(
                "launcher torchrun: torch, which the driver needs for its workers' store, is not installed in the pilot's "
                "Python (pip install torch, or use the launcher restart)"
            )
        self.address = interface_address(interface)
        known = [ip_network(network) for network in networks]
        self._networks = [it for it in known if isinstance(it, IPv4Network)] + [IPv4Network(self.address)]
        self._process: subprocess.Popen[bytes] | None = None
        self._orders: socket.socket | None = None

    def open(self) -> int:
        """The port of a new store. Raises ``OSError``."""
        with socket.socket() as listener:
            listener.bind((self.address, 0))
            accept_only_from(listener, self._networks)
            listener.listen(_BACKLOG)
            port: int = listener.getsockname()[1]
            order = json.dumps({"address": self.address, "port": port}).encode()
            try:
                socket.send_fds(self._started(), [order], [listener.fileno()])
            except BrokenPipeError:  # the process has just died
                self.end()
                socket.send_fds(self._started(), [order], [listener.fileno()])
        return port

    def close_store(self) -> None:
        """End the last store."""
        if self._orders is not None:
            try:
                self._orders.send(store_process.CLOSE)
                closed = self._orders.recv(len(store_process.CLOSE)) == store_process.CLOSE
            except OSError:
                closed = False
            if not closed:  # it has died, or it hangs: the next store gets another process
                self.end()

    def end(self) -> None:
        """End the process."""
        if self._orders is not None:
            self._orders.close()
            self._orders = None
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait()
            self._process = None

    def _started(self) -> socket.socket:
        if self._process is not None and self._process.poll() is not None:
            self.end()
        if self._orders is None:
            # Messages with borders; the end of either side ends the other's read.
            self._orders, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._orders.settimeout(_ENDS_S)
            with its:
                argv = [sys.executable, "-m", store_process.__name__, str(its.fileno())]
                self._process = subprocess.Popen(  # noqa: S603  # our own program
                    argv, pass_fds=(its.fileno(),), stdin=subprocess.DEVNULL, start_new_session=True
                )
        return self._orders
