"""Every port that a trainer or a pilot opens, and another user at all of them: the table of
docs/security.md.
"""

from __future__ import annotations

import re
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.horovod_trainer import CHECKOUT, Trainer
from support.live_machine import CONFIG, eventually, machine
from support.needs import need_package
from support.strangers import as_stranger

psutil = pytest.importorskip("psutil")
TABLE = CHECKOUT / "docs/security.md"
MOST_MB = 200
"""What the stranger may add to a process."""
MOST_FILES = 100
"""Of a process that serves, beside those that it has; the stranger makes more connections to each
port.
"""

STRANGER = """
import os, pickle, resource, select, socket, struct, sys, time
folder, ports = sys.argv[1], [(host, int(port)) for host, _, port in (one.rpartition(":") for one in sys.argv[2:])]
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
class Runs:
    def __reduce__(self):
        return os.system, ("touch " + folder + "/pwned",)
pickled, many = pickle.dumps(Runs()), b"x" * (1 << 20)
text = lambda data: struct.pack("<q", len(data)) + data
openings = [
    b"", pickled, struct.pack("<q", len(pickled)) + pickled, struct.pack("!I", len(pickled)) + pickled,
    b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" + struct.pack("!I", 0)[1:] + bytes(6) + bytes(100),
    b"GET /rank_and_size/a.1.1:0 HTTP/1.1\\r\\n\\r\\n",
    b"PUT /worker_addresses/a.1.1:0 HTTP/1.1\\r\\nContent-Length: 9\\r\\n\\r\\n",
    b"\\0" * 64, b"\\xff" * 4096,
]
there, datagrams = [], socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.setblocking(False)
for host, port in ports:
    for opening in [*openings * 12, *[many] * 6]:
        try:
            one = socket.create_connection((host, port), timeout=2)
            one.setblocking(False)
            one.sendall(opening)
        except OSError:
            continue
        there.append(one)
print(len(there), flush=True)
end = time.time() + float(os.environ["SECONDS"])
while time.time() < end:
    for one in list(there):
        try:
            one.send(many)
        except BlockingIOError:
            pass
        except OSError:
            there.remove(one)
    for host, port in ports:
        for _ in range(50):
            try:
                datagrams.sendto(os.urandom(2), (host, port))
            except OSError:
                pass
    time.sleep(0.01)
print("over", flush=True)
"""


@dataclass(frozen=True)
class Ports:
    """Rows of the table that a driver, or a pilot, and a worker has; ``elsewhere``: how many a
    worker has on all interfaces.
    """

    driver: tuple[str, ...] = ()
    worker: tuple[str, ...] = ()
    elsewhere: int = 0


GLOO = "gloo, NCCL (torchrun, torchft, restart)"
STORE = "store of torchrun and restart"
LAUNCHERS = {
    "torchrun": Ports((STORE,), (GLOO, "relays to the store")),
    "torchft": Ports(("torchft's lighthouse",), (GLOO, "torchft's weights")),
    "horovod": Ports(("Horovod's rendezvous",), ("Horovod's notices",), elsewhere=1),
    "pool": Ports(("tasks of a pool, HTTP",)),
    "restart": Ports((STORE,)),
}
PILOT = Ports(("metrics, HTTP", "hints, UDP"))


def test_every_row_of_the_table_has_a_test() -> None:
    table = TABLE.read_text().partition("## Ports")[2].partition("| port |")[2].partition("\n\n")[0]
    rows = [
        re.sub(r"\[(.*?)\]\(.*?\)", r"\1", line.split("|")[1].strip())
        for line in table.splitlines()[2:]
    ]
    assert set(rows) == {
        row for ports in (*LAUNCHERS.values(), PILOT) for row in (*ports.driver, *ports.worker)
    }
    assert len(rows) == len(set(rows))


def listening(pid: int) -> set[str]:
    """``address:port`` of a process and its children, also of UDP."""
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    sockets = [one for process in family for one in process.net_connections(kind="inet")]
    return {
        f"{one.laddr.ip}:{one.laddr.port}"
        for one in sockets
        if one.status == psutil.CONN_LISTEN or (one.type == socket.SOCK_DGRAM and not one.raddr)
    }


def memory_mb(*pids: int) -> list[int]:
    return [psutil.Process(pid).memory_info().rss >> 20 for pid in pids]


