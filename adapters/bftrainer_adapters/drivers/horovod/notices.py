"""Tells rank 0 that the nodes have changed, with a deadline on every step.

Horovod 0.28.1's own client has none: towards a stopped process it waits for ever, and its caller holds the lock that
discovery needs.
"""

from __future__ import annotations

import socket
import time

from horovod.runner.common.util.network import Wire
from horovod.runner.elastic.worker import HostsUpdatedRequest, HostUpdateResult

from bftrainer_adapters.drivers.horovod.plain_pickle import Addresses

TIMEOUT_S = 2.0


def notify(addresses: Addresses, key: bytes) -> bool:
    """Whether a worker has taken the notice.

    Workers drop a notice that is not younger than the last one, and stock time stamps are whole seconds; these are
    milliseconds. ``mixed``: with ``removed`` alone the survivors would skip the synchronization that a newcomer, announced a
    moment later, is waiting in.
    """
    request = HostsUpdatedRequest(time.time_ns() // 1_000_000, HostUpdateResult.mixed)
    return any(_send(request, address, key) for places in addresses.values() for address in places)


def _send(request: HostsUpdatedRequest, address: tuple[str, int], key: bytes) -> bool:
    wire = Wire(key)
    try:
        with socket.create_connection(address, timeout=TIMEOUT_S) as connection:
            with connection.makefile("wb") as out:
                wire.write(request, out)
            with connection.makefile("rb") as answer:
                wire.read(answer)
    except Exception:  # Wire raises bare Exception; the notice is sent again until the group has changed
        return False
    return True
