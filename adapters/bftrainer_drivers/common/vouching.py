"""Runs in a worker: lets no stranger take a worker's place in a group of gloo.

gloo's listeners know no key: who connects first and says a small number is the peer that has this
number. So whenever a group has connected, before its first message, each worker tells the others
through the store which connections it has made. A connection at the group's listener that none of
them has made is a stranger's, and is shut down. The kernel vouches for the rest: no other process
of a host has the same address and port. The store is sealed (``store_relay.py``).

If the stranger sat in a worker's place, the group fails at its first message, and starts again.

Nothing like it can be done for NCCL, whose sockets are not torch's: where other users can reach
the interface, a group of NCCL over several nodes ends its workers, with a line that says why.
Only the standard library is used, of Python 3.8 and later, and torch.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import os
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

VOUCH = "BFTRAINER_VOUCH"
"""The variable by which a worker guards its groups; set unless no other user can reach the
interface (``workers.private_interface``).
"""
SHARED_INTERFACE = "BFTRAINER_SHARED_INTERFACE"
"""The variable that names the interface where users of other hosts can reach it."""
CLOSED = "bftrainer: closed a connection to gloo that no worker of this trainer has made:"
"""The line in the log of a worker whose group a stranger has tried to join begins so."""
_UNCHECKED = ("ProcessGroupNCCL", "ProcessGroupUCC", "ProcessGroupXCCL")
"""torch's groups that connect by libraries of their own."""
_NODE = "BFTRAINER_NODE"
_NODE_KEY = "bftrainer/node/"
_KEY = "bftrainer/connections/"
_LISTENING = "0A"
_earlier_groups: set[str] = set()
"""Listening ends of the groups before: a group may share one of them."""


class Link(NamedTuple):
    """A TCP socket of this process; ends as in /proc/net/tcp (``0100007F:1F90``)."""

    own: str
    peer: str
    descriptor: int


def sockets() -> tuple[set[str], list[Link]]:
    """Return the ends at which this process listens, and its TCP connections in any state."""
    descriptors = _socket_descriptors()
    listening, connected = set(), []
    for path in ("/proc/self/net/tcp", "/proc/self/net/tcp6"):
        for words in _kernel_table(path):
            own, peer, state, inode = words[1], words[2], words[3], words[9]
            if inode not in descriptors:
                continue  # a socket of another process
            if state == _LISTENING:
                listening.add(own)
            else:
                connected.append(Link(own, peer, descriptors[inode]))
    return listening, connected


def _socket_descriptors() -> dict[str, int]:
    """Return this process's sockets: inode to descriptor."""
    descriptors = {}
    for entry in os.listdir("/proc/self/fd"):  # noqa: PTH208 - pathlib would be one import more
        with contextlib.suppress(OSError):  # closed meanwhile
            kind, _, inode = os.readlink(f"/proc/self/fd/{entry}").partition(":")  # noqa: PTH115 - the same
            if kind == "socket":
                descriptors[inode.strip("[]")] = int(entry)
    return descriptors


def _kernel_table(path: str) -> Iterator[list[str]]:
    """Yield the lines of a kernel table as words; none if the table cannot be read."""
    with contextlib.suppress(OSError), open(path, encoding="ascii") as table:  # noqa: PTH123 - the same
        for line in table:
            yield line.split()


def own_connections(listening: Iterable[str], connected: Iterable[Link]) -> list[list[str]]:
    """Return the connections that this process has made itself: it does not listen at their own
    end.
    """
    ends = set(listening)
    return [[link.own, link.peer] for link in connected if link.own not in ends]


def unknown_connections(
    group: Iterable[str], connected: Iterable[Link], vouched: Iterable[Iterable[list[str]]]
) -> list[Link]:
    """Return the connections at the group's listening ends that no worker says it has made.
    ``vouched``: for each other worker, the (own, peer) ends of the connections it has made; seen
    from this side, the two ends are swapped.
    """
    ends = set(group)
    vouched_ends = {(peer, own) for connections in vouched for own, peer in connections}
    return [
        link for link in connected if link.own in ends and (link.own, link.peer) not in vouched_ends
    ]


