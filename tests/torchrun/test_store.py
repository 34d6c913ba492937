"""The store of torchrun trainers: torch's own clients behind a relay, and strangers at both
ports.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from support.live_machine import eventually
from support.needs import need_package
from support.strangers import as_stranger, crowd

from bftrainer_drivers.common import behind_relay
from bftrainer_drivers.common.behind_relay import STORE
from bftrainer_drivers.common.rendezvous_store import StoreHost, StorePlace

psutil = pytest.importorskip("psutil")

# Some of torch's calls keep Python's lock while they wait: client and store are in two processes.
CALLS = """
import json, os, sys, threading
from datetime import timedelta
import torch.distributed as dist
own = sys.argv[1] == "0"  # torch's own store
port = 0 if own else int(os.environ["MASTER_PORT"])
store = dist.TCPStore("127.0.0.1", port, is_master=own, wait_for_workers=False, timeout=timedelta(seconds=60))
other = dist.TCPStore("127.0.0.1", store.port, is_master=False, wait_for_workers=False, timeout=timedelta(seconds=60))
short = timedelta(milliseconds=50)
def late(call, *arguments):
    threading.Timer(0.3, call, arguments).start()
calls = {
    "set": lambda: store.set("a", "1"), "get": lambda: other.get("a"), "check": lambda: store.check(["a", "b"]),
    "multi_set": lambda: store.multi_set(["b", "c"], ["2", ""]), "multi_get": lambda: other.multi_get(["b", "c"]),
    "append": lambda: store.append("b", "3"), "appended": lambda: store.get("b"),
    "add": lambda: [store.add("n", 5), other.add("n", -7), store.get("n")],
    "new": lambda: store.compare_set("q", "", "v"), "other": lambda: store.compare_set("q", "w", "u"),
    "same": lambda: store.compare_set("q", "v", "u"), "none": lambda: store.compare_set("z", "v", "u"),
    "count": lambda: store.num_keys(), "delete": lambda: [store.delete_key("c"), store.delete_key("c")],
    "wait in vain": lambda: store.wait(["never"], short), "after it": lambda: store.get("a"),
    "wait": lambda: (late(other.set, "late", "x"), store.wait(["a", "late"]), store.get("late"))[-1],
    "queue": lambda: [store.queue_push("Q", "1"), store.queue_push("Q", "2"), store.check(["Q"]), other.queue_len("Q")],
    "pop": lambda: [store.queue_pop("Q"), other.queue_pop("Q"), store.check(["Q"]), store.queue_len("Q")],
    "empty": lambda: store.queue_pop("Q", False), "large": lambda: [store.set("l", "x" * (7 << 20)), len(other.get("l"))],
    "keys": lambda: sorted(store.list_keys()), "clone": lambda: store.clone().get("a"),
    "alone": lambda: store.barrier("b1", 1), "barrier in vain": lambda: store.barrier("b2", 2, short),
    "barrier": lambda: store.barrier("b2", 2),
}
def outcome(call):
    try:
        return repr(call())
    except Exception as error:
        return type(error).__name__
calls = {name: call for name, call in calls.items() if len(sys.argv) < 3 or name in sys.argv[2:]}
print(json.dumps({name: outcome(call) for name, call in calls.items()}))
"""


@pytest.fixture
def store() -> Iterator[StoreHost]:
    made = StoreHost("lo", ["127.0.0.0/8"])
    yield made
    made.close_store()


def behind(place: StorePlace, *argv: str) -> dict[str, Any]:
    """How a worker is started: its arguments and environment."""
    command = [sys.executable, behind_relay.__file__, *argv]
    return {"args": command, "env": {**os.environ, STORE: str(place)}}


def calls(place: StorePlace | None, *names: str) -> dict[str, str]:
    """The answers of a store; None: torch's own."""
    argv = [
        sys.executable,
        "-W",
        "ignore",
        "-c",
        CALLS,
        "0" if place is None else "relayed",
        *names,
    ]
    start = {"args": argv} if place is None else behind(place, *argv)
    found = subprocess.run(capture_output=True, text=True, check=True, timeout=300, **start)
    answers: dict[str, str] = json.loads(found.stdout)
    return answers


def test_torch_s_clients_get_the_answers_of_torch_s_own_store(store: StoreHost) -> None:
    need_package("torch")
    answers = calls(store.open())
    assert answers == calls(None)
    assert answers["multi_get"] == "[b'2', b'']"
    assert answers["wait"] == "b'x'"
    assert answers["wait in vain"] == answers["barrier in vain"] == "DistStoreError"
    assert "Error" not in answers["large"] + answers["keys"] + answers["alone"] + answers["barrier"]


def test_each_incarnation_has_a_store_of_its_own(store: StoreHost) -> None:
    first = store.open()
    second = store.open()
    assert second != first
    assert second.key != first.key
    with (
        pytest.raises(ConnectionRefusedError),
        socket.create_connection((store.address, first.port), timeout=60),
    ):
        pass


def test_only_the_trainer_s_networks_reach_it() -> None:
    host = StoreHost("lo", ["127.0.0.2/32"])
    port = host.open().port
    try:
        with socket.create_connection(
            ("127.0.0.1", port), timeout=60, source_address=("127.0.0.2", 0)
        ) as client:
            client.sendall(bytes(32))
            assert client.recv(1), "the server's half of the handshake"
        outside = socket.create_connection(
            ("127.0.0.1", port), timeout=60, source_address=("127.0.0.3", 0)
        )
        with outside, suppress(ConnectionResetError):
            assert outside.recv(4) == b""
    finally:
        host.close_store()


MAGIC = b"\0" + struct.pack("<I", 0x3C85F7CE)
PING = MAGIC + b"\x0d1234"

