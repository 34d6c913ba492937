"""Runs on a node, beside a worker: passes torch's connections to the driver's store on, sealed by
the trainer's key.

It reads one line, ``host:port:key`` of the driver's store, and prints the port at which the worker
finds the store.

torch's clients know no key. So a worker finds its store (MASTER_ADDR, MASTER_PORT) on its own
node's loopback, where only processes of the same user are let in: the kernel knows whose a
connection is. The relay proves to the driver that it knows the key of the incarnation's store, and
every message bears a code (``bftrainer/system/sealed.py``). It is a process of its own, because
some of torch's calls keep Python's lock while they wait for the store. It ends with the worker.

Only the standard library is used, of Python 3.8 and later: bftrainer may be missing in the user's
environment.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import os
import secrets
import signal
import socket
import struct
import sys
from collections.abc import Awaitable

CHUNK_BYTES = 1 << 15
"""The most bytes of one message to the store."""
_MOST_BYTES = 128 << 20
_NONCE_BYTES = _TAG_BYTES = 32
_HEAD = struct.Struct("!I")
_CONNECT_S = 30.0
_LOOK_S = 1.0
_ESTABLISHED = "01"


class StoreSeal:
    """The client's side of a sealed connection: each direction has a key of its own, from the
    trainer's ``key`` and the random nonces of ``client`` and ``server``. Pure but for its counts of
    messages.
    """

    def __init__(self, key: bytes, client: bytes, server: bytes) -> None:
        self._client_key = _hmac_of_parts(key, b"client", client, server)
        self._server_key = _hmac_of_parts(key, b"server", client, server)
        self.proof = _hmac_of_parts(self._client_key, b"proof")
        """Sent to the server: the client knows the key."""
        self._sent_count = 0
        self._received_count = 0

    def accepts(self, proof: bytes) -> bool:
        """Whether the server knows the key, by its ``proof``."""
        return hmac.compare_digest(proof, _hmac_of_parts(self._server_key, b"proof"))

    def packed(self, message: bytes) -> bytes:
        """Return the bytes of the next message to send: length, message, code. The code counts the
        messages, so none can be repeated or left out.
        """
        self._sent_count += 1
        code = _hmac_of_parts(self._client_key, self._sent_count.to_bytes(8, "big"), message)
        return _HEAD.pack(len(message)) + message + code

    def checked(self, message: bytes, tag: bytes) -> bytes:
        """Return the next message that came, if ``tag`` is its code. Raises ``ConnectionError`` if
        it was changed on its way.
        """
        self._received_count += 1
        code = _hmac_of_parts(self._server_key, self._received_count.to_bytes(8, "big"), message)
        if not hmac.compare_digest(tag, code):
            raise ConnectionError("a message was changed on its way")
        return message


def _hmac_of_parts(key: bytes, *parts: bytes) -> bytes:
    """Return the HMAC-SHA256 of the parts, one after the other."""
    code = hmac.new(key, digestmod=hashlib.sha256)
    for part in parts:
        code.update(part)
    return code.digest()


def is_own(connection: socket.socket) -> bool:
    """Return whether the other end of a loopback connection is a socket of this user.

    A socket that was closed belongs to nobody: the kernel shows root for it, in another
    state.
    """
    peer_end = _kernel_address(*connection.getpeername()[:2])
    own_end = _kernel_address(*connection.getsockname()[:2])
    ends = [peer_end, own_end]  # as the kernel lists the peer's socket
    mapped_ends = [f"0000000000000000FFFF0000{end}" for end in ends]  # of a client that speaks IPv6
    for path, socket_ends in (("/proc/net/tcp", ends), ("/proc/net/tcp6", mapped_ends)):
        with contextlib.suppress(OSError), open(path, encoding="ascii") as table:  # noqa: PTH123 - one import less
            for line in table:
                words = line.split()
                if words[1:3] == socket_ends:
                    state, user = words[3], int(words[7])
                    return state == _ESTABLISHED and user == os.geteuid()
    return False


def _kernel_address(host: str, port: int) -> str:
    """Write an address as /proc/net/tcp does, with its bytes in the machine's order: 127.0.0.1,
    8080 -> ``0100007F:1F90``.
    """
    (number,) = struct.unpack("=I", socket.inet_aton(host))
    return f"{number:08X}:{port:04X}"


class Relay:
    """Accepts connections of this user on loopback, each of which gets a sealed one to the
    store.
    """

    def __init__(self, host: str, port: int, key: bytes) -> None:
        self._place = host, port
        self._key = key

    async def listen(self) -> int:
        """Begin to accept connections; return the port."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024)
        return int(server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Connect one client of torch to the store and pass bytes on in both directions, until one
        side ends. A client of another user is closed at once.
        """
        upward = None
        try:
            if is_own(writer.get_extra_info("socket")):
                from_store, upward = await asyncio.wait_for(
                    asyncio.open_connection(*self._place), _CONNECT_S
                )
                seal = await asyncio.wait_for(self._greeted(from_store, upward), _CONNECT_S)
                await _first_to_end(_send(reader, upward, seal), _receive(from_store, writer, seal))
        except (OSError, EOFError, asyncio.TimeoutError):
            pass  # torch's client sees that its connection ends
        finally:
            writer.close()
            if upward is not None:
                upward.close()

    async def _greeted(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> StoreSeal:
        """Do the client's part of the handshake with the store. Raises ``ConnectionError`` if the
        store does not know the key.
        """
        nonce = secrets.token_bytes(_NONCE_BYTES)
        writer.write(nonce)
        seal = StoreSeal(self._key, nonce, await reader.readexactly(_NONCE_BYTES))
        if not seal.accepts(await reader.readexactly(_TAG_BYTES)):
            raise ConnectionError("the store does not know the trainer's key")
        writer.write(seal.proof)
        return seal


async def _send(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seal: StoreSeal
) -> None:
    """Pass on what torch's client sends, in messages with a code."""
    while True:
        data = await reader.read(CHUNK_BYTES)
        if not data:
            return
        writer.write(seal.packed(data))
        await writer.drain()


async def _receive(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seal: StoreSeal
) -> None:
    """Pass on what the store sends, after a check of each message's code."""
    while True:
        (length,) = _HEAD.unpack(await reader.readexactly(_HEAD.size))
        if length > _MOST_BYTES:
            raise ConnectionError(f"a message of {length} bytes")
        message = await reader.readexactly(length)
        writer.write(seal.checked(message, await reader.readexactly(_TAG_BYTES)))
        await writer.drain()


async def _first_to_end(*directions: Awaitable[None]) -> None:
    """Run all directions until one of them ends, then cancel the others; raises its error."""
    tasks = [asyncio.ensure_future(direction) for direction in directions]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _relay(place: str, parent: int) -> None:
    """Print the relay's port and serve until the worker, which is the parent, ends."""
    host, port, key = place.rsplit(":", 2)
    sys.stdout.write(f"{await Relay(host, int(port), bytes.fromhex(key)).listen()}\n")
    sys.stdout.close()
    over = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), over.set)  # its end: the worker's
    while not over.is_set() and os.getppid() == parent:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(over.wait(), _LOOK_S)


def main() -> None:
    """Run the relay until the worker ends. It ignores signals: one to the worker's whole group may
    ask the worker for a checkpoint, which needs the store.
    """
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    parent = os.getppid()
    place = sys.stdin.readline().strip()
    if place:  # else the worker was not needed
        asyncio.run(_relay(place, parent))


if __name__ == "__main__":
    main()
