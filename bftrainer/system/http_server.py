"""The one HTTP server of pilots and drivers. A client can neither end nor starve the process behind its port.

- One thread serves all connections. A connection is a *stranger* until its request has passed ``HttpService.refusal``, which
  compares the token. Of strangers nothing is kept but the head of their request, ``Limits.head_bytes`` at most.
- ``Limits.strangers`` strangers are connected at a time. One more ends the oldest of them: clients with a token send their
  request at once, so strangers who wait do not keep them out.
- ``Limits.request_s`` is the time from accept to close. Bytes that trickle in do not extend it. It stands still while the
  process itself is busy with a request (``HttpService.blocks``).
- Descriptors: the last ``RESERVE`` of the process are not used for connections, and accepting stops for a while where there
  are none (EMFILE).

h11 parses and writes HTTP.
"""

from __future__ import annotations

import asyncio
import hmac
import resource
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

import h11

RESERVE = 32
"""Descriptors that the process keeps for itself."""
_PAUSE_S = 0.5
"""Pause in accepting while the system has no descriptor, or no memory, for another connection."""
_CHUNK = 1 << 16
_LINGER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """``headers``: by name in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """Content-Length and Connection are added."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """``clients``: most connections at a time that have passed ``refusal``; others get status 503.

    ``crowded_s``: pause in accepting after a stranger who had to make room. With 2 ms a crowd costs the process a few percent
    of a core, and clients behind it in the kernel's queue wait longer.
    """

    strangers: int = 12
    clients: int = 4
    request_s: float = 10.0
    crowded_s: float = 0.002
    head_bytes: int = 8192
    body_bytes: int = 0


class HttpService(Protocol):
    """What a port serves. Called from the server's thread, and must not raise."""

    def welcomes(self, host: str) -> bool:
        """Whether a host (an IP address; empty for a Unix socket) may connect at all: others are closed without a byte."""

    def refusal(self, head: HttpRequest) -> HttpAnswer | None:
        """The answer to a stranger, from the head of the request alone; None for a client with the token."""

    def blocks(self, request: HttpRequest) -> bool:
        """Whether the answer may take a while: it is then awaited in a thread of its own."""

    def answer(self, request: HttpRequest) -> HttpAnswer:
        """The answer to a client."""


@dataclass(slots=True)
class Port:
    """A listening socket and what it serves. ``connected``: the strangers there, oldest first."""

    listener: socket.socket
    service: HttpService
    limits: Limits = field(default_factory=Limits)
    strangers: dict[asyncio.Task[None], None] = field(default_factory=dict)
    clients: int = 0


def is_same_token(given: str, expected: str) -> bool:
    """Compares in constant time."""
    return hmac.compare_digest(given.encode(errors="surrogateescape"), expected.encode())