@contextmanager
def stranger_at(folder: Path, places: set[str], server: int) -> Iterator[None]:
    """Another user at these ports for 8 s, who gets no code run, nor all descriptors of a process
    that serves, or threads.
    """
    process = psutil.Process(server)
    threads = process.num_threads()
    process.rlimit(psutil.RLIMIT_NOFILE, (process.num_fds() + MOST_FILES,) * 2)
    (folder / "open").mkdir(mode=0o777)
    argv = [sys.executable, "-I", "-S", "-c", STRANGER, str(folder / "open"), *sorted(places)]
    with subprocess.Popen(
        as_stranger(*argv), stdout=subprocess.PIPE, text=True, env={"SECONDS": "8"}
    ) as stranger:
        assert stranger.stdout is not None
        assert int(stranger.stdout.readline()) > 0
        yield
        assert process.num_threads() < threads + 30
        assert stranger.stdout.readline() == "over\n"
    assert list((folder / "open").iterdir()) == []


def trainer(folder: Path, launcher: str) -> Trainer:
    if launcher in ("pool", "restart"):
        (folder / "list.txt").parent.mkdir(parents=True)
        (folder / "list.txt").write_text("".join(f"{number}\n" for number in range(100_000)))
        body = {
            "pool": "from bftrainer.progress.tasks import tasks\nfor task in tasks('list.txt'):\n"
            "    time.sleep(0.05); task.done(1)\n",
            "restart": "from bftrainer.progress import Reporter\nreport, step = Reporter(), 0\n"
            "while not report.step(step=step, samples=step, world_size=2):\n    step += 1; "
            "time.sleep(0.05)\nreport.leave()\n",
        }[launcher]
        (folder / "work.py").write_text(f"import time\n{body}")
        return Trainer(folder, [sys.executable, "work.py"], driver=launcher)
    return Trainer(folder, driver=launcher, environment={"BFTRAINER_REPORT_EVERY_S": "0"})


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_another_user_at_every_port_of_a_trainer(tmp_path: Path, launcher: str) -> None:
    ports, torch = (
        LAUNCHERS[launcher],
        {"torchft": ["torch", "torchft"], "horovod": ["torch", "horovod"], "torchrun": ["torch"]},
    )
    need_package(*torch.get(launcher, ["psutil"]))
    with trainer(tmp_path / "trainer", launcher) as made:
        made.start("a:1:1 b:1:2")
        made.steps(2, count=1)
        assert made.process is not None
        workers = [made.worker("1"), made.worker("2")]
        of_workers = [listening(pid) for pid in workers]
        of_driver = listening(made.process.pid).difference(*of_workers)
        found = {"driver": of_driver, "workers": of_workers}
        assert [len(of_driver), *map(len, of_workers)] == [
            len(ports.driver),
            *[len(ports.worker)] * 2,
        ], found
        assert all(place.startswith("127.0.0.1:") for place in of_driver), (
            f"on one interface: {found}"
        )
        for places in of_workers:
            assert (
                len([place for place in places if not place.startswith("127.0.0.1:")])
                == ports.elsewhere
            ), found
        if made.directory.meeting.exists():  # has the key, or the token
            assert stat.S_IMODE(made.directory.meeting.stat().st_mode) == 0o600
        places = {place.replace("0.0.0.0", "127.0.0.1") for place in of_driver.union(*of_workers)}
        if not places:
            return
        before = memory_mb(made.process.pid, *workers)
        with stranger_at(tmp_path, places, made.process.pid):
            made.steps(2)
            now = memory_mb(made.process.pid, *workers)
            assert all(mb < was + MOST_MB for mb, was in zip(now, before, strict=True)), (
                before,
                now,
            )
            asked_s = made.hosts("a:1:1")
            made.event("running", asked_s, fragments=["1"])
            asked_s = made.hosts("a:1:1 b:1:2")
            made.event("running", asked_s, fragments=["1", "2"])
            made.steps(2, count=1)
        assert "Traceback" not in (made.path / "driver.log").read_text()


@pytest.mark.slow
@pytest.mark.root
def test_another_user_at_every_port_of_a_pilot(tmp_path: Path) -> None:
    need_package("prometheus_client")
    config = CONFIG + '[metrics]\nport = 0\ntoken_file = "token"\n[hints]\nport = 0\n'
    with machine(tmp_path, "n1 n2", config) as on:
        (on.state / "token").write_text("0123456789abcdef\n")
        (on.state / "token").chmod(0o600)
        pilot = on.pilot()
        eventually(on.state_is_there, 60)
        eventually(lambda: len(listening(pilot.pid)) == len(PILOT.driver), 60)
        places = listening(pilot.pid)
        assert all(place.startswith("127.0.0.1:") for place in places), (
            f"on one interface: {places}"
        )
        (before,) = memory_mb(pilot.pid)
        with stranger_at(tmp_path, places, pilot.pid):
            on.submit("a", 40)
            eventually(lambda: pilot.poll() is not None or on.status("a") == "done", 120)
            assert pilot.poll() is None
            assert memory_mb(pilot.pid)[0] < before + MOST_MB
        on.end(pilot)
        assert "Traceback" not in (on.work / "pilot.log").read_text()
