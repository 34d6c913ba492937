"""HTTP at a port of a pilot or driver. h11 parses and writes it.

Of strangers nothing is kept but the head of their request, ``Limits.head_bytes`` at most. A request
counts as a client's once it has passed ``HttpService.refusal``, which compares the token.
``Limits.request_s`` runs from accept to close, or for each request of a client that is kept, and
stands still while the process itself is busy with a request (``HttpService.blocks``).
"""

from __future__ import annotations

import asyncio
import hmac
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import h11

from bftrainer.system.listening_ports import Connection, Limits, Port

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


class HttpService(Protocol):
    """What a port serves. Called from the server's thread, and must not raise."""

    def welcomes(self, host: str) -> bool:
        """Whether a host (an IP address; empty for a Unix socket) may connect at all: others are
        closed without a byte.
        """

    def refusal(self, head: HttpRequest) -> HttpAnswer | None:
        """Return the answer to a stranger, from the head of the request alone; None for a client
        with the token.
        """

    def blocks(self, request: HttpRequest) -> bool:
        """Return whether the answer may take a while: it is then awaited in a thread of its own."""

    def answer(self, request: HttpRequest) -> HttpAnswer:
        """The answer to a client."""


def is_same_token(received: str, expected: str) -> bool:
    """Compare the token of a request with the expected one, in constant time."""
    return hmac.compare_digest(received.encode(errors="surrogateescape"), expected.encode())


def http_port(
    listener: socket.socket,
    service: HttpService,
    limits: Limits | None = None,
    *,
    keeps_clients: bool = False,
) -> Port:
    """Build a port that serves HTTP on ``listener``. ``keeps_clients``: a client's connection stays
    open for its next request.
    """
    limits = limits or Limits()
    return Port(
        listener,
        service.welcomes,
        lambda connection: _serve(connection, service, limits, keeps_clients),
        limits,
    )


async def _serve(
    connection: Connection, service: HttpService, limits: Limits, keeps_clients: bool
) -> None:
    """Answer the requests of one connection: one request, or all that a client sends if
    ``keeps_clients``.
    """
    http = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.head_bytes)
    await _serve_request(connection, http, service, limits, keeps_clients)
    while (
        keeps_clients
        and connection.is_client
        and http.our_state is h11.DONE
        and http.their_state is h11.DONE
    ):
        http.start_next_cycle()
        connection.close_after(None)  # a client may be silent between two requests
        if http.trailing_data[0] == b"" and not await connection.has_data():
            return
        connection.close_after(limits.request_s)
        await _serve_request(connection, http, service, limits, keeps_clients)


async def _serve_request(
    connection: Connection,
    http: h11.Connection,
    service: HttpService,
    limits: Limits,
    keeps_clients: bool,
) -> None:
    """Read one request and send its answer: a refusal to strangers, 503 if there are too many
    clients, 413 for a body that is too long.
    """
    try:
        head = await _head(connection, http)
        refusal = service.refusal(head)
        if refusal is not None:
            await _send(connection, http, refusal)
            await _linger(connection)
            return
        if not (connection.is_client or connection.admit()):
            await _send(connection, http, HttpAnswer(503))
            return
        request = await _with_body(connection, http, head, limits.body_bytes)
        if request is None:
            await _send(connection, http, HttpAnswer(413))
            await _linger(connection)
        elif service.blocks(request):
            connection.close_after(None)
            answer = await _in_a_thread(lambda: service.answer(request))
            connection.close_after(limits.request_s)
            await _send(connection, http, answer, keeps_clients)
        else:
            await _send(
                connection, http, _answer_or_error(lambda: service.answer(request)), keeps_clients
            )
    except h11.RemoteProtocolError as error:
        await _reject(connection, http, error)


async def _event(connection: Connection, http: h11.Connection) -> object:
    """Return the next event of h11, after reading the bytes that it needs."""
    while (event := http.next_event()) is h11.NEED_DATA:
        http.receive_data(await connection.read())
    return event


async def _head(connection: Connection, http: h11.Connection) -> HttpRequest:
    """Read the head of a request, and return the request without its body."""
    event = await _event(connection, http)
    assert isinstance(event, h11.Request)
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
    return HttpRequest(event.method.decode("ascii"), event.target.decode("latin-1"), headers)


async def _with_body(
    connection: Connection, http: h11.Connection, head: HttpRequest, max_bytes: int
) -> HttpRequest | None:
    """Read the body, and return the request with it; None if the body is too long."""
    # h11 has checked that the header is a number.
    if int(head.headers.get("content-length", "0")) > max_bytes:
        return None
    body = bytearray()
    while isinstance(event := await _event(connection, http), h11.Data):
        body += event.data
        if len(body) > max_bytes:  # a body in chunks has no content-length
            return None
    return HttpRequest(head.method, head.target, head.headers, bytes(body))


async def _in_a_thread(make_answer: Callable[[], HttpAnswer]) -> HttpAnswer:
    """Await an answer that takes a while, in a thread of its own; 503 if the system has no thread
    for it.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[HttpAnswer] = loop.create_future()

    def run() -> None:
        answer = _answer_or_error(make_answer)
        # The future is done already if the connection was closed meanwhile.
        with suppress(RuntimeError):  # the server has been stopped
            loop.call_soon_threadsafe(lambda: None if future.done() else future.set_result(answer))

    try:
        threading.Thread(target=run, name="request", daemon=True).start()
    except RuntimeError:  # the system has no thread for it
        return HttpAnswer(503)
    return await future


async def _send(
    connection: Connection, http: h11.Connection, answer: HttpAnswer, keeps: bool = False
) -> None:
    """Send an answer; ``keeps``: the connection stays open for the next request."""
    own_headers = [
        ("Content-Length", str(len(answer.body))),
        *([] if keeps else [("Connection", "close")]),
    ]
    head = h11.Response(status_code=answer.status, headers=[*answer.headers, *own_headers])
    parts = (http.send(head), http.send(h11.Data(data=answer.body)), http.send(h11.EndOfMessage()))
    await connection.send(b"".join(part or b"" for part in parts))


async def _reject(
    connection: Connection, http: h11.Connection, error: h11.RemoteProtocolError
) -> None:
    """Answer bytes that are not HTTP with a status and no text, if the connection still allows an
    answer.
    """
    try:
        if http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            await _send(connection, http, HttpAnswer(error.error_status_hint))
            await _linger(connection)
    except h11.LocalProtocolError:
        return


async def _linger(connection: Connection) -> None:
    """Read what the client still sends, up to ``_LINGER_BYTES``: closing at once would reset the
    connection, and lose the answer. Raises ``EOFError`` at the end.
    """
    connection.raw.shutdown(socket.SHUT_WR)
    remaining_bytes = _LINGER_BYTES
    while remaining_bytes > 0:
        remaining_bytes -= len(await connection.read())


def _answer_or_error(make_answer: Callable[[], HttpAnswer]) -> HttpAnswer:
    """Return the answer; 500, with the error on stderr, if it raises."""
    try:
        return make_answer()
    except Exception:  # a mistake of ours must not end the server
        traceback.print_exc(file=sys.stderr)
        return HttpAnswer(500)
