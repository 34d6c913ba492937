"""torchft's lighthouse, held by the driver: the port at which the trainer's replicas ask for their next step.

A replica's id begins with a name that only the driver and its workers know; other requests, and
requests from outside of the trainer's networks, are refused.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from grpclib import GRPCError, Status
from grpclib.const import Cardinality, Handler
from grpclib.encoding.base import CodecBase
from grpclib.server import Server

from bftrainer.system.network import interface_address, tcp_listener
from bftrainer.system.ports import hosts_in
from bftrainer_adapters.drivers.torchft.messages import (
    HEARTBEAT,
    QUORUM,
    HeartbeatRequest,
    HeartbeatResponse,
    QuorumRequest,
    QuorumResponse,
)
from bftrainer_adapters.drivers.torchft.quorum import Formed, Quorum, StepRequest

_BACKLOG = 1024


class Lighthouse:
    """Answers the replicas of one incarnation. All methods are called in one event loop.

    ``on_asked`` is told of each replica's first request, ``on_formed`` of each quorum that differs from the one before.
    """

    def __init__(self, quorum: Quorum, on_asked: Callable[[str], None], on_formed: Callable[[Formed], None]) -> None:
        self.quorum = quorum
        self._on_asked = on_asked
        self._on_formed = on_formed
        self._waiting: dict[str, tuple[Any, asyncio.Future[Any]]] = {}
        self._known: set[str] = set()
        self._server: Server | None = None
        self._welcomes: Callable[[str], bool] = lambda host: False

    async def open(self, interface: str, networks: Sequence[str]) -> str:
        """Listen on a new port; its address. Raises ``OSError``."""
        address = interface_address(interface)
        self._welcomes = hosts_in([*networks, address])
        listener = tcp_listener(address, 0, _BACKLOG)
        self._server = Server([self], codec=_Codec())  # takes the running loop
        await self._server.start(sock=listener)
        return f"http://{address}:{listener.getsockname()[1]}"

    async def close(self) -> None:
        """Stop listening; requests get no answer."""
        for _, answer in self._waiting.values():
            answer.cancel()
        if self._server is not None:
            self._server.close()
            with suppress(TimeoutError, asyncio.TimeoutError):
                await asyncio.wait_for(self._server.wait_closed(), 1.0)

    def tick(self) -> None:
        """Form the next step's quorum if it can begin; called after every change."""
        formed = self.quorum.form(time.monotonic())
        if formed is not None:
            members = [self._waiting[replica][0] for replica in formed.replicas]
            content = QuorumResponse(quorum={"quorum_id": formed.number, "participants": members})
            for replica in formed.replicas:
                self._waiting.pop(replica)[1].set_result(content)
            if formed.changed:
                self._on_formed(formed)

    def __mapping__(self) -> dict[str, Handler]:
        unary = Cardinality.UNARY_UNARY
        return {
            QUORUM: Handler(self._quorum, unary, QuorumRequest, QuorumResponse),
            HEARTBEAT: Handler(self._heartbeat, unary, HeartbeatRequest, HeartbeatResponse),
        }

    async def _quorum(self, stream: Any) -> None:
        message = await stream.recv_message()
        if not self._welcomes(stream.peer.addr()[0]):
            raise GRPCError(Status.PERMISSION_DENIED, "this host is not in the trainer's networks")
        member = message.requester
        replica = member.replica_id.partition(":")[0]
        if not self.quorum.ask(StepRequest(replica, member.step, member.commit_failures)):
            raise GRPCError(Status.PERMISSION_DENIED, "this replica is not one of this trainer")
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[replica] = member, answer
        if replica not in self._known:
            self._known.add(replica)
            self._on_asked(replica)
        self.tick()
        try:
            content = await answer
        finally:
            if self._waiting.get(replica, (None, None))[1] is answer:  # the replica has given up, or has ended
                del self._waiting[replica]
                self.quorum.withdraw(replica)
        await stream.send_message(content)

    async def _heartbeat(self, stream: Any) -> None:
        await stream.recv_message()  # the driver knows who is alive
        await stream.send_message(HeartbeatResponse())


class _Codec(CodecBase):  # type: ignore[misc]  # grpclib has no types
    """protobuf's own encoding; grpclib's codec wants classes made by its compiler."""

    __content_subtype__ = "proto"

    def encode(self, message: Any, message_type: Any) -> bytes:
        return bytes(message.SerializeToString())

    def decode(self, data: bytes, message_type: Any) -> Any:
        return message_type.FromString(data)
