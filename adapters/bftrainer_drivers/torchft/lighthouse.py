"""The port at which a trainer's replicas ask for their next step, and by which they find each
other.

A connection that does not prove that it knows the trainer's key is closed within
``LIMITS.request_s``, and nothing of it is kept. A replica has two connections, one for its steps
and one for keys; another of the same kind is refused while it lasts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from bftrainer.system.listening_ports import Connection, Limits, Port, hosts_in
from bftrainer.system.network import interface_address, tcp_listener
from bftrainer.system.sealed import SealedServer, SealError
from bftrainer.wires.replicas import MOST_BYTES, Hello, Keys, NextStep, Turn, packed, unpacked
from bftrainer_drivers.torchft.quorum import Quorum, StepQuorum, StepRequest

LIMITS = Limits(strangers=2048, clients=8192, request_s=10.0)
_MOST_KEYS = 65_536
_BACKLOG = 16_384


class Lighthouse:
    """Answers the replicas of one incarnation. All methods are called in one event loop.

    ``on_asked`` is told of each replica's first request, ``on_formed`` of each quorum that differs
    from the one before.
    """

    def __init__(
        self,
        quorum: Quorum,
        key: bytes,
        on_asked: Callable[[str], None],
        on_formed: Callable[[StepQuorum], None],
    ) -> None:
        self.quorum = quorum
        self._key = key
        self._on_asked = on_asked
        self._on_formed = on_formed
        self._waiting: dict[str, asyncio.Future[Turn]] = {}
        self._places: dict[str, str] = {}
        """Where a replica passes its weights on, from its first word to its end."""
        self._introduced: set[str] = set()
        self._with_keys: set[str] = set()
        self._keys: dict[str, str] = {}
        self._number = 0
        self._changed = asyncio.Event()
        self._accepting: asyncio.Task[None] | None = None

    def open(self, interface: str, networks: Sequence[str]) -> tuple[str, int]:
        """Listen on a new port and return its address. Raises ``OSError``."""
        address = interface_address(interface)
        listener = tcp_listener(address, 0, _BACKLOG)
        port = Port(listener, hosts_in([*networks, address]), self._serve, LIMITS)
        self._accepting = asyncio.get_running_loop().create_task(port.accept())
        return address, int(listener.getsockname()[1])

    async def close(self) -> None:
        """Stop listening; requests get no answer."""
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.wait([self._accepting])

    def tick(self) -> None:
        """Form the next step's quorum if it can begin; called after every change."""
        formed = self.quorum.form(time.monotonic())
        if formed is not None:
            for replica, turn in turns(formed, self._places).items():
                answer = self._waiting.pop(replica)
                if not answer.done():  # else it has gone
                    answer.set_result(turn)
            if formed.number != self._number:  # all connect again
                self._number = formed.number
                self._keys.clear()
            if formed.changed:
                self._on_formed(formed)

    async def _serve(self, connection: Connection) -> None:
        """Serve one connection of a replica: the handshake, its :class:`Hello`, then its steps or
        its keys.
        """
        sealed = SealedServer(connection.read, connection.send, self._key)
        with suppress(SealError):
            await sealed.greet()
            if not connection.admit():
                return
            hello = unpacked(Hello, await sealed.receive(MOST_BYTES))
            if hello.replica not in self.quorum.admitted:
                return
            connection.close_after(None)
            held = self._places.keys() if hello.port else self._with_keys
            if hello.replica in held:
                return
            if hello.port:
                await self._serve_steps(
                    connection, sealed, hello.replica, f"{connection.host}:{hello.port}"
                )
            else:
                await self._serve_keys(connection, sealed, hello.replica)

    async def _serve_steps(
        self, connection: Connection, sealed: SealedServer, replica: str, place: str
    ) -> None:
        """Answer a replica's requests for its next step, one after the other, until it goes."""
        self._places[replica] = place
        try:
            while True:
                ask = unpacked(NextStep, await sealed.receive(MOST_BYTES))
                if not self.quorum.ask(StepRequest(replica, ask.step, ask.failures)):
                    return
                answer = self._waiting[replica] = asyncio.get_running_loop().create_future()
                if replica not in self._introduced:
                    self._introduced.add(replica)
                    self._on_asked(replica)
                self.tick()
                await sealed.send(packed(await connection.while_silent(answer)))
        finally:
            del self._places[replica]
            self._waiting.pop(replica, None)
            self.quorum.withdraw(replica)

    async def _serve_keys(self, connection: Connection, sealed: SealedServer, replica: str) -> None:
        """Answer a replica's requests for keys, one after the other, until it goes."""
        self._with_keys.add(replica)
        try:
            while True:
                request = unpacked(Keys, await sealed.receive(MOST_BYTES))
                await sealed.send(packed(await connection.while_silent(self._answer(request))))
        finally:
            self._with_keys.discard(replica)

    async def _answer(self, request: Keys) -> Keys:
        """Set a key, or return its value; a request for the value of a key waits until the key is
        set.
        """
        if request.act == "set":
            if len(self._keys) >= _MOST_KEYS:
                raise SealError("too many keys")
            self._keys[request.key] = request.value
            self._changed.set()
            self._changed = asyncio.Event()
        while request.act == "get" and request.key not in self._keys:
            await self._changed.wait()
        has_key = request.key in self._keys
        return Keys(request.act if has_key else "", request.key, self._keys.get(request.key, ""))


def turns(formed: StepQuorum, places: dict[str, str]) -> dict[str, Turn]:
    """Return what each replica of a quorum is told. Those that are behind copy the weights from
    those that are not, each from one of them.

    Before the first step all copy from the first: scripts may draw their initial weights at random.
    """
    latest = max(formed.steps)
    ahead = [
        replica
        for replica, step in zip(formed.replicas, formed.steps, strict=True)
        if step == latest
    ]
    ahead = ahead if latest else ahead[:1]
    behind = [replica for replica in formed.replicas if replica not in ahead]
    source = {replica: ahead[number % len(ahead)] for number, replica in enumerate(behind)}
    copies = list(source.values())
    source_places = {replica: places[name] for replica, name in source.items()}
    return {
        replica: Turn(
            formed.number,
            rank,
            len(formed.replicas),
            latest,
            source_places.get(replica, ""),
            copies.count(replica),
        )
        for rank, replica in enumerate(formed.replicas)
    }