STRANGER = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=60) as made:
    try:
        made.sendall(bytes.fromhex(sys.argv[2]))
        print(made.recv(100).hex())
    except ConnectionError:
        print("")
"""


def said_to_stranger(port: int, message: bytes) -> bytes:
    """What another user is told for a message."""
    argv = as_stranger(sys.executable, "-I", "-S", "-c", STRANGER, str(port), message.hex())
    return bytes.fromhex(
        subprocess.run(
            argv, capture_output=True, text=True, check=True, timeout=300, cwd="/"
        ).stdout
    )


@contextmanager
def relay(place: StorePlace) -> Iterator[int]:
    """The port of a worker's relay."""
    body = (
        "import os, sys; print(os.environ['MASTER_ADDR'], os.environ['MASTER_PORT'], "
        "flush=True); sys.stdin.read()"
    )
    argv = behind(place, sys.executable, "-c", body)
    with subprocess.Popen(
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **argv
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        host, port = worker.stdout.readline().split()
        assert host == "127.0.0.1"
        yield int(port)
        worker.stdin.close()


def answer(port: int, message: bytes) -> bytes:
    """What this user is told for a message, at most 4 bytes; empty: the connection was closed."""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=60) as client,
        suppress(ConnectionError),
    ):
        client.sendall(message)
        return client.recv(4)
    return b""


@pytest.mark.root
def test_another_user_can_join_the_store_neither_at_its_port_nor_at_a_relay_s(
    store: StoreHost,
) -> None:
    place = store.open()
    assert said_to_stranger(place.port, PING) == b"", "no handshake"
    assert len(said_to_stranger(place.port, bytes(32))) == 64, (
        "the server's nonce and proof, and no more for a stranger"
    )
    with relay(place) as port:
        assert answer(port, PING) == b"1234", "the worker's own user"
        assert said_to_stranger(port, PING) == b""
        assert said_to_stranger(port, bytes(32)) == b""
        assert answer(port, PING) == b"1234"


def test_a_relay_ends_with_its_worker(store: StoreHost) -> None:
    with relay(store.open()) as port:
        assert answer(port, PING) == b"1234"

    def is_closed() -> bool:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=60).close()
        except ConnectionRefusedError:
            return True
        return False

    eventually(is_closed, 60)


def test_a_worker_of_the_incarnation_before_does_not_reach_the_next_one_s_store(
    store: StoreHost,
) -> None:
    first = store.open()
    second = store.open()
    late = second._replace(key=first.key)  # even if it had the same port
    with relay(late) as port:
        assert answer(port, PING) == b""
    with relay(second) as port:
        assert answer(port, PING) == b"1234"


# Each way of making the store keep something, by itself: a full store refuses the next one.
FILLS = """
import os, socket, struct, sys
text = lambda data: struct.pack("<q", len(data)) + data
def sends(data, magic=struct.pack("<BI", 0, 0x3C85F7CE)):
    made = socket.create_connection(("127.0.0.1", int(os.environ["MASTER_PORT"])), timeout=60)
    try:
        made.sendall(magic + data)
    except OSError:
        pass
    return made
large, many = text(b"x" * (7 << 20)), 50_000
names = b"".join(text(b"%05d" % i) for i in range(many))
kept = {
    "keys": lambda: [sends(b"\\1" + text(b"%d" % i) + large) for i in range(12)],
    "unfinished messages": lambda: [sends(b"\\1" + text(b"u") + struct.pack("<q", 8 << 20) + large[8:]) for i in range(12)],
    "waits": lambda: [sends(b"\\6" + struct.pack("<q", many) + names) for _ in range(12)],
    "unfinished lists": lambda: [sends(b"\\12" + struct.pack("<q", many + 1) + names) for _ in range(12)],
    "unread answers": lambda: [sends(b"\\1" + text(b"k") + large)] + [sends(b"\\3" + text(b"k")) for _ in range(12)],
    "unread lists": lambda: [sends(b"".join(b"\\1" + text(b"%d" % i) + text(b"") for i in range(many)))]
    + [sends(b"\\21") for _ in range(120)],
    "queues": lambda: [sends(b"".join(b"\\16" + text(b"%d" % i) + text(b"") for i in range(300_000)))],
    "no messages": lambda: [sends(bytes([command]) + b"\\xff" * 4096) for command in range(256)],
}[sys.argv[1]]()
print("full", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    "what",
    [
        "keys",
        "unfinished messages",
        "waits",
        "unfinished lists",
        "unread answers",
        "unread lists",
        "queues",
        "no messages",
    ],
)
def test_not_even_a_worker_makes_the_store_keep_more_than_the_limit(
    store: StoreHost, what: str
) -> None:
    place = store.open()
    before = psutil.Process().memory_info().rss
    start = behind(place, sys.executable, "-I", "-S", "-c", FILLS, what)
    with subprocess.Popen(stdin=subprocess.PIPE, stdout=subprocess.PIPE, **start) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"full\n"
        with relay(place) as port:  # what came earlier is read by then
            assert answer(port, PING) in (b"1234", b"")
        assert psutil.Process().memory_info().rss - before < 200 << 20
        worker.stdin.close()
    assert store.open() != place


def test_a_crowd_of_strangers_keeps_no_worker_out(store: StoreHost) -> None:
    need_package("torch")
    place = store.open()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    threads = psutil.Process().num_threads()
    resource.setrlimit(resource.RLIMIT_NOFILE, (psutil.Process().num_fds() + 150, hard))
    try:
        with crowd(store.address, place.port, 400) as strangers:
            eventually(lambda: strangers.made() >= 400, 60)
            assert calls(place, "set", "get") == {"set": "None", "get": "b'1'"}
            assert psutil.Process().num_threads() < threads + 10
            assert Path("/proc/self/stat").read_text(), "the process has descriptors"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
