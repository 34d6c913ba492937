"""The store of torchrun trainers: real torch, in a process of its own, open to the trainer's networks only."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv4Network
from typing import Any

import pytest
from live_machine import eventually
from needs import need_package
from strangers import crowd

from bftrainer.system.network import accept_only_from, tcp_listener
from bftrainer_adapters.drivers.torchrun.store import StoreHost

psutil = pytest.importorskip("psutil")


@pytest.fixture
def store() -> Iterator[StoreHost]:
    need_package("torch")
    made = StoreHost("lo", ["127.0.0.0/8"])
    yield made
    made.end()


def use(host: StoreHost, port: int) -> bytes:
    """Write and read a key as a worker does."""
    from torch.distributed import TCPStore

    client = TCPStore(host.address, port, is_master=False)
    client.set("key", "value")
    return bytes(client.get("key"))


def children() -> list[Any]:
    return [child for child in psutil.Process().children() if "store_process" in " ".join(_command(child))]


def _command(process: Any) -> list[str]:
    with suppress(psutil.ZombieProcess, psutil.NoSuchProcess):  # of another test
        return process.cmdline()
    return []


def test_each_incarnation_has_a_store_of_its_own_in_one_process(store: StoreHost) -> None:
    first = store.open()
    assert use(store, first) == b"value"
    (process,) = children()
    store.close_store()
    with pytest.raises(ConnectionRefusedError), socket.create_connection((store.address, first), timeout=60):
        pass
    second = store.open()
    assert second != first
    assert use(store, second) == b"value"
    assert children() == [process]
    process.kill()
    process.wait()
    store.close_store()
    assert use(store, store.open()) == b"value", "another process"
    store.end()
    assert children() == []


def test_a_crowd_of_strangers_takes_none_of_the_drivers_descriptors(store: StoreHost) -> None:
    port = store.open()
    use(store, port)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before, threads = psutil.Process().num_fds(), psutil.Process().num_threads()
    resource.setrlimit(resource.RLIMIT_NOFILE, (before + 50, hard))
    try:
        with crowd(store.address, port, 400) as strangers:
            eventually(lambda: strangers.made() >= 400, 60)
            assert psutil.Process().num_fds() < before + 20
            assert psutil.Process().num_threads() < threads + 10
            assert use(store, port) == b"value"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_hosts_outside_of_the_networks_cannot_connect() -> None:
    with tcp_listener("127.0.0.1", 0, 16) as listener:
        place = listener.getsockname()
        accept_only_from(listener, [IPv4Network("192.0.2.0/24"), IPv4Network("127.0.0.2/32")])
        with pytest.raises(TimeoutError), socket.create_connection(place, timeout=2.0):
            pass
        with socket.create_connection(place, timeout=60, source_address=("127.0.0.2", 0)) as connection:
            connection.sendall(b"x")
            accepted, peer = listener.accept()
            with accepted:
                assert peer[0] == "127.0.0.2"
                assert accepted.recv(1) == b"x"
