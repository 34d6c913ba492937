"""The store of torchrun trainers: torch's own clients, and strangers at its port."""

from __future__ import annotations

import json
import resource
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from live_machine import eventually
from needs import need_package
from strangers import as_stranger, crowd

from bftrainer_adapters.drivers.torchrun.rendezvous_store import StoreHost

psutil = pytest.importorskip("psutil")

# Some of torch's calls keep Python's lock while they wait: client and store are in two processes.
CALLS = """
import json, sys, threading
from datetime import timedelta
import torch.distributed as dist
own = sys.argv[1] == "0"  # torch's own store
store = dist.TCPStore("127.0.0.1", int(sys.argv[1]), is_master=own, wait_for_workers=False, timeout=timedelta(seconds=60))
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


def calls(port: int, *names: str) -> dict[str, str]:
    argv = [sys.executable, "-W", "ignore", "-c", CALLS, str(port), *names]
    found = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=300)
    answers: dict[str, str] = json.loads(found.stdout)
    return answers


def test_torch_s_clients_get_the_answers_of_torch_s_own_store(store: StoreHost) -> None:
    need_package("torch")
    answers = calls(store.open())
    assert answers == calls(0)
    assert answers["multi_get"] == "[b'2', b'']"
    assert answers["wait"] == "b'x'"
    assert answers["wait in vain"] == answers["barrier in vain"] == "DistStoreError"
    assert "Error" not in answers["large"] + answers["keys"] + answers["alone"] + answers["barrier"]


def test_each_incarnation_has_a_store_of_its_own(store: StoreHost) -> None:
    first = store.open()
    second = store.open()
    assert second != first
    with pytest.raises(ConnectionRefusedError), socket.create_connection((store.address, first), timeout=60):
        pass


def test_only_the_trainer_s_networks_reach_it() -> None:
    host = StoreHost("lo", ["127.0.0.2/32"])
    port, ping = host.open(), bytes([0]) + (0x3C85F7CE).to_bytes(4, "little") + b"\x0d1234"
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=60, source_address=("127.0.0.2", 0)) as client:
            client.sendall(ping)
            assert client.recv(4) == b"1234"
        outside = socket.create_connection(("127.0.0.1", port), timeout=60, source_address=("127.0.0.3", 0))
        with outside, suppress(ConnectionResetError):
            assert outside.recv(4) == b""
    finally:
        host.close_store()


# Each way of making the store keep something, by itself: a full store refuses the next one.
FILLS = """
import socket, struct, sys
text = lambda data: struct.pack("<q", len(data)) + data
def sends(data, magic=struct.pack("<BI", 0, 0x3C85F7CE)):
    made = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=60)
    try:
        made.sendall(magic + data)
    except OSError:
        pass
    return made
large, many = text(b"x" * (7 << 20)), 50_000
names = b"".join(text(b"%05d" % i) for i in range(many))
kept = {
    "keys": lambda: [sends(b"\\1" + text(b"%d" % i) + large) for i in range(64)],
    "unfinished messages": lambda: [sends(b"\\1" + text(b"u") + struct.pack("<q", 8 << 20) + large[8:]) for i in range(64)],
    "waits": lambda: [sends(b"\\6" + struct.pack("<q", many) + names) for _ in range(64)],
    "unfinished lists": lambda: [sends(b"\\12" + struct.pack("<q", many + 1) + names) for _ in range(64)],
    "unread answers": lambda: [sends(b"\\1" + text(b"k") + large)] + [sends(b"\\3" + text(b"k")) for _ in range(64)],
    "unread lists": lambda: [sends(b"".join(b"\\1" + text(b"%d" % i) + text(b"") for i in range(many)))]
    + [sends(b"\\21") for _ in range(200)],
    "queues": lambda: [sends(b"".join(b"\\16" + text(b"%d" % i) + text(b"") for i in range(300_000)))],
    "no messages": lambda: [sends(bytes([command]) + b"\\xff" * 4096) for command in range(256)],
}[sys.argv[2]]()
print("full", flush=True)
sys.stdin.read()
"""


@pytest.mark.root
@pytest.mark.parametrize(
    "what",
    [
        "keys", "unfinished messages", "waits", "unfinished lists", "unread answers", "unread lists", "queues", "no messages",
    ],
)  # fmt: skip
def test_a_stranger_makes_the_store_keep_no_more_than_the_limit(store: StoreHost, what: str) -> None:
    port = store.open()
    before = psutil.Process().memory_info().rss
    with subprocess.Popen(
        as_stranger(sys.executable, "-I", "-S", "-c", FILLS, str(port), what),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as stranger:
        assert stranger.stdin is not None
        assert stranger.stdout is not None
        assert stranger.stdout.readline() == b"full\n"
        with socket.create_connection((store.address, port), timeout=60) as last:  # what came earlier is read by then
            last.sendall(b"\0" + struct.pack("<I", 0x3C85F7CE) + b"\x0d1234")
            assert last.recv(4) in (b"1234", b"")
        assert psutil.Process().memory_info().rss - before < 200 << 20
        stranger.stdin.close()
    assert store.open() != port


def test_a_crowd_of_strangers_keeps_no_worker_out(store: StoreHost) -> None:
    need_package("torch")
    port = store.open()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    threads = psutil.Process().num_threads()
    resource.setrlimit(resource.RLIMIT_NOFILE, (psutil.Process().num_fds() + 150, hard))
    try:
        with crowd(store.address, port, 400) as strangers:
            eventually(lambda: strangers.made() >= 400, 60)
            assert calls(port, "set", "get") == {"set": "None", "get": "b'1'"}
            assert psutil.Process().num_threads() < threads + 10
            assert Path("/proc/self/stat").read_text(), "the process has descriptors"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
