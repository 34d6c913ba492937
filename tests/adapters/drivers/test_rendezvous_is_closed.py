"""Without the token, nobody at a trainer's port can run code, read keys, change or end anything."""

from __future__ import annotations

import base64
import http.client
import pickle
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bftrainer.errors import InvalidValueError
from bftrainer.system.network import interface_address
from bftrainer_drivers.horovod.plain_pickle import worker_registration
from bftrainer_drivers.horovod.rendezvous import Callbacks, RendezvousServer

KEY = b"k" * 32
ADDRESSES = {"lo": [("127.0.0.1", 4711)]}


class Touch:
    """A pickle that makes a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


class Slot:
    def __init__(self, hostname: str, local_rank: int) -> None:
        self.hostname = hostname
        self.local_rank = local_rank


class Driver:
    def __init__(self) -> None:
        self.registered: list[tuple[str, int, Any, bytes]] = []
        self.asked: list[tuple[str, int]] = []

    def rank_and_size(self, host: str, rank: int) -> bytes:
        self.asked.append((host, rank))
        return b"0,1,0,1,0,1"

    def register(self, host: str, rank: int, addresses: Any, key: bytes) -> None:
        self.registered.append((host, rank, addresses, key))


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.fixture
def server(driver: Driver) -> Iterator[RendezvousServer]:
    made = RendezvousServer("127.0.0.1", ["127.0.0.0/8"])
    made.start(Callbacks(driver.rank_and_size, driver.register))
    made.init([Slot("a", 0)])
    yield made
    made.stop()


def ask(
    server: RendezvousServer, method: str, path: str, body: bytes | None = None
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def inside(server: RendezvousServer, scope: str, key: str) -> str:
    """The path that Horovod's clients make of HOROVOD_GLOO_RENDEZVOUS_ADDR and _PORT."""
    url = f"http://{server.address_for_workers}:{server.port}/{scope}/{key}"
    return url.removeprefix(f"http://127.0.0.1:{server.port}")


def registration(value: object) -> bytes:
    return base64.b64encode(pickle.dumps(value))


def test_a_worker_is_served(server: RendezvousServer, driver: Driver) -> None:
    assert ask(server, "PUT", inside(server, "global", "0"), b"address") == (200, b"")
    assert ask(server, "GET", inside(server, "global", "0")) == (200, b"address")
    assert ask(server, "GET", inside(server, "global", "1")) == (404, b"")
    assert ask(server, "GET", inside(server, "rank_and_size", "a:0")) == (200, b"0,1,0,1,0,1")
    assert (
        ask(
            server, "PUT", inside(server, "worker_addresses", "a:0"), registration((ADDRESSES, KEY))
        )[0]
        == 200
    )
    assert driver.registered == [("a", 0, ADDRESSES, KEY)]


@pytest.mark.parametrize("prefix", ["", "/", "/x", "/{token}x:1", "/{half}:1"])
def test_without_the_token_nothing_is_read_written_or_ended(
    server: RendezvousServer, driver: Driver, tmp_path: Path, prefix: str
) -> None:
    ask(server, "PUT", inside(server, "global", "0"), b"address")
    ask(server, "PUT", inside(server, "worker_addresses", "a:0"), registration((ADDRESSES, KEY)))
    registered = list(driver.registered)
    before = prefix.format(token=server.token, half=server.token[: len(server.token) // 2])
    payload = registration(Touch(tmp_path / "pwned"))
    for scope, key in [("worker_addresses", "a:0"), ("global", "0"), ("rank_and_size", "a:0")]:
        for method, body in [("GET", None), ("PUT", payload), ("DELETE", None)]:
            assert ask(server, method, f"{before}/{scope}/{key}", body) == (403, b""), (
                method,
                scope,
            )
    assert not (tmp_path / "pwned").exists()
    assert driver.registered == registered
    assert driver.asked == []
    assert ask(server, "GET", inside(server, "global", "0")) == (200, b"address")


def test_even_with_the_token_a_pickle_runs_no_code(
    server: RendezvousServer, driver: Driver, tmp_path: Path
) -> None:
    for value in (
        Touch(tmp_path / "pwned"),
        ({"lo": [("127.0.0.1", Touch(tmp_path / "pwned"))]}, KEY),
    ):
        assert ask(
            server, "PUT", inside(server, "worker_addresses", "a:0"), registration(value)
        ) == (403, b"")
    assert not (tmp_path / "pwned").exists()
    assert driver.registered == []


def test_even_with_the_token_no_key_of_a_worker_is_handed_out(server: RendezvousServer) -> None:
    ask(server, "PUT", inside(server, "worker_addresses", "a:0"), registration((ADDRESSES, KEY)))
    status, body = ask(server, "GET", inside(server, "worker_addresses", "a:0"))
    assert (status, body) == (404, b"")


def test_the_driver_is_not_sent_to_a_foreign_address(
    server: RendezvousServer, driver: Driver
) -> None:
    foreign = registration(({"eth0": [("192.0.2.1", 22)]}, KEY))
    assert ask(server, "PUT", inside(server, "worker_addresses", "a:0"), foreign) == (403, b"")
    assert driver.registered == []


def test_a_planned_scope_lasts_until_the_next_group(server: RendezvousServer) -> None:
    ask(server, "PUT", inside(server, "global", "0"), b"address")
    ask(server, "PUT", inside(server, "set", "0"), b"address")
    for scope in ("global", "set"):
        assert ask(server, "DELETE", inside(server, scope, "0"))[0] == 200
    assert ask(server, "GET", inside(server, "global", "0"))[0] == 200
    assert ask(server, "GET", inside(server, "set", "0"))[0] == 404
    server.init([Slot("a", 0)])
    assert ask(server, "GET", inside(server, "global", "0"))[0] == 404


def test_strangers_are_hung_up_on(driver: Driver) -> None:
    server = RendezvousServer("127.0.0.1", ["192.0.2.0/24"])
    server.start(Callbacks(driver.rank_and_size, driver.register))
    try:
        with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
            ask(server, "GET", inside(server, "rank_and_size", "a:0"))
        assert driver.asked == []
    finally:
        server.stop()


def test_it_listens_on_one_interface_only(server: RendezvousServer) -> None:
    assert interface_address("lo") == "127.0.0.1"
    assert server.address == "127.0.0.1"
    with (
        pytest.raises(ConnectionRefusedError),
        socket.create_connection(("127.0.0.2", server.port), timeout=60),
    ):
        pass
    with pytest.raises(InvalidValueError, match="nosuch0"):
        interface_address("nosuch0")


@pytest.mark.parametrize("length", ["-1", "x", "99999999999"])
def test_a_body_is_bounded(server: RendezvousServer, length: str) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as raw:
        path = inside(server, "global", "0")
        raw.sendall(f"PUT {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n".encode())
        assert raw.recv(64).startswith(b"HTTP/1.1 4")


@pytest.mark.parametrize(
    "body",
    [
        registration(None),
        registration(7),
        registration((ADDRESSES,)),
        registration((ADDRESSES, "text")),
        registration((ADDRESSES, b"short")),
        registration(({}, KEY)),
        registration(({"lo": [("h", "x")]}, KEY)),
        registration(([], KEY)),
        b"",
        b"!",
        base64.b64encode(b"\x80\x05."),
        base64.b64encode(b"garbage"),
        b"A" * 70000,
    ],
)
def test_what_is_no_registration_or_no_pickle_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidValueError, match="registration"):
        worker_registration(body)
