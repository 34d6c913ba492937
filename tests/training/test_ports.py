"""Every port that a trainer opens, and another user at all of them: the table of docs/security.md."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from horovod_trainer import CHECKOUT, Trainer
from needs import need_package
from strangers import as_stranger

psutil = pytest.importorskip("psutil")
pytestmark = [pytest.mark.slow, pytest.mark.root]
MOST_MB = 200
"""What the stranger may add to a process."""

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
there = []
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
    time.sleep(0.01)
print("over", flush=True)
"""


def listening(pid: int) -> set[str]:
    """``address:port`` of a process and its children."""
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    sockets = [one for process in family for one in process.net_connections(kind="tcp")]
    return {f"{one.laddr.ip}:{one.laddr.port}" for one in sockets if one.status == psutil.CONN_LISTEN}


def trainer(folder: Path, launcher: str) -> Trainer:
    if launcher == "horovod":
        return Trainer(folder)
    script = {"torchrun": "torch_digits.py", "torchft": "torchft_digits.py"}[launcher]
    command = [sys.executable, str(CHECKOUT / "docs/examples" / script), "--epochs=100000", "--step-s=0.02"]
    return Trainer(folder, command, driver=launcher, environment={"BFTRAINER_REPORT_EVERY_S": "0"})


@pytest.mark.parametrize(
    ("launcher", "own", "driver", "worker", "elsewhere"),
    [
        ("torchrun", "the store", 1, 1, 0),
        ("torchft", "the lighthouse", 1, 2, 0),
        ("horovod", "the rendezvous", 1, 1, 1),
    ],
)
def test_another_user_at_every_port(
    tmp_path: Path, launcher: str, own: str, driver: int, worker: int, elsewhere: int
) -> None:
    """``driver``, ``worker``: ports of each; ``elsewhere``: those of a worker on all interfaces."""
    need_package("torch", *{"torchft": ["torchft"], "horovod": ["horovod"]}.get(launcher, []))
    with trainer(tmp_path / "trainer", launcher) as made:
        made.start("a:1:1 b:1:2")
        made.steps(2)
        assert made.process is not None
        workers = [made.worker("1"), made.worker("2")]
        of_workers = [listening(pid) for pid in workers]
        of_driver = listening(made.process.pid).difference(*of_workers)
        found = {"driver": of_driver, "workers": of_workers}
        assert [len(of_driver), *map(len, of_workers)] == [driver, worker, worker], found
        assert all(place.startswith("127.0.0.1:") for place in of_driver), f"{own} is on one interface: {found}"
        for ports in of_workers:
            assert len([place for place in ports if not place.startswith("127.0.0.1:")]) == elsewhere, found
        processes = [psutil.Process(pid) for pid in (made.process.pid, *workers)]
        before = [process.memory_info().rss for process in processes]
        places = [place.replace("0.0.0.0", "127.0.0.1") for place in of_driver.union(*of_workers)]
        (tmp_path / "open").mkdir(mode=0o777)
        with subprocess.Popen(
            as_stranger(sys.executable, "-I", "-S", "-c", STRANGER, str(tmp_path / "open"), *places),
            stdout=subprocess.PIPE, text=True, env={"SECONDS": "8"},
        ) as stranger:  # fmt: skip
            assert stranger.stdout is not None
            assert int(stranger.stdout.readline()) > 0
            made.steps(2)
            grown = [(process.memory_info().rss - was) >> 20 for process, was in zip(processes, before, strict=True)]
            assert max(grown) < MOST_MB, grown
            asked_s = made.hosts("a:1:1")
            made.event("running", asked_s, fragments=["1"])
            asked_s = made.hosts("a:1:1 b:1:2")
            made.event("running", asked_s, fragments=["1", "2"])
            made.steps(2)
            assert stranger.stdout.readline() == "over\n"
        assert list((tmp_path / "open").iterdir()) == []
        assert "Traceback" not in (made.path / "driver.log").read_text()
