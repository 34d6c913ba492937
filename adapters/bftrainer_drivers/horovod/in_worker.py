"""Runs inside a Horovod worker, before the script: leaves a group of workers that has lost one.

Horovod 0.28.1 does not close the connections of a group that has failed: ``ProcessSet::Finalize``
calls ``GlooContext::Finalize``, which returns at once because only the global context was ever
enabled (process_set.cc, gloo_context.cc). So only workers that wait for the dead worker itself
notice its end. A worker that waits for one of those which have already left waits until
HOROVOD_GLOO_TIMEOUT_SECONDS, and they wait for it. Here the driver tells the workers of such a
group, and each shuts its own connections down: Horovod then raises HorovodInternalError as if the
peer had closed them.

It also bounds what Horovod reads at the port for notices, which listens on all interfaces.

Only the standard library and Horovod are used: bftrainer may be missing in the user's environment.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat
import struct
import sys
from collections.abc import Iterator
from typing import BinaryIO

LOST_A_MEMBER = -1
"""The time stamp of the driver's notice. Horovod's own listeners ignore notices that are not newer
than the last one.
"""

NOTICE_BYTES = 1 << 16


def in_a_group() -> bool:
    """Return whether Horovod is initialized. It is not while a group forms: an error would end the
    process then.
    """
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("horovod.")]
    basics = {
        id(basics_of_module): basics_of_module
        for module in modules
        if (basics_of_module := getattr(module, "_basics", None)) is not None
    }
    return any(basics_of_module.is_initialized() for basics_of_module in basics.values())


def connections(timeout_s: int) -> Iterator[socket.socket]:
    """Yield a duplicate of each connection of Gloo in this process, to shut it down.

    They are recognized by their options. Gloo makes its connections non-blocking, without Nagle's
    algorithm, and with its own timeout in both directions (``Pair::handleConnected`` of
    tcp/pair.cc). Python's sockets and those of HTTP clients have no such timeouts.
    """
    for entry in os.listdir("/proc/self/fd"):  # noqa: PTH208 - pathlib would be one import more
        with (
            contextlib.suppress(OSError),
            socket.socket(fileno=_duplicate_socket(int(entry))) as connection,
        ):
            if is_gloo(connection, timeout_s):
                yield connection


def _duplicate_socket(descriptor: int) -> int:
    """Duplicate the descriptor of a socket. Raises ``OSError`` for anything else, and for one that
    was closed meanwhile.
    """
    if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        raise OSError(f"descriptor {descriptor} is no socket")
    return os.dup(descriptor)


def is_gloo(connection: socket.socket, timeout_s: int) -> bool:
    """Return whether a socket is connected and has the options that Gloo sets."""
    if (
        connection.family not in (socket.AF_INET, socket.AF_INET6)
        or not connection.type & socket.SOCK_STREAM
    ):
        return False
    timeout = struct.pack("ll", timeout_s, 0)
    try:
        connection.getpeername()
        return (
            connection.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, len(timeout)) == timeout
            and connection.getsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, len(timeout))
            == timeout
            and connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
            and fcntl.fcntl(connection, fcntl.F_GETFL) & os.O_NONBLOCK != 0
        )
    except OSError:
        return False


class Listener:
    """Receives the driver's notices: registered beside the script's elastic state, and called in
    the thread that receives them.
    """

    def on_hosts_updated(self, timestamp: int, _: object) -> None:
        if timestamp == LOST_A_MEMBER and in_a_group():
            for connection in connections(
                int(os.environ.get("HOROVOD_GLOO_TIMEOUT_SECONDS", "30"))
            ):
                with contextlib.suppress(OSError):  # the peer may have been faster
                    connection.shutdown(socket.SHUT_RDWR)


class Short:
    """A connection to the port for notices, of which no read returns more than
    :data:`NOTICE_BYTES`: Horovod reads as many bytes as a stranger announces before it checks the
    key's code.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, count: int) -> bytes:
        """Return ``count`` bytes. Raises EOFError if that is too many, or if there are fewer:
        Horovod then closes the connection without a word.
        """
        if not 0 <= count <= NOTICE_BYTES:
            raise EOFError
        data = self._file.read(count)
        if len(data) < count:
            raise EOFError
        return data


def install() -> None:
    """Listen to the driver's notice of a lost member, and bound what Horovod reads at the port for
    notices.
    """
    from horovod.common.elastic import notification_manager
    from horovod.runner.common.util import network

    read = network.Wire.read
    network.Wire.read = lambda self, rfile: read(self, Short(rfile))
    notification_manager.register_listener(Listener())


if __name__ == "__main__":
    install()
