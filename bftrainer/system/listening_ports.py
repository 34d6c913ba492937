"""Listening ports of pilots and drivers. A stranger can neither end nor starve the process behind
one.

- One thread, or one event loop, serves all connections. A connection is a *stranger* until the
  port's protocol has called ``Connection.admit``: it knows the token, or has said what only a
  client says. Of strangers nothing is kept but what the protocol needs for that.
- Connections from hosts that the port does not welcome are closed before a byte is read. A packet
  filter would stop them earlier, but since Linux 6.18 only root may attach one to a TCP socket.
- Connections are accepted as fast as they come, so that the kernel's queue has room for clients;
  one that has said nothing yet costs a descriptor and no more.
- ``Limits.strangers`` strangers are connected at a time, and are counted by the host that they come
  from. One more from another host ends the oldest of the host that has most of them: a crowd on one
  host keeps nobody on another host out. One more from that host itself waits until the oldest has
  had ``Limits.least_s``, the time for a client's first message, and ends it then.
- ``Limits.request_s`` is the time from accept to ``Connection.close_after``. Bytes that trickle in
  do not extend it.
- Descriptors: the last ``RESERVE`` of the process are not used for connections, and accepting stops
  for a while where there are none (EMFILE).
"""

from __future__ import annotations

import asyncio
import resource
import socket
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address, ip_network
from itertools import islice
from typing import Any, TypeVar

RESERVE = 32
"""Descriptors that the process keeps for itself."""
_FEW = 64
"""Strangers that are there at a time, however few files the process may open."""
_BATCH = 16
"""Connections that are accepted before others get their turn."""
MOST_DESCRIPTORS = 65_536
_PAUSE_S = 0.5
"""Pause in accepting while the system has no descriptor, or no memory, for another connection."""
_CHECK_S = 0.02
"""Time between two checks for strangers whose time is over."""
_CHUNK = 1 << 16
T = TypeVar("T")


@dataclass(frozen=True)
class Limits:
    """``clients``: most connections at a time that were admitted.

    ``strangers`` is less where the process may open few files: a quarter of them. ``least_s``: time
    for a client's first message, even in a crowd on its own host. ``head_bytes``: of a stranger's
    first message; ``body_bytes``: of a client's.
    """

    strangers: int = 12
    clients: int = 4
    request_s: float = 10.0
    least_s: float = 0.1
    head_bytes: int = 8192
    body_bytes: int = 0


