"""The store at which the workers of one incarnation meet: speaks the protocol of torch's TCPStore,
over sealed connections.

Because the store is held in the driver, it survives the loss of any node, and ends with the driver.
Each incarnation has a new port and a new key, which keep late workers of the last incarnation out.
Nothing here unpickles or interprets what is stored.

torch's clients know no key: each worker has a relay beside it, which does
(``common/store_relay.py``). Connections from outside of the trainer's networks are closed
before a byte is read, and of others nothing is kept before they have proved that they know the key.
All that workers make this process keep is counted, stored, unread or unsent. The connection that
asks for more than ``MOST_BYTES`` ends.

The messages are those of torch 2.0 to 2.13 (torch/csrc/distributed/c10d/TCPStoreBackend.hpp and
TCPStore.cpp).
"""

from __future__ import annotations

import resource
import secrets
import struct
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from enum import IntEnum
from typing import NamedTuple

from bftrainer.system.listening_ports import Connection, Limits, Port, PortServer, hosts_in
from bftrainer.system.network import interface_address, tcp_listener
from bftrainer.system.sealed import KEY_BYTES, SealedServer, SealError
from bftrainer_drivers.common.store_relay import CHUNK_BYTES

MOST_BYTES = 64 << 20
"""The most bytes of keys, values and unfinished messages that a store keeps. A group of 1,000
workers needs about 1 MB.
"""
_MOST_DESCRIPTORS = 65_536
_BACKLOG = 1024
"""Length of the kernel's queue of connections. With 16,384, and 2,048 strangers, a worker waits
behind a longer crowd: beside two processes of the same host that hold thousands of connections, one
took 7 s instead of 0.05 s.
"""
_KEY_BYTES, _VALUE_BYTES, _MOST_KEYS = 8 << 10, 8 << 20, 128 << 10  # of a message, as in torch
_EACH_BYTES = 200
"""What a key counts for beside its bytes: the memory that Python needs for it."""
_QUEUE_BYTES = 1000
"""What a queue counts for beside its values."""
_CLIENT_BYTES = 4 << 10
"""What a connection counts for."""
_OPEN = b"\0open"
_MAGIC = struct.pack("<BI", 0, 0x3C85F7CE)
_YES, _NO = b"\0", b"\1"  # to CHECK; to WAIT: the keys are there; the wait was canceled


class Command(IntEnum):
    """The first byte of a message."""

    SET = 1
    COMPARE_SET = 2
    GET = 3
    ADD = 4
    CHECK = 5
    WAIT = 6
    COUNT = 7
    DELETE = 8
    APPEND = 9
    MULTI_GET = 10
    MULTI_SET = 11
    CANCEL_WAIT = 12
    PING = 13
    PUSH = 14
    POP = 15
    LENGTH = 16
    LIST = 17
    BARRIER = 18


class _RefusedError(EOFError):
    """Raised for bytes that are no message, or a message that does not fit; it ends the
    connection.
    """


class StorePlace(NamedTuple):
    """Where the workers' relays find a store, and the key that they prove to know."""

    host: str
    port: int
    key: bytes

    def __str__(self) -> str:
        """The place as a worker's environment has it: ``host:port:key``."""
        return f"{self.host}:{self.port}:{self.key.hex()}"


