"""The lighthouse's port: who knows the key is a replica, and nobody takes another one's place."""

from __future__ import annotations

import asyncio
import resource
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from support.live_machine import eventually
from support.strangers import crowd

from bftrainer.system.sealed import SealedClient, SealError
from bftrainer.wires.replicas import Hello, Keys, NextStep, Turn, packed, unpacked
from bftrainer_drivers.common.legal_sizes import LegalSizes
from bftrainer_drivers.torchft.lighthouse import Lighthouse
from bftrainer_drivers.torchft.quorum import Quorum

psutil = pytest.importorskip("psutil")

KEY = bytes(32)
_open: list[SealedClient] = []


def with_lighthouse(clients: Callable[[tuple[str, int]], None]) -> None:
    """Blocking clients in a thread; replicas 1 and 2 are admitted."""

    async def run() -> None:
        quorum = Quorum(LegalSizes())
        quorum.admit(["1", "2"])
        lighthouse = Lighthouse(quorum, KEY, lambda _: None, lambda _: None)
        place = lighthouse.open("lo", ["127.0.0.0/8"])
        await asyncio.to_thread(clients, place)
        await lighthouse.close()

    try:
        asyncio.run(run())
    finally:
        while _open:
            _open.pop().close()


def joined(place: tuple[str, int], name: str, port: int) -> SealedClient:
    client = SealedClient(place, KEY, 60.0)
    _open.append(client)
    client.send(packed(Hello(name, port)))
    return client


def ends(client: SealedClient) -> bool:
    try:
        client.receive(1000)
    except ConnectionError:
        return True
    return False


def test_replicas_step_together_and_find_each_other() -> None:
    def clients(place: tuple[str, int]) -> None:
        one, two = (joined(place, name, port) for name, port in (("1", 1001), ("2", 1002)))
        for client in (one, two):
            client.send(packed(NextStep(0, 0)))
        assert unpacked(Turn, one.receive(1000)) == Turn(1, 0, 2, 0, "", 1)
        assert unpacked(Turn, two.receive(1000)) == Turn(1, 1, 2, 0, "127.0.0.1:1001", 0)
        reader, writer = joined(place, "1", 0), joined(place, "2", 0)
        reader.send(packed(Keys("get", "k")))
        writer.send(packed(Keys("set", "k", "\xff")))
        assert unpacked(Keys, reader.receive(1000)).value == "\xff"

    with_lighthouse(clients)


def test_without_the_key_there_is_no_answer_and_with_it_no_other_replica_s_place() -> None:
    def clients(place: tuple[str, int]) -> None:
        with pytest.raises(SealError, match="does not know the trainer's key"):
            SealedClient(place, b"x" * 32, 60.0)
        with socket.create_connection(place, timeout=60) as stranger:
            stranger.sendall(bytes(64))  # a nonce, and a wrong proof
            assert len(stranger.recv(64, socket.MSG_WAITALL)) == 64
            assert stranger.recv(1) == b""
        assert ends(joined(place, "3", 1003))
        first = joined(place, "1", 1001)
        first.send(packed(NextStep(5, 0)))
        second = joined(place, "1", 1002)
        assert ends(second), "another connection for the same replica"
        with suppress(ConnectionError):  # the second request may find the connection closed
            first.send(packed(NextStep(5, 0)))
        assert ends(first), "another request before the answer to the first"
        long = joined(place, "2", 1002)
        with suppress(ConnectionError):
            long.send(bytes(65 << 10))
        assert ends(long)

    with_lighthouse(clients)


@pytest.mark.root
def test_a_crowd_of_another_user_keeps_no_replica_out(tmp_path: Path) -> None:
    """600 connections; the driver may open 150 files more than it has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    def clients(place: tuple[str, int]) -> None:
        process = psutil.Process()
        before, threads = process.memory_info().rss, process.num_threads()
        resource.setrlimit(resource.RLIMIT_NOFILE, (process.num_fds() + 150, hard))
        with crowd(*place, 600) as strangers:
            eventually(lambda: strangers.made() >= 1000, 60)
            one, two = (SealedClient(place, KEY, 60.0) for _ in range(2))
            _open.extend((one, two))
            time.sleep(0.5)  # a replica does other things before its first word
            one.send(packed(Hello("1", 1001)))
            two.send(packed(Hello("2", 1002)))
            for client in (one, two):
                client.send(packed(NextStep(0, 0)))
            assert (
                unpacked(Turn, one.receive(1000)).size
                == unpacked(Turn, two.receive(1000)).size
                == 2
            )
            (tmp_path / "file").write_text("the process has descriptors")
            assert process.num_threads() < threads + 10
            assert process.memory_info().rss - before < 100 << 20
            assert strangers.is_there()

    try:
        with_lighthouse(clients)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
