"""Listening ports of pilots and drivers. A stranger can neither end nor starve the process behind one.

- One thread, or one event loop, serves all connections. A connection is a *stranger* until the port's protocol has called
  ``Connection.admit``: it knows the token, or has said what only a client says. Of strangers nothing is kept but what the
  protocol needs for that.
- Connections from hosts that the port does not welcome are closed before a byte is read. A packet filter would stop them
  earlier, but since Linux 6.18 only root may attach one to a TCP socket.
- ``Limits.strangers`` strangers are connected at a time. One more ends the oldest of them, once it has had ``Limits.least_s``:
  clients send their first message at once, so strangers who wait, or who connect again and again, do not keep them out.
- ``Limits.request_s`` is the time from accept to ``Connection.due``. Bytes that trickle in do not extend it.
- Descriptors: the last ``RESERVE`` of the process are not used for connections, and accepting stops for a while where there
  are none (EMFILE).
"""

from __future__ import annotations

import asyncio
import resource
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any, TypeVar

RESERVE = 32
"""Descriptors that the process keeps for itself."""
_PAUSE_S = 0.5
"""Pause in accepting while the system has no descriptor, or no memory, for another connection."""
_LOOK_S = 0.002
"""Between two looks at whether a stranger has made room."""
_CHUNK = 1 << 16
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Limits:
    """``clients``: most connections at a time that were admitted.

    ``least_s``: time for a client's first message, even in a crowd. A crowd is accepted no faster than ``strangers`` in
    this time, and clients behind it in the kernel's queue wait longer. ``head_bytes``: of a stranger's first message;
    ``body_bytes``: of a client's.
    """

    strangers: int = 12
    clients: int = 4
    request_s: float = 10.0
    least_s: float = 0.1
    head_bytes: int = 8192
    body_bytes: int = 0


class Connection:
    """One connection, from accept to close."""

    def __init__(self, port: Port, raw: socket.socket, host: str) -> None:
        self.raw = raw
        self.host = host
        self._port = port
        self._loop = asyncio.get_running_loop()
        self._is_client = False
        self._deadline: asyncio.TimerHandle | None = None
        self.task = self._loop.create_task(self._run())
        self.task.add_done_callback(self._ended)  # a task that is canceled before it begins runs no line of its own
        self.due(port.limits.request_s)

    async def read(self) -> bytes:
        """What has arrived. Raises ``EOFError`` at the end."""
        data = await self._loop.sock_recv(self.raw, _CHUNK)
        if not data:
            raise EOFError
        return data

    async def send(self, data: bytes | bytearray | memoryview) -> None:
        await self._loop.sock_sendall(self.raw, data)

    async def until(self, awaited: Awaitable[T]) -> T:
        """Await something while the other side has nothing to say. Raises ``EOFError`` if it goes, or says something."""
        gone, task = self._loop.create_task(self.read()), asyncio.ensure_future(awaited)
        try:
            await asyncio.wait({gone, task}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise EOFError
            return task.result()
        finally:
            gone.cancel()
            task.cancel()
            await asyncio.gather(gone, task, return_exceptions=True)

    def admit(self) -> bool:
        """It is a client's; False if there are too many."""
        if self._port.clients >= self._port.limits.clients:
            return False
        self._is_client = True
        self._port.clients += 1
        self._port.strangers.pop(self.task, None)
        return True

    def due(self, seconds: float | None) -> None:
        """Close it after this time; None: it may last."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self._loop.call_later(seconds, self.task.cancel)

    async def _run(self) -> None:
        with suppress(
            OSError, EOFError, asyncio.CancelledError
        ):  # it has gone, or its time is over: no peer is there to tell
            await self._port.serve(self)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.due(None)
        self.raw.close()
        self._port.clients -= self._is_client
        self._port.strangers.pop(task, None)
        self._port.tasks.discard(task)


@dataclass(eq=False)
class Port:
    """A listening socket, who may connect to it, and the protocol. ``strangers``: since when each is here, oldest first."""

    listener: socket.socket
    welcomes: Callable[[str], bool]
    serve: Callable[[Connection], Coroutine[Any, Any, None]]
    limits: Limits
    strangers: dict[asyncio.Task[None], float] = field(default_factory=dict)
    clients: int = 0
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def accept(self) -> None:
        """Serve until this is canceled; all connections have ended then."""
        self.listener.setblocking(False)
        try:
            while True:
                await self._next()
        finally:
            self.listener.close()
            tasks = set(self.tasks)
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)

    async def _next(self) -> None:
        await self._knock()
        try:
            raw, peer = self.listener.accept()
        except BlockingIOError:  # the client has gone
            return
        except OSError:  # EMFILE, ENFILE, ENOBUFS, ENOMEM: others have used up what there is
            await asyncio.sleep(_PAUSE_S)
            return
        if not _leaves_reserve(raw):
            raw.close()
            await asyncio.sleep(_PAUSE_S)
            return
        raw.setblocking(False)
        host = str(peer[0]) if isinstance(peer, tuple) else ""
        if not self.welcomes(host):
            raw.close()
            await asyncio.sleep(0)
            return
        while len(self.strangers) >= self.limits.strangers:
            oldest, since_s = next(iter(self.strangers.items()))
            if time.monotonic() - since_s >= self.limits.least_s:
                oldest.cancel()
                await asyncio.sleep(0)
            else:
                await asyncio.sleep(_LOOK_S)
        connection = Connection(self, raw, host)
        self.strangers[connection.task] = time.monotonic()
        self.tasks.add(connection.task)
        await asyncio.sleep(0)

    async def _knock(self) -> None:
        """Wait for a connection. (``sock_accept`` loses the one that it has just accepted if it is canceled.)"""
        loop = asyncio.get_running_loop()
        known = loop.create_future()
        loop.add_reader(self.listener, lambda: None if known.done() else known.set_result(None))
        try:
            await known
        finally:
            loop.remove_reader(self.listener)


class PortServer:
    """Serves ports, which already listen, in a daemon thread from ``start`` to ``stop``."""

    def __init__(self, name: str, ports: Sequence[Port]) -> None:
        self._ports = tuple(ports)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._stopping = threading.Lock()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Close the ports and all connections. May be called twice, also by two threads, and without ``start``."""
        with self._stopping:
            if self._thread.is_alive():
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()
            if not self._loop.is_closed():
                self._loop.close()
        for port in self._ports:
            port.listener.close()

    def _run(self) -> None:
        accepting = [self._loop.create_task(port.accept()) for port in self._ports]
        self._loop.run_forever()
        for task in accepting:
            task.cancel()
        if accepting:
            self._loop.run_until_complete(asyncio.wait(accepting))


def hosts_in(networks: Iterable[str]) -> Callable[[str], bool]:
    """Whether an IP address is in one of these networks."""
    known = [ip_network(network) for network in networks]
    return lambda host: any(ip_address(host) in network for network in known)


def _leaves_reserve(connection: socket.socket) -> bool:
    """The kernel gives the lowest free descriptor: all below this one are in use."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return connection.fileno() < soft - min(RESERVE, soft // 4)
