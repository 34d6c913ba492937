"""Notifies workers, with a deadline for every step: rank 0 of changed nodes, survivors of a lost worker.

Horovod 0.28.1's own client has no deadline: it waits forever for a stopped process, while its caller holds the lock that
discovery needs.
"""

from __future__ import annotations

import socket
import time

from horovod.runner.common.util.network import Wire
from horovod.runner.elastic.worker import HostsUpdatedRequest, HostUpdateResult

from bftrainer_adapters.drivers.horovod.in_worker import LOST_A_MEMBER
from bftrainer_adapters.drivers.horovod.plain_pickle import Addresses

TIMEOUT_S = 2.0


def notify(addresses: Addresses, key: bytes) -> bool:
    """Whether a worker has accepted the notice.

    Workers ignore a notice that is not newer than the last one. Stock time stamps are whole seconds; these are milliseconds.
    ``mixed``: after ``removed`` the remaining workers would skip the synchronization in which a worker announced a moment
    later waits.
    """
    return _tell(HostsUpdatedRequest(time.time_ns() // 1_000_000, HostUpdateResult.mixed), addresses, key)


def notify_of_loss(addresses: Addresses, key: bytes) -> bool:
    """Whether a worker has received the notice to leave its group, which has lost a member (see ``in_worker.py``)."""
    return _tell(HostsUpdatedRequest(LOST_A_MEMBER, HostUpdateResult.no_update), addresses, key)


def _tell(request: HostsUpdatedRequest, addresses: Addresses, key: bytes) -> bool:
    return any(_send(request, address, key) for hosts in addresses.values() for address in hosts)


def _send(request: HostsUpdatedRequest, address: tuple[str, int], key: bytes) -> bool:
    wire = Wire(key)
    try:
        with socket.create_connection(address, timeout=TIMEOUT_S) as connection:
            with connection.makefile("wb") as out:
                wire.write(request, out)
            with connection.makefile("rb") as answer:
                wire.read(answer)
    except Exception:  # Wire raises bare Exception; the notice is repeated until the group has changed
        return False
    return True
