"""What runs inside a Horovod worker: it shuts down Gloo's connections, and no others."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from bftrainer_drivers.horovod.in_worker import LOST_A_MEMBER, Listener, connections, in_a_group

GLOO_S = 77
"""No other socket of this process has this timeout."""


def pair(stack: ExitStack) -> tuple[socket.socket, socket.socket]:
    listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    near = stack.enter_context(socket.create_connection(listener.getsockname()))
    return near, stack.enter_context(listener.accept()[0])


def like_gloo(connection: socket.socket, timeout_s: int = GLOO_S) -> socket.socket:
    """As ``Pair::handleConnected`` of Gloo's tcp/pair.cc leaves it."""
    connection.setblocking(False)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        connection.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", timeout_s, 0))
    return connection


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def found() -> set[tuple[str, int]]:
    return {connection.getsockname() for connection in connections(GLOO_S)}


def test_gloo_s_connections_are_found_among_all_descriptors(stack: ExitStack) -> None:
    near, far = pair(stack)
    like_gloo(near)
    for other_s in (30, 300):
        like_gloo(pair(stack)[0], other_s)  # another library's, such as torch's own Gloo
    plain, _ = pair(stack)
    plain.settimeout(GLOO_S)
    for local in socket.socketpair():
        stack.enter_context(local)
    assert found() == {near.getsockname()}
    like_gloo(far)
    assert found() == {near.getsockname(), far.getsockname()}


def test_what_the_driver_s_other_notices_say_shuts_nothing_down(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outside of a group nothing is shut down either: Horovod would end the process."""
    monkeypatch.setenv("HOROVOD_GLOO_TIMEOUT_SECONDS", str(GLOO_S))
    near, far = pair(stack)
    like_gloo(near)
    far.settimeout(0.2)
    assert not in_a_group()
    Listener().on_hosts_updated(1, None)
    Listener().on_hosts_updated(LOST_A_MEMBER, None)
    with pytest.raises(TimeoutError):
        far.recv(1)


def test_a_shut_down_connection_ends_for_both_sides(stack: ExitStack) -> None:
    near, far = pair(stack)
    like_gloo(near)
    for connection in connections(GLOO_S):
        connection.shutdown(socket.SHUT_RDWR)
    assert far.recv(1) == near.recv(1) == b""