class Connection:
    """One connection, from accept to close."""

    def __init__(self, port: Port, stranger: Stranger) -> None:
        self.raw = stranger.raw
        self.host = stranger.host
        self._port = port
        self._stranger = stranger
        self._loop = asyncio.get_running_loop()
        self.is_client = False
        self._deadline: asyncio.TimerHandle | None = None
        self.task = self._loop.create_task(self._run_loop())
        # A task that is canceled before it begins runs no line of its own.
        self.task.add_done_callback(self._clean_up)
        self.close_after(port.limits.request_s - (time.monotonic() - stranger.since_s))

    async def read(self) -> bytes:
        """Return the bytes that have arrived. Raises ``EOFError`` at the end."""
        data = await self._loop.sock_recv(self.raw, _CHUNK)
        if not data:
            raise EOFError
        return data

    async def has_data(self) -> bool:
        """Wait until the other side sends bytes, which stay unread, and return True; return False
        if it closes the connection instead.
        """
        loop = asyncio.get_running_loop()
        readable = loop.create_future()
        loop.add_reader(
            self.raw.fileno(), lambda: None if readable.done() else readable.set_result(None)
        )
        try:
            await readable
        finally:
            loop.remove_reader(self.raw.fileno())
        return not _has_gone(self.raw)

    async def send(self, data: bytes | bytearray | memoryview) -> None:
        await self._loop.sock_sendall(self.raw, data)

    async def while_silent(self, awaited: Awaitable[T]) -> T:
        """Await a result while the other side is silent. Raises ``EOFError`` if the other side
        closes the connection or sends bytes.
        """
        incoming = self._loop.create_task(self.read())
        task = asyncio.ensure_future(awaited)
        try:
            await asyncio.wait({incoming, task}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise EOFError
            return task.result()
        finally:
            incoming.cancel()
            task.cancel()
            await asyncio.gather(incoming, task, return_exceptions=True)

    def admit(self) -> bool:
        """Count the connection as a client's; return False if there are too many clients."""
        if self._port.clients >= self._port.limits.clients:
            return False
        self.is_client = True
        self._port.clients += 1
        self._port.forget(self._stranger)
        # A node may be lost without a word: then only keepalive ends the connection.
        self.raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return True

    def close_after(self, seconds: float | None) -> None:
        """Close the connection this time from now, in place of an earlier limit; None: never."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = (
            None if seconds is None else self._loop.call_later(seconds, self.task.cancel)
        )

    async def _run_loop(self) -> None:
        # The peer has gone, or its time is over: there is nobody to tell.
        with suppress(OSError, EOFError, asyncio.CancelledError):
            await self._port.serve(self)

    def _clean_up(self, task: asyncio.Task[None]) -> None:
        """Close the socket and count the connection no longer, when its task has ended."""
        self.close_after(None)
        self.raw.close()
        self._port.clients -= self.is_client
        self._port.forget(self._stranger)
        self._port.tasks.discard(task)


@dataclass(eq=False)
class Stranger:
    """A connection from ``host`` at ``since_s`` (of ``time.monotonic``) that is not known to be a
    client's; its ``connection`` is made at the first byte.
    """

    raw: socket.socket
    host: str
    since_s: float
    connection: Connection | None = None


@dataclass(eq=False)
class Port:
    """A listening socket, its protocol, and the connections to it.

    ``welcomes``: whether a host (an IP address) may connect.
    ``serve``: runs the protocol on a connection.
    ``strangers``: the strangers that have room, oldest first.
    ``clients``: the number of connections that were admitted.
    ``tasks``: those of connections that have sent bytes.
    ``_strangers_by_host``: the same strangers, by host; those that have sent bytes come last.
    ``_waiting``: strangers for which there is no room yet, oldest first.
    """

    listener: socket.socket
    welcomes: Callable[[str], bool]
    serve: Callable[[Connection], Coroutine[Any, Any, None]]
    limits: Limits
    strangers: dict[Stranger, None] = field(default_factory=dict)
    clients: int = 0
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _strangers_by_host: dict[str, dict[Stranger, None]] = field(default_factory=dict)
    _waiting: deque[Stranger] = field(default_factory=deque)

    async def accept(self) -> None:
        """Accept and serve connections until this task is canceled; all connections have ended
        then.
        """
        self.listener.setblocking(False)
        time_check = asyncio.get_running_loop().create_task(self._check_times())
        try:
            while True:
                await self._wait_for_arrival()
                await self._accept_batch()
        finally:
            time_check.cancel()
            self.listener.close()
            for stranger in [*self.strangers, *self._waiting]:
                self._hang_up(stranger)
            tasks = set(self.tasks)
            for task in tasks:
                task.cancel()
            await asyncio.wait({*tasks, time_check})

    def forget(self, stranger: Stranger) -> None:
        """Count this connection as a stranger no longer, since it is a client or has closed, and
        give its room to strangers that wait. May be called twice.
        """
        if self._remove_stranger(stranger):
            self._let_waiting_in()

    def _remove_stranger(self, stranger: Stranger) -> bool:
        """Remove a stranger from those that have room; return False if it was not among them."""
        if stranger not in self.strangers:
            return False
        del self.strangers[stranger]
        strangers_of_host = self._strangers_by_host[stranger.host]
        del strangers_of_host[stranger]
        if not strangers_of_host:
            del self._strangers_by_host[stranger.host]
        return True

    async def _accept_batch(self) -> None:
        """Accept up to :data:`_BATCH` connections; close those of unwelcome hosts, and let those
        wait that do not fit in.
        """
        for _ in range(_BATCH):
            try:
                raw, peer = self.listener.accept()
            except BlockingIOError:  # nobody is left
                return
            except OSError:  # EMFILE, ENFILE, ENOBUFS, ENOMEM: others have used up what there is
                await asyncio.sleep(_PAUSE_S)
                return
            if not _leaves_reserve(raw):
                if not self._waiting:
                    raw.close()
                    await asyncio.sleep(_PAUSE_S)
                    return
                # The oldest one that waits gives its descriptor to the process's reserve.
                self._hang_up(self._waiting.popleft())
            raw.setblocking(False)
            host = str(peer[0]) if isinstance(peer, tuple) else ""
            if not self.welcomes(host):
                raw.close()
                continue
            if _has_gone(raw):
                raw.close()
                continue
            stranger = Stranger(raw, host, time.monotonic())
            if self._makes_room_for(stranger):
                self._let_in(stranger)
                continue
            self._waiting.append(stranger)
            if len(self._waiting) > self._max_strangers():
                self._hang_up(self._waiting.popleft())
        await asyncio.sleep(0)  # let connections run before the next batch

    def _max_strangers(self) -> int:
        """Return how many strangers may be connected at a time, by the limits and by the number of
        files that the process may open.
        """
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return min(self.limits.strangers, max(soft // 4, _FEW))

    def _let_waiting_in(self) -> None:
        """Let waiting strangers in, one after the other, as long as there is room for the next
        one.
        """
        while self._waiting and self._makes_room_for(self._waiting[0]):
            self._let_in(self._waiting.popleft())

    def _let_in(self, stranger: Stranger) -> None:
        """Give a stranger room, and wait for its first bytes."""
        self.strangers[stranger] = None
        self._strangers_by_host.setdefault(stranger.host, {})[stranger] = None
        asyncio.get_running_loop().add_reader(stranger.raw.fileno(), self._first_bytes, stranger)

    def _makes_room_for(self, stranger: Stranger) -> bool:
        """Return whether one more stranger fits in, if need be after hanging up on the oldest
        stranger of the host that has most of them.

        It does not fit in if its own host would then have most of them, and the oldest one has not
        had ``Limits.least_s`` yet.
        """
        if len(self.strangers) < self._max_strangers():
            return True
        largest_crowd = max(self._strangers_by_host.values(), key=len)
        oldest = next(iter(largest_crowd))
        count_with_it = len(self._strangers_by_host.get(stranger.host, ())) + 1
        would_be_largest = count_with_it >= len(largest_crowd)
        if would_be_largest and time.monotonic() - oldest.since_s < self.limits.least_s:
            return False
        self._hang_up(oldest)
        return True

    def _hang_up(self, stranger: Stranger) -> None:
        """Hang up on a stranger, with or without room, which may have sent nothing yet."""
        self._remove_stranger(stranger)
        if stranger.connection is not None:
            stranger.connection.task.cancel()
            return
        asyncio.get_running_loop().remove_reader(stranger.raw.fileno())
        stranger.raw.close()

    def _first_bytes(self, stranger: Stranger) -> None:
        """Begin to serve a stranger that has sent its first bytes, or forget one that has
        closed.
        """
        asyncio.get_running_loop().remove_reader(stranger.raw.fileno())
        if _has_gone(stranger.raw):
            stranger.raw.close()
            self.forget(stranger)
            return
        # A stranger that has sent bytes is the last one to be ended: attackers that only connect
        # send nothing.
        strangers_of_host = self._strangers_by_host[stranger.host]
        strangers_of_host[stranger] = strangers_of_host.pop(stranger)
        stranger.connection = Connection(self, stranger)
        self.tasks.add(stranger.connection.task)

    async def _check_times(self) -> None:
        """Hang up on strangers that send nothing for ``Limits.request_s``, the oldest ones first,
        and let those in that wait for room. Runs until it is canceled.
        """
        while True:
            await asyncio.sleep(min(self.limits.least_s, self.limits.request_s, _CHECK_S))
            oldest_s = time.monotonic() - self.limits.request_s
            silent_strangers = [
                stranger
                for stranger in islice(self.strangers, _BATCH)
                if stranger.connection is None and stranger.since_s < oldest_s
            ]
            for stranger in silent_strangers:
                self._hang_up(stranger)
            self._let_waiting_in()

    async def _wait_for_arrival(self) -> None:
        """Wait until a connection can be accepted. (``sock_accept`` loses the one that it has just
        accepted if it is canceled.)
        """
        loop = asyncio.get_running_loop()
        arrival = loop.create_future()
        loop.add_reader(self.listener, lambda: None if arrival.done() else arrival.set_result(None))
        try:
            await arrival
        finally:
            loop.remove_reader(self.listener)


class PortServer:
    """Serves ports, which already listen, in a daemon thread from ``start`` to ``stop``."""

    def __init__(self, name: str, ports: Sequence[Port]) -> None:
        self._ports = tuple(ports)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, name=name, daemon=True)
        self._stopping = threading.Lock()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Close the ports and all connections. May be called twice, also by two threads, and
        without ``start``.
        """
        with self._stopping:
            if self._thread.is_alive():
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()
            if not self._loop.is_closed():
                self._loop.close()
        for port in self._ports:
            port.listener.close()

    def _run_loop(self) -> None:
        """Accept connections until the loop is stopped. Runs in the server's thread."""
        accepting = [self._loop.create_task(port.accept()) for port in self._ports]
        self._loop.run_forever()
        for task in accepting:
            task.cancel()
        if accepting:
            self._loop.run_until_complete(asyncio.wait(accepting))


def hosts_in(networks: Iterable[str]) -> Callable[[str], bool]:
    """Return a function that tells whether an IP address is in one of these networks."""
    allowed = [ip_network(network) for network in networks]

    @lru_cache(maxsize=1024)  # a crowd connects thousands of times a second
    def is_allowed(host: str) -> bool:
        address = ip_address(host)
        return any(address in network for network in allowed)

    return is_allowed


def raise_descriptor_limit() -> int:
    """Raise the limit of open files as far as allowed, since each client keeps a connection open.
    Returns the new limit.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = min(hard, MOST_DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return limit


def _has_gone(raw: socket.socket) -> bool:
    """Whether the other side has closed the connection, and has sent nothing before."""
    try:
        return not raw.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _leaves_reserve(connection: socket.socket) -> bool:
    """Return whether the process still has free descriptors to spare beside this connection's. The
    kernel gives the lowest free descriptor: all below this one are in use.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return connection.fileno() < soft - min(RESERVE, soft // 4)
