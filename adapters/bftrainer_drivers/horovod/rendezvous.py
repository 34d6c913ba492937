"""The rendezvous server of one trainer: Horovod's key-value store over HTTP, closed to strangers.

Stock Horovod 0.28.1 listens on every interface, requires no key, serves the workers' secrets and
unpickles what it receives. This server uses one interface, admits known networks only, requires a
random token in the path (compared in constant time), never serves a secret, and reads registrations
with ``plain_pickle``. A rejected request gets an empty 403.

Horovod's clients build ``http://ADDRESS:PORT/SCOPE/KEY`` from two variables and know no token. It
is part of ADDRESS, ``IP:PORT/TOKEN``: the request is then ``/TOKEN:PORT/SCOPE/KEY``, for the C++
client and urllib alike.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from bftrainer.errors import InvalidValueError
from bftrainer.system.http_server import HttpAnswer, HttpRequest, http_port, is_same_token
from bftrainer.system.listening_ports import Limits, PortServer, hosts_in
from bftrainer.system.network import tcp_listener
from bftrainer_drivers.horovod.plain_pickle import Addresses, worker_registration

MAX_KEYS = 1 << 18
LIMITS = Limits(strangers=64, clients=4096, request_s=30.0, body_bytes=1 << 20)
"""``clients``: each worker of a group waits for its rank in a connection of its own. No pause: a
rescale waits for them.
"""
_BACKLOG = 1024
"""Every worker polls for its peers' keys when a group forms."""


class RankPlace(Protocol):
    """The part of Horovod's SlotInfo that is used."""

    hostname: str
    local_rank: int


@dataclass(frozen=True, slots=True)
class Callbacks:
    """Requests of workers that the elastic driver answers."""

    rank_and_size: Callable[[str, int], bytes]
    """The rank of a worker (host label, local rank) in the next group; blocks until the group is
    known.
    """
    register: Callable[[str, int, Addresses, bytes], None]
    """Where a worker receives notices, and its message key."""


class RendezvousServer:
    """The object that ElasticDriver calls ``init`` and ``stop`` on, and what its port serves.

    Nothing is logged: the path holds the token.
    """

    def __init__(self, address: str, networks: Sequence[str]) -> None:
        self.token = secrets.token_urlsafe(24)
        self.welcomes = hosts_in(networks)
        self.callbacks: Callbacks | None = None
        self.values: dict[tuple[str, str], bytes] = {}
        self.planned_scopes: frozenset[str] = frozenset()
        self.group = 0
        self.lock = threading.Lock()
        listener = tcp_listener(address, 0, _BACKLOG)
        self.address, self.port = listener.getsockname()[:2]
        self._http = PortServer("rendezvous", [http_port(listener, self, LIMITS)])

    @property
    def address_for_workers(self) -> str:
        """The value of HOROVOD_GLOO_RENDEZVOUS_ADDR."""
        return f"{self.address!s}:{self.port}/{self.token}"

    def start(self, callbacks: Callbacks) -> None:
        self.callbacks = callbacks
        self._http.start()

    def init(self, plan: Sequence[RankPlace]) -> None:
        """Begin a new group: the values of the last one are dropped."""
        scopes = {"global"}
        for place in plan:
            scopes |= {f"local_{place.hostname}", f"cross_{place.local_rank}"}
        with self.lock:
            self.values.clear()
            self.planned_scopes = frozenset(scopes)
            self.group += 1

    def has_joined(self, rank: int) -> bool:
        """Whether a rank of this group has published its address (Gloo's key in the scope of all
        ranks).
        """
        with self.lock:
            return ("global", str(rank)) in self.values

    def stop(self) -> None:
        """Stop serving. May be called twice."""
        self._http.stop()

    def split(self, path: str) -> tuple[str, str] | None:
        """Split a path, ``/TOKEN:PORT/SCOPE/KEY``, into scope and key; None if it has another form
        or does not carry the token.
        """
        token_and_port, _, place = path.removeprefix("/").partition("/")
        is_authorized = is_same_token(token_and_port.partition(":")[0], self.token)
        scope, _, key = place.partition("/")
        is_place = bool(scope and key) and "/" not in key
        return (scope, key) if is_authorized and is_place else None

    def get(self, scope: str, key: str) -> bytes | None:
        """Return a stored value (None: there is none) or, for the scope ``rank_and_size``, a
        worker's place in the next group, which blocks until that is known.
        """
        if scope == "rank_and_size":
            assert self.callbacks is not None
            host, rank = _worker_address(key)
            return self.callbacks.rank_and_size(host, rank)
        with self.lock:
            return self.values.get((scope, key))

    def put(self, scope: str, key: str, value: bytes) -> None:
        """Store a value; a worker's registration is passed to the driver instead. Raises
        :class:`InvalidValueError` for a wrong registration, or too many keys.
        """
        if scope == "worker_addresses":
            assert self.callbacks is not None
            addresses, secret = worker_registration(value)
            if not all(self.welcomes(host) for places in addresses.values() for host, _ in places):
                raise InvalidValueError("a worker's address is outside of the trainer's networks")
            self.callbacks.register(*_worker_address(key), addresses, secret)
            return
        with self.lock:
            if len(self.values) >= MAX_KEYS:
                raise InvalidValueError("too many keys")
            self.values[scope, key] = value

    def delete(self, scope: str, key: str) -> None:
        """Delete one key, if its scope is a process set's.

        Every rank deletes its key of the planned scopes once it is connected, while others may
        still need to read it: these scopes last until the next ``init``.
        """
        with self.lock:
            if scope not in self.planned_scopes:
                self.values.pop((scope, key), None)

    def refusal(self, head: HttpRequest) -> HttpAnswer | None:
        return HttpAnswer(403) if self.split(head.target) is None else None

    def blocks(self, request: HttpRequest) -> bool:
        """Return whether the answer waits: ranks are known only when all workers have left the last
        group.
        """
        scope, _ = self._scope_and_key(request)
        return request.method == "GET" and scope == "rank_and_size"

    def answer(self, request: HttpRequest) -> HttpAnswer:
        """Carry out a worker's request for a key; 403 for anything else."""
        scope, key = self._scope_and_key(request)
        try:
            match request.method:
                case "GET":
                    value = self.get(scope, key)
                    return HttpAnswer(404) if value is None else HttpAnswer(200, value)
                case "PUT":
                    self.put(scope, key, request.body)
                case "DELETE":
                    self.delete(scope, key)
                case _:
                    return HttpAnswer(403)
        except InvalidValueError:
            return HttpAnswer(403)
        return HttpAnswer(200)

    def _scope_and_key(self, request: HttpRequest) -> tuple[str, str]:
        """Return scope and key of a request that :meth:`refusal` has let pass."""
        place = self.split(request.target)
        assert place is not None, "refused otherwise"
        return place


def _worker_address(key: str) -> tuple[str, int]:
    """Split ``HOST:LOCAL_RANK``. Raises :class:`InvalidValueError` for anything else."""
    host, colon, rank = key.rpartition(":")
    if not (colon and host and rank.isdecimal()):
        raise InvalidValueError(f"not a worker: {key!r}")
    return host, int(rank)
