"""Messages between processes that share a key: both sides prove that they know it, and each message
bears a code.

Messages are not encrypted. Without the key, no host can send a message, change or repeat one, or
answer in another's place.

Handshake: the client sends a nonce, the server a nonce and its proof, the client its proof. A
message: its length (4 bytes), its bytes, and HMAC-SHA256 of direction, number and bytes.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import socket
import struct
import time
from collections.abc import Awaitable, Callable
from typing import Union

from bftrainer.errors import BFTrainerError

KEY_BYTES = NONCE_BYTES = TAG_BYTES = 32
HEAD = struct.Struct("!I")
_AGAIN_S = 0.05
Bytes = Union[bytes, bytearray, memoryview]


class SealError(BFTrainerError):
    """The other side does not know the key, or a message was changed or is too long."""


class Seal:
    """One side of one connection, after both nonces are known: it makes and checks proofs and codes
    (tags) of messages. Pure but for its counts of messages.

    Each direction has a key of its own, from the shared key, the side that sends, and both nonces.
    """

    def __init__(
        self, key: bytes, client_nonce: bytes, server_nonce: bytes, is_client: bool
    ) -> None:
        sender, receiver = (b"client", b"server") if is_client else (b"server", b"client")
        self._send_key = _hmac_of_parts(key, sender, client_nonce, server_nonce)
        self._receive_key = _hmac_of_parts(key, receiver, client_nonce, server_nonce)
        self.proof = _hmac_of_parts(self._send_key, b"proof")
        self._expected_proof = _hmac_of_parts(self._receive_key, b"proof")
        self._sent_count = self._received_count = 0

    def check_proof(self, proof: bytes) -> None:
        """Check that the other side knows the key, by its proof. Raises :class:`SealError`."""
        if not hmac.compare_digest(proof, self._expected_proof):
            raise SealError("the other side does not know the trainer's key")

    def tag(self, message: Bytes) -> bytes:
        """Return the code of the next message to send."""
        self._sent_count += 1
        return _hmac_of_parts(self._send_key, self._sent_count.to_bytes(8, "big"), message)

    def check(self, message: Bytes, tag: bytes) -> None:
        """Check the code of the next message that arrived. Raises :class:`SealError`."""
        self._received_count += 1
        number = self._received_count.to_bytes(8, "big")
        if not hmac.compare_digest(tag, _hmac_of_parts(self._receive_key, number, message)):
            raise SealError("a message was changed on its way")


def _hmac_of_parts(key: bytes, *parts: Bytes) -> bytes:
    """Return the HMAC-SHA256 of all parts in a row."""
    code = hmac.new(key, digestmod=hashlib.sha256)
    for part in parts:
        code.update(part)
    return code.digest()


class SealedClient:
    """A connection to a server that knows the key. Blocks, for ``timeout_s`` at most at a time.
    Raises ``OSError``.

    A server in a crowd of strangers may hang up before it has heard who this is: then it is asked
    again.
    """

    def __init__(self, address: tuple[str, int], key: bytes, timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                self._connect(address, key, timeout_s)
                return
            except (ConnectionResetError, BrokenPipeError):
                if time.monotonic() >= deadline_s:
                    raise
            time.sleep(_AGAIN_S)

    def _connect(self, address: tuple[str, int], key: bytes, timeout_s: float) -> None:
        """Connect and do the handshake; the socket is closed if either fails."""
        self._socket = socket.create_connection(address, timeout_s)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            nonce = secrets.token_bytes(NONCE_BYTES)
            self._socket.sendall(nonce)
            self._seal = Seal(key, nonce, bytes(self._read_exactly(NONCE_BYTES)), is_client=True)
            self._seal.check_proof(bytes(self._read_exactly(TAG_BYTES)))
            self._socket.sendall(self._seal.proof)
        except BaseException:
            self._socket.close()
            raise

    @property
    def host(self) -> str:
        """The address of this side of the connection."""
        return str(self._socket.getsockname()[0])

    def send(self, message: Bytes) -> None:
        self._socket.sendall(HEAD.pack(len(message)))
        self._socket.sendall(message)
        self._socket.sendall(self._seal.tag(message))

    def wait_for(self, seconds: float | None) -> None:
        """Limit how long each send or receive may take from now on; None: no limit."""
        self._socket.settimeout(seconds)

    def receive(self, most_bytes: int) -> bytearray:
        """Return the next message. Raises :class:`SealError` if it is longer than ``most_bytes``,
        or was changed on its way.
        """
        (length,) = HEAD.unpack(self._read_exactly(HEAD.size))
        if length > most_bytes:
            raise SealError(f"a message of {length:,} bytes; expected {most_bytes:,} at most")
        message = self._read_exactly(length)
        self._seal.check(message, bytes(self._read_exactly(TAG_BYTES)))
        return message

    def close(self) -> None:
        self._socket.close()

    def _read_exactly(self, count: int) -> bytearray:
        """Read exactly ``count`` bytes. Raises ``ConnectionResetError`` if the other side closes
        before.
        """
        data = bytearray(count)
        unfilled = memoryview(data)
        while unfilled:
            received_bytes = self._socket.recv_into(unfilled)
            if not received_bytes:
                raise ConnectionResetError("the other side has closed the connection")
            unfilled = unfilled[received_bytes:]
        return data


class SealedServer:
    """The server's side of a connection, in an event loop. ``read`` awaits bytes and returns them,
    ``send`` sends bytes. Call :meth:`greet` before all else.
    """

    def __init__(
        self,
        read: Callable[[], Awaitable[bytes]],
        send: Callable[[Bytes], Awaitable[None]],
        key: bytes,
    ) -> None:
        self._read, self._send, self._key = read, send, key
        self._unread = bytearray()
        self._seal: Seal | None = None

    async def greet(self) -> None:
        """Do the server's part of the handshake. Raises :class:`SealError` for a client without the
        key.
        """
        client_nonce = await self._read_exactly(NONCE_BYTES)
        server_nonce = secrets.token_bytes(NONCE_BYTES)
        self._seal = Seal(self._key, client_nonce, server_nonce, is_client=False)
        await self._send(server_nonce + self._seal.proof)
        self._seal.check_proof(await self._read_exactly(TAG_BYTES))

    def packed(self, message: Bytes) -> bytes:
        """Return the bytes of the next message, with its code, for a caller that sends them itself
        before any other message.
        """
        assert self._seal is not None, "greeted"
        return b"".join((HEAD.pack(len(message)), message, self._seal.tag(message)))

    async def send(self, message: Bytes) -> None:
        assert self._seal is not None, "greeted"
        await self._send(HEAD.pack(len(message)))
        await self._send(message)
        await self._send(self._seal.tag(message))

    async def receive(self, most_bytes: int) -> bytes:
        """Return the next message. Raises :class:`SealError` if it is longer than ``most_bytes``,
        or was changed on its way.
        """
        assert self._seal is not None, "greeted"
        (length,) = HEAD.unpack(await self._read_exactly(HEAD.size))
        if length > most_bytes:
            raise SealError(f"a message of {length:,} bytes; expected {most_bytes:,} at most")
        message = await self._read_exactly(length)
        self._seal.check(message, await self._read_exactly(TAG_BYTES))
        return message

    async def _read_exactly(self, count: int) -> bytes:
        """Read exactly ``count`` bytes; further bytes that have come are kept for the next call."""
        while len(self._unread) < count:
            self._unread += await self._read()
        data = bytes(self._unread[:count])
        del self._unread[:count]
        return data
