"""Holds torch's TCPStore for a driver: ``python -m ...store_process SOCKET``. Ends with the driver, whose socket then closes.

Each order is a message on the socket: address and port in JSON, with the listening descriptor; or ``CLOSE``, which ends the
last store and is sent back.
"""

from __future__ import annotations

import gc
import importlib
import json
import resource
import socket
import sys

CLOSE = b"close"
_MESSAGE_BYTES = 4096


def main(handle: int) -> None:
    """Follow orders until the driver ends."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # the store has no limit of connections, so only this one
    distributed = importlib.import_module("torch.distributed")
    held: list[object] = []
    with socket.socket(fileno=handle) as orders:
        while True:
            message, handles, _, _ = socket.recv_fds(orders, _MESSAGE_BYTES, 1)
            if not message:
                return
            if message == CLOSE:
                held.clear()  # ends torch's server, which closes its descriptor
                gc.collect()
                orders.send(CLOSE)
                continue
            order = json.loads(message)
            place = order["address"], order["port"]
            held[:] = [
                distributed.TCPStore(*place, is_master=True, wait_for_workers=False, master_listen_fd=handles[0])
            ]


if __name__ == "__main__":
    main(int(sys.argv[1]))
