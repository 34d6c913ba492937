"""Strangers at the listeners of gloo: none takes a worker's place in a group."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.needs import need_package
from support.strangers import as_stranger

from bftrainer_drivers.common import vouching
from bftrainer_drivers.common.vouching import (
    VOUCH,
    Link,
    own_connections,
    socket_address,
    unknown_connections,
)


def test_a_connection_that_no_worker_has_made_is_a_stranger_s() -> None:
    by_peer, by_stranger, outward = (
        Link("LISTENER", "PEER", 1),
        Link("LISTENER", "STRANGER", 2),
        Link("OWN", "PEER-LISTENER", 3),
    )
    connected = [by_peer, by_stranger, outward]
    assert own_connections(["LISTENER"], connected) == [["OWN", "PEER-LISTENER"]]
    vouched = [[["PEER", "LISTENER"]], [["STRANGER", "ELSEWHERE"]]]
    assert unknown_connections(["LISTENER"], connected, vouched) == [by_stranger]
    assert unknown_connections([], connected, vouched) == [], "not at listeners of the script's own"


def test_an_end_is_shown_as_people_write_it() -> None:
    assert socket_address("0100007F:1F90") == "127.0.0.1:8080"


WORKER = """
import os, runpy, sys, time
runpy.run_path(sys.argv[1], run_name="__main__")
import torch, torch.distributed as dist
rank = int(sys.argv[3])
class Late(dist.Store):
    '''Says when rank 0 listens, and waits with its address for the stranger.'''
    def __init__(self, folder):
        super().__init__()
        self.folder = folder
    def path(self, key):
        return os.path.join(self.folder, key.replace("/", "_"))
    def set(self, key, value):
        if "connections" not in key:
            print("listens", flush=True)
            sys.stdin.readline()
        part = self.path(key) + f".{rank}.part"
        with open(part, "wb") as file:
            file.write(value.encode() if isinstance(value, str) else bytes(value))
        os.replace(part, self.path(key))
    def get(self, key):
        self.wait([key])
        with open(self.path(key), "rb") as file:
            return file.read()
    def check(self, keys):
        return all(os.path.exists(self.path(key)) for key in keys)
    def wait(self, keys, timeout=None):
        while not self.check(keys):
            time.sleep(0.01)
from datetime import timedelta
group = dist.ProcessGroupGloo(Late(sys.argv[2]), rank, 2, timedelta(seconds=20))
value = torch.ones(4) * (rank + 1)
try:
    group.allreduce([value]).wait()
    print("sum", value.tolist(), flush=True)
except RuntimeError as error:
    print("error", flush=True)
"""

SITS = """
import socket, struct, sys, time
there = []
for port in map(int, sys.argv[2:]):
    for seat in range(8) if sys.argv[1] == "seats" else [99]:
        one = socket.create_connection(("127.0.0.1", port), timeout=60)
        one.sendall(struct.pack("<q", seat))
        there.append(one)
print("sits", flush=True)
for one in there:
    one.settimeout(300)
    try:
        while one.recv(1 << 16):
            pass
    except ConnectionError:
        pass
print("closed", flush=True)
"""


def listeners(pid: int) -> list[str]:
    psutil = pytest.importorskip("psutil")
    return [
        str(one.laddr.port)
        for one in psutil.Process(pid).net_connections()
        if one.status == psutil.CONN_LISTEN
    ]


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.parametrize("where", ["seats", "elsewhere"])
def test_a_stranger_who_connects_to_gloo_first_is_closed_out(tmp_path: Path, where: str) -> None:
    need_package("torch")
    (tmp_path / "store").mkdir()
    (tmp_path / "worker.py").write_text(WORKER)
    environment = {**os.environ, VOUCH: "1", "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    argv = [
        sys.executable,
        "-W",
        "ignore",
        str(tmp_path / "worker.py"),
        vouching.__file__,
        str(tmp_path / "store"),
    ]
    workers = [
        subprocess.Popen(
            [*argv, str(rank)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for rank in range(2)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "listens\n"
    ports = [port for worker in workers for port in listeners(worker.pid)]
    sitting = as_stranger(sys.executable, "-I", "-S", "-c", SITS, where, *ports)
    with subprocess.Popen(sitting, stdout=subprocess.PIPE, text=True, cwd="/") as stranger:
        assert stranger.stdout is not None
        assert stranger.stdout.readline() == "sits\n"
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("\n" * 100)
            worker.stdin.flush()
        said = [worker.communicate(timeout=300)[0] for worker in workers]
        assert stranger.stdout.readline() == "closed\n"
    assert all(
        "closed a connection to gloo that no worker of this trainer has made: 127.0.0.1:" in out
        for out in said
    ), said
    outcomes = [out.splitlines()[-1] for out in said]
    if where == "elsewhere":
        assert outcomes == ["sum [3.0, 3.0, 3.0, 3.0]"] * 2, said
    else:
        assert outcomes == ["error"] * 2, f"he sat in the place, and nobody trains with him: {said}"