class HttpServer:
    """Serves ports, which already listen, in a daemon thread from ``start`` to ``stop``."""

    def __init__(self, name: str, ports: Sequence[Port]) -> None:
        self._ports = tuple(ports)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._connections: set[asyncio.Task[None]] = set()
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
        accepting = []
        for port in self._ports:
            port.listener.setblocking(False)
            accepting.append(self._loop.create_task(self._accept(port)))
        self._loop.run_forever()
        tasks = [*accepting, *self._connections]
        for task in tasks:
            task.cancel()
        if tasks:
            self._loop.run_until_complete(asyncio.wait(tasks))

    async def _accept(self, port: Port) -> None:
        while True:
            try:
                connection, peer = await self._loop.sock_accept(port.listener)
            except OSError:  # EMFILE, ENFILE, ENOBUFS, ENOMEM: others have used up what there is
                await asyncio.sleep(_PAUSE_S)
                continue
            if not _leaves_reserve(connection):
                connection.close()
                await asyncio.sleep(_PAUSE_S)
                continue
            if not port.service.welcomes(str(peer[0]) if isinstance(peer, tuple) else ""):
                connection.close()
                await asyncio.sleep(0)
                continue
            crowded = len(port.strangers) >= port.limits.strangers
            while len(port.strangers) >= port.limits.strangers:
                next(iter(port.strangers)).cancel()
                await asyncio.sleep(0)
            task = self._loop.create_task(self._serve(port, connection))
            port.strangers[task] = None
            self._connections.add(task)
            await asyncio.sleep(port.limits.crowded_s if crowded else 0)

    async def _serve(self, port: Port, connection: socket.socket) -> None:
        """One connection, from accept to close."""
        me = asyncio.current_task()
        assert me is not None
        deadline = self._loop.call_later(port.limits.request_s, me.cancel)
        http = h11.Connection(h11.SERVER, max_incomplete_event_size=port.limits.head_bytes)
        is_client = False
        try:
            head = await self._head(connection, http)
            refusal = port.service.refusal(head)
            if refusal is not None:
                await self._send(connection, http, refusal)
                await self._linger(connection)
                return
            if port.clients >= port.limits.clients:
                await self._send(connection, http, HttpAnswer(503))
                return
            is_client = True
            port.clients += 1
            del port.strangers[me]
            request = await self._whole(connection, http, head, port.limits.body_bytes)
            if request is None:
                await self._send(connection, http, HttpAnswer(413))
                await self._linger(connection)
            elif port.service.blocks(request):
                deadline.cancel()
                answer = await self._in_a_thread(lambda: port.service.answer(request))
                deadline = self._loop.call_later(port.limits.request_s, me.cancel)
                await self._send(connection, http, answer)
            else:
                await self._send(connection, http, _guarded(lambda: port.service.answer(request)))
        except h11.RemoteProtocolError as error:
            await self._reject(connection, http, error)
        except (OSError, EOFError, asyncio.CancelledError):
            pass  # the client has gone, or its time is over: there is nobody to tell
        finally:
            deadline.cancel()
            connection.close()
            port.clients -= is_client
            port.strangers.pop(me, None)
            self._connections.discard(me)

    async def _event(self, connection: socket.socket, http: h11.Connection) -> object:
        while (event := http.next_event()) is h11.NEED_DATA:
            data = await self._loop.sock_recv(connection, _CHUNK)
            if not data:
                raise EOFError
            http.receive_data(data)
        return event

    async def _head(self, connection: socket.socket, http: h11.Connection) -> HttpRequest:
        event = await self._event(connection, http)
        assert isinstance(event, h11.Request)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
        return HttpRequest(event.method.decode("ascii"), event.target.decode("latin-1"), headers)

    async def _whole(
        self, connection: socket.socket, http: h11.Connection, head: HttpRequest, most_bytes: int
    ) -> HttpRequest | None:
        """The request with its body; None if that is too long."""
        if int(head.headers.get("content-length", "0")) > most_bytes:  # h11 has checked that it is a number
            return None
        body = bytearray()
        while isinstance(event := await self._event(connection, http), h11.Data):
            body += event.data
            if len(body) > most_bytes:
                return None
        return HttpRequest(head.method, head.target, head.headers, bytes(body))

    async def _in_a_thread(self, look: Callable[[], HttpAnswer]) -> HttpAnswer:
        done: asyncio.Future[HttpAnswer] = self._loop.create_future()

        def run() -> None:
            answer = _guarded(look)
            with suppress(RuntimeError):  # the server has been stopped
                self._loop.call_soon_threadsafe(lambda: None if done.done() else done.set_result(answer))

        try:
            threading.Thread(target=run, name="request", daemon=True).start()
        except RuntimeError:  # the system has no thread for it
            return HttpAnswer(503)
        return await done

    async def _send(self, connection: socket.socket, http: h11.Connection, answer: HttpAnswer) -> None:
        fixed = [("Content-Length", str(len(answer.body))), ("Connection", "close")]
        head = h11.Response(status_code=answer.status, headers=[*answer.headers, *fixed])
        parts = (http.send(head), http.send(h11.Data(data=answer.body)), http.send(h11.EndOfMessage()))
        await self._loop.sock_sendall(connection, b"".join(part or b"" for part in parts))

    async def _reject(self, connection: socket.socket, http: h11.Connection, error: h11.RemoteProtocolError) -> None:
        """What is no HTTP gets an answer without text, where one can be given at all."""
        try:
            if http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                await self._send(connection, http, HttpAnswer(error.error_status_hint))
                await self._linger(connection)
        except (OSError, asyncio.CancelledError, h11.LocalProtocolError):
            return

    async def _linger(self, connection: socket.socket) -> None:
        """Read what the client still sends: closing at once would reset the connection, and lose the answer."""
        connection.shutdown(socket.SHUT_WR)
        left = _LINGER_BYTES
        while left > 0 and (data := await self._loop.sock_recv(connection, _CHUNK)):
            left -= len(data)


def _leaves_reserve(connection: socket.socket) -> bool:
    """The kernel gives the lowest free descriptor: all below this one are in use."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return connection.fileno() < soft - min(RESERVE, soft // 4)


def _guarded(look: Callable[[], HttpAnswer]) -> HttpAnswer:
    try:
        return look()
    except Exception:  # a mistake of ours must not end the server
        traceback.print_exc(file=sys.stderr)
        return HttpAnswer(500)