def shut_unknown_connections(store: Any, rank: int, size: int, earlier_ends: Iterable[str]) -> None:
    """Shut down strangers' connections to the group that has just connected. ``earlier_ends``: the
    ends at which this process listened before the group connected.
    """
    listening, connected = sockets()
    # A group that listens at no new end shares one of an earlier group.
    group = (listening - set(earlier_ends)) or (listening & _earlier_groups)
    _earlier_groups.update(group)
    store.set(f"{_KEY}{rank}", json.dumps(own_connections(listening, connected)))
    keys = [f"{_KEY}{other}" for other in range(size) if other != rank]
    store.wait(keys)
    vouched = [json.loads(store.get(key)) for key in keys]
    _, connected = sockets()  # all workers have connected: later ones are nobody's
    for link in unknown_connections(group, connected, vouched):
        print(f"{CLOSED} {socket_address(link.peer)}", flush=True)
        with (
            contextlib.suppress(OSError),
            socket.socket(fileno=os.dup(link.descriptor)) as connection,
        ):
            connection.shutdown(socket.SHUT_RDWR)


def socket_address(end: str) -> str:
    """Return an end of /proc/net/tcp as address and port: ``0100007F:1F90`` -> ``127.0.0.1:8080``.
    An IPv6 address stays as the kernel writes it.
    """
    address, _, port = end.partition(":")
    if len(address) != 8:
        return f"{address}:{int(port, 16)}"
    return f"{socket.inet_ntoa(int(address, 16).to_bytes(4, sys.byteorder))}:{int(port, 16)}"


def refuse_several_nodes(
    store: Any, rank: int, size: int, library: str, node: str, interface: str
) -> None:
    """End this worker if its group has workers on several nodes. Each worker of the group calls
    this, since each waits for the others' nodes.
    """
    store.set(f"{_NODE_KEY}{rank}", node)
    keys = [f"{_NODE_KEY}{other}" for other in range(size)]
    store.wait(keys)
    nodes = sorted({bytes(store.get(key)).decode() for key in keys})
    if len(nodes) > 1:
        raise SystemExit(
            f"bftrainer: {library} over several nodes ({', '.join(nodes[:2])}, ...) is refused: "
            f"its sockets know no key, and other users may reach {interface}. If none can, set "
            "workers.private_interface = true; else use gloo, or one node (docs/security.md)"
        )


def install() -> None:
    """Guard every group of torch in this process, if the environment says so and torch is there."""
    vouches = os.environ.pop(VOUCH, "") == "1"
    interface = os.environ.pop(SHARED_INTERFACE, "")
    if not (vouches or interface) or importlib.util.find_spec("torch") is None:
        return
    import torch.distributed as dist

    if vouches:
        _guard_constructor(getattr(dist, "ProcessGroupGloo", None), _vouching_constructor)
    if interface:
        for name in _UNCHECKED:
            refusing = functools.partial(
                _one_node_constructor, name.replace("ProcessGroup", ""), _own_node(), interface
            )
            _guard_constructor(getattr(dist, name, None), refusing)


def _own_node() -> str:
    return os.environ.get(_NODE) or socket.gethostname()


def _guard_constructor(
    group_class: Any, guard: Callable[[Callable[..., None]], Callable[..., None]]
) -> None:
    """Replace the constructor of a group class by ``guard(constructor)``, once per process; do
    nothing for None, a class that this torch does not have.
    """
    if group_class is None or hasattr(group_class, "_bftrainer_guards"):
        return
    connect = group_class.__init__
    group_class.__init__ = functools.wraps(connect)(guard(connect))
    group_class._bftrainer_guards = True


def _vouching_constructor(connect: Callable[..., None]) -> Callable[..., None]:
    """Return a constructor that connects the group and then removes the connections of programs
    that are not its workers (:func:`shut_unknown_connections`).
    """

    def connect_and_vouch(
        self: Any, store: Any, rank: int, size: int, *more: Any, **named: Any
    ) -> None:
        earlier_ends, _ = sockets()
        connect(self, store, rank, size, *more, **named)
        if size > 1:
            shut_unknown_connections(store, rank, size, earlier_ends)

    return connect_and_vouch


def _one_node_constructor(
    library: str, node: str, interface: str, connect: Callable[..., None]
) -> Callable[..., None]:
    """Return a constructor that connects the group only if all its workers are on one node."""

    def refuse_or_connect(
        self: Any, store: Any, rank: int, size: int, *more: Any, **named: Any
    ) -> None:
        if size > 1:
            refuse_several_nodes(store, rank, size, library, node, interface)
        connect(self, store, rank, size, *more, **named)

    return refuse_or_connect


if __name__ == "__main__":
    install()