class StoreHost:
    """Opens one store after the other, at the address of an interface of this host."""

    def __init__(self, interface: str, networks: Sequence[str]) -> None:
        self.address = interface_address(interface)
        self._welcomes = hosts_in([*networks, self.address])
        self._server: PortServer | None = None

    def open(self) -> StorePlace:
        """Close the last store, open a new one on a new port, and return its place. Raises
        ``OSError``.
        """
        self.close_store()
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)  # each worker has a few connections
        descriptors = min(hard, _MOST_DESCRIPTORS)
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, hard))
        limits = Limits(strangers=64, clients=descriptors // 2, request_s=30.0)
        listener = tcp_listener(self.address, 0, _BACKLOG)
        key = secrets.token_bytes(KEY_BYTES)
        self._server = PortServer(
            "store", [Port(listener, self._welcomes, TorchStore(key).serve, limits)]
        )
        self._server.start()
        return StorePlace(self.address, int(listener.getsockname()[1]), key)

    def close_store(self) -> None:
        """End the last store."""
        if self._server is not None:
            self._server.stop()
            self._server = None


class TorchStore:
    """The keys and values of one incarnation, and the clients that wait for keys."""

    def __init__(self, key: bytes, most_bytes: int = MOST_BYTES) -> None:
        self._key = key
        self._left = most_bytes
        self._values: dict[bytes, bytes] = {}
        self._queues: dict[bytes, deque[bytes]] = {}
        self._waiting: dict[_Client, frozenset[bytes]] = {}

    async def serve(self, connection: Connection) -> None:
        """Serve one connection from accept to close; one without the key ends at the handshake."""
        sealed = SealedServer(connection.read, connection.send, self._key)
        with suppress(SealError):  # a stranger, whose connection ends
            await sealed.greet()
            if connection.admit():
                connection.close_after(None)
                await self._serve(_Client(self, connection, sealed))

    async def _serve(self, client: _Client) -> None:
        """Answer the messages of one worker until it goes."""
        try:
            client.begin()
            if await client.take(len(_MAGIC)) == _MAGIC:
                while True:
                    client.forget()
                    await self._answer(client, (await client.take(1))[0])
        finally:
            self._stop_waiting(client)
            client.end()

    def keep(self, count: int) -> None:
        """Count ``count`` more bytes as kept, or fewer if it is negative. Raises an error that ends
        the connection if the store is full.
        """
        if count > self._left:
            raise _RefusedError
        self._left -= count

    async def _answer(self, client: _Client, command: int) -> None:
        for answer in (self._answer_change, self._answer_query, self._answer_wait):
            if await answer(client, command):
                return
        raise _RefusedError

    async def _answer_change(self, client: _Client, command: int) -> bool:
        """Answer a command that changes values; return False for any other command."""
        match command:
            case Command.SET:
                self._put_value(await client.key(), await client.value())
            case Command.MULTI_SET:
                for _ in range(await client.number(_MOST_KEYS)):
                    self._put_value(await client.key(), await client.value())
            case Command.COMPARE_SET:
                key, expected, wanted = (
                    await client.key(),
                    await client.value(),
                    await client.value(),
                )
                if self._values.get(key, b"") == expected:
                    self._put_value(key, wanted)
                await client.send_bytes(self._values.get(key, expected))
            case Command.ADD:
                await client.send_number(
                    self._add_to_number(await client.key(), await client.number())
                )
            case Command.DELETE:
                await client.send_number(self._delete_key(await client.key()))
            case Command.APPEND:
                key, more = await client.key(), await client.value()
                self._put_value(key, self._values.get(key, b"") + more)
            case Command.PUSH:
                self._append_value(await client.key(), await client.value())
            case Command.POP:
                await self._pop(client, await client.key())
            case _:
                return False
        return True

    async def _answer_query(self, client: _Client, command: int) -> bool:
        """Answer a command that reads values; return False for any other command."""
        match command:
            case Command.GET:
                await client.send_bytes(self._values.get(await client.key(), b""))
            case Command.MULTI_GET:
                for key in await client.keys():
                    await client.send_bytes(self._values.get(key, b""))
            case Command.CHECK:
                await client.send(_YES if self._has_keys(await client.keys()) else _NO)
            case Command.COUNT:
                await client.send_number(len(self._values))
            case Command.PING:
                await client.send(await client.take(4))
            case Command.LENGTH:
                await client.send_number(len(self._queues.get(await client.key(), ())))
            case Command.LIST:
                answer = b"".join(struct.pack("<q", len(key)) + key for key in self._values)
                client.hold(len(answer))
                await client.send_number(len(self._values))
                await client.send(answer)
            case _:
                return False
        return True

    async def _answer_wait(self, client: _Client, command: int) -> bool:
        """Answer a command that waits, or cancels a wait; return False for any other command."""
        match command:
            case Command.WAIT:
                await self._wait(client, await client.keys())
            case Command.CANCEL_WAIT:
                self._stop_waiting(client)
                await client.send(_NO)
            case Command.BARRIER:
                key, size = await client.key(), await client.number()
                if self._add_to_number(key, 1) >= size:
                    self._put_value(key + _OPEN, b"")
                await self._wait(client, [key + _OPEN])
            case _:
                return False
        return True

    def _put_value(self, key: bytes, value: bytes) -> None:
        self.keep(len(key) + len(value) + _EACH_BYTES)
        self._delete_key(key)
        self._values[key] = value
        self._wake_waiters(key)

    def _delete_key(self, key: bytes) -> int:
        """Delete a key and return how many were deleted: 0 or 1."""
        value = self._values.pop(key, None)
        if value is None:
            return 0
        self.keep(-len(key) - len(value) - _EACH_BYTES)
        return 1

    def _add_to_number(self, key: bytes, more: int) -> int:
        """Add to the number under a key (0 if there is none) and return the sum."""
        try:
            total = int(self._values.get(key, b"0")) + more
            struct.pack("<q", total)
        except (ValueError, struct.error):
            raise _RefusedError from None
        self._put_value(key, str(total).encode())
        return total

    def _append_value(self, key: bytes, value: bytes) -> None:
        self.keep(
            len(value) + _EACH_BYTES + (0 if key in self._queues else len(key) + _QUEUE_BYTES)
        )
        self._queues.setdefault(key, deque()).append(value)
        self._wake_waiters(key)

    async def _pop(self, client: _Client, key: bytes) -> None:
        """Send a queue's length and its oldest value, which is removed; only the length if it is
        empty.
        """
        queue = self._queues.get(key, deque())
        await client.send_number(len(queue))
        if queue:
            value = queue.popleft()
            self.keep(-len(value) - _EACH_BYTES)
            if not queue:
                del self._queues[key]
                self.keep(-len(key) - _QUEUE_BYTES)
            await client.send_bytes(value)

    def _has_keys(self, keys: Iterable[bytes]) -> bool:
        return all(key in self._values or key in self._queues for key in keys)

    async def _wait(self, client: _Client, keys: list[bytes]) -> None:
        """Answer the client when all keys are there; it may cancel the wait before."""
        self._stop_waiting(client)
        if self._has_keys(keys):
            await client.send(_YES)
            return
        wanted = frozenset(keys)
        self.keep(sum(map(len, wanted)) + len(wanted) * _EACH_BYTES)
        self._waiting[client] = wanted

    def _wake_waiters(self, key: bytes) -> None:
        for client, keys in list(self._waiting.items()):
            if key in keys and self._has_keys(keys):
                self._stop_waiting(client)
                client.send_now(_YES)

    def _stop_waiting(self, client: _Client) -> None:
        keys = self._waiting.pop(client, frozenset())
        self.keep(-sum(map(len, keys)) - len(keys) * _EACH_BYTES)


class _Client:
    """Reads and writes the values of messages. What has been read counts as kept until the message
    is answered.
    """

    def __init__(self, store: TorchStore, connection: Connection, sealed: SealedServer) -> None:
        self._store = store
        self._connection = connection
        self._sealed = sealed
        self._unread = bytearray()
        self._message_bytes = self._own_bytes = 0

    def begin(self) -> None:
        """Count the connection as a client's from now on."""
        self._store.keep(_CLIENT_BYTES)
        self._own_bytes = _CLIENT_BYTES

    async def take(self, count: int) -> bytes:
        """Read exactly ``count`` bytes of the message."""
        while len(self._unread) < count:
            chunk = await self._sealed.receive(CHUNK_BYTES)
            self._store.keep(len(chunk))
            self._unread += chunk
        data = bytes(self._unread[:count])
        del self._unread[:count]
        self._message_bytes += count
        return data

    def hold(self, count: int) -> None:
        """Count bytes until the message is answered."""
        self._store.keep(count)
        self._message_bytes += count

    def forget(self) -> None:
        """Count the bytes of the answered message no longer."""
        self._store.keep(-self._message_bytes)
        self._message_bytes = 0

    def end(self) -> None:
        self.forget()
        self._store.keep(-len(self._unread) - self._own_bytes)

    async def number(self, maximum: int = 1 << 63) -> int:
        (value,) = struct.unpack("<q", await self.take(8))
        if value > maximum:
            raise _RefusedError
        return int(value)

    async def key(self) -> bytes:
        return await self._bytes(_KEY_BYTES)

    async def value(self) -> bytes:
        return await self._bytes(_VALUE_BYTES)

    async def keys(self) -> list[bytes]:
        keys_read = []
        for _ in range(await self.number(_MOST_KEYS)):
            self.hold(_EACH_BYTES)
            keys_read.append(await self.key())
        return keys_read

    async def _bytes(self, max_bytes: int) -> bytes:
        count = await self.number(max_bytes)
        if count < 0:
            raise _RefusedError
        return await self.take(count)

    async def send(self, data: bytes) -> None:
        await self._connection.send(self._sealed.packed(data))

    async def send_number(self, number: int) -> None:
        await self.send(struct.pack("<q", number))

    async def send_bytes(self, data: bytes) -> None:
        self.hold(len(data))  # until the client has read it, whatever becomes of the key
        await self.send_number(len(data))
        await self.send(data)

    def send_now(self, data: bytes) -> None:
        """Send to a client from another client's task, without waiting: one that does not read is
        disconnected.
        """
        packed = self._sealed.packed(data)
        try:
            is_whole = self._connection.raw.send(packed) == len(packed)
        except OSError:
            is_whole = False
        if not is_whole:  # it has gone, or reads nothing
            self._connection.task.cancel()
