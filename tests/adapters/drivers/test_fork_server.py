"""Workers forked from a pre-imported interpreter: like new processes in all that a script can see."""

from __future__ import annotations

import fcntl
import json
import marshal
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import PIPE

import pytest
from patience import PATIENCE

from bftrainer.protocol.hosts import HostSlots
from bftrainer.protocol.messages import DriverSettings, TrainerMessage
from bftrainer.protocol.paths import TrainerDirectory
from bftrainer_adapters.drivers.common.event_writer import EventWriter
from bftrainer_adapters.drivers.common.forking import servers
from bftrainer_adapters.drivers.common.forking.servers import ForkServers
from bftrainer_adapters.drivers.common.workers import WorkerProcess, WorkerStarter

PLAINLY = "started without the fork server"
SEEN = """
import json, os, random, signal, sys, threading
import slowly
kept = {k: v for k, v in os.environ.items() if k not in ("_", "SHLVL", "BFTRAINER_FORK_SERVER")}
shown = ("__name__", "__file__", "__spec__", "__package__", "__doc__", "__cached__", "__annotations__")
main = {k: str(v).split(" object at")[0] for k, v in vars(sys.modules["__main__"]).items() if k in shown}
streams = [(s.name, s.mode, s.encoding, s.errors, s.line_buffering, s.write_through, s.newlines) for s in
           (sys.stdin, sys.stdout, sys.stderr)]
print(json.dumps({
    "argv": sys.argv, "orig_argv": sys.orig_argv, "path": sys.path, "cwd": os.getcwd(), "main": main, "streams": streams,
    "environment": kept, "flags": str(sys.flags), "leads": [os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid()],
    "handlers": [str(signal.getsignal(n)) for n in range(1, 32)], "threads": threading.active_count(),
    "command": open("/proc/self/cmdline").read().rstrip("\\0"), "name": open("/proc/self/comm").read(),
    "descriptors": sorted(os.listdir("/proc/self/fd")), "input": sys.stdin.read(), "class": type(Exception("x")).__module__,
    "umask": os.umask(0), "cores": sorted(os.sched_getaffinity(0)), "executable": sys.executable,
}))
sys.stderr.write(f"{random.random()}\\n")
"""


class Node:
    """A driver's starter on this host, with an installed module ``slowly`` that notes each import."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = path
        self.installed = path / "site-packages"
        self.installed.mkdir()
        (self.installed / "slowly.py").write_text(f"open({str(path / 'imports')!r}, 'a').write('x')\n")
        monkeypatch.setenv("PYTHONPATH", str(self.installed))
        monkeypatch.setattr(servers, "IDLE_S", 60.0)
        self.directory = TrainerDirectory(path / "trainer")
        self.directory.path.mkdir()
        self.slots = iter(range(100))  # a log for each worker
        self.number = self.directory.new_incarnation()

    def write(self, source: str, name: str = "train.py") -> None:
        (self.path / name).write_text(source)

    @contextmanager
    def starts(self, *command: str, forked: bool = True, **driver: object) -> Iterator[Callable[[], WorkerProcess]]:
        """A function that starts the command's worker."""
        words = (sys.executable, *(command or ("train.py",)))
        chosen = {servers.SWITCH: str(int(forked))}
        trainer = TrainerMessage("t", words, self.path, 1, 1, environment=chosen)
        settings = DriverSettings("restart", **driver)  # type: ignore[arg-type]
        found = ForkServers(self.directory, trainer, settings)
        events = EventWriter(self.directory.events, self.number)
        starter = WorkerStarter(self.directory, trainer, settings, events, found)
        yield lambda: starter.start(HostSlots("n1", 1, "f1"), next(self.slots), words, {"RANK": "3"})
        for worker in starter.live():
            worker.kill()
            starter.wait(worker)
        starter.close()
        found.close()
        events.close()

    def ends(self, worker: WorkerProcess) -> tuple[int, str]:
        """Status and output."""
        assert worker.process.wait(timeout=60 * PATIENCE) is not None
        worker.pump.join(60 * PATIENCE)
        return worker.process.returncode, worker.log.read_text()

    def run(self, *command: str, forked: bool = True, **driver: object) -> tuple[int, str]:
        with self.starts(*command, forked=forked, **driver) as start:
            return self.ends(start())

    def imports(self) -> int:
        return len((self.path / "imports").read_text()) if (self.path / "imports").exists() else 0


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(tmp_path, monkeypatch)


def until(holds: Callable[[], object]) -> None:
    give_up = time.monotonic() + 30 * PATIENCE
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.01)


@pytest.mark.parametrize("command", [("train.py", "a b", "--x"), ("-u", "link.py"), ("-m", "train", "7")])
def test_a_script_sees_what_it_would_see_in_a_new_process(node: Node, command: tuple[str, ...]) -> None:
    (node.path / "scripts").mkdir()
    node.write(SEEN)
    node.write(SEEN, "scripts/real.py")
    (node.path / "link.py").symlink_to("scripts/real.py")
    plain, forked = node.run(*command, forked=False), node.run(*command)
    assert (forked[0], plain[0]) == (0, 0), forked[1] + plain[1]
    assert node.imports() == 2, "once by the script, once by the server"
    first, second = (json.loads(text.splitlines()[0]) for _, text in (plain, forked))
    for name in first:
        assert second[name] == first[name], name
    assert plain[1].splitlines()[1] != forked[1].splitlines()[1], "each worker draws its own random numbers"


@pytest.mark.parametrize(
    "source",
    [
        "import sys; sys.exit(7)",
        "import sys; sys.exit('a reason')",
        "import os; os._exit(83)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "def f():\n    raise ValueError('mine')\nf()",
        "raise KeyboardInterrupt",
        "x = (",
        "import atexit, threading, time\natexit.register(print, 'last')\n"
        "threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()",
        "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))))",
        "import multiprocessing\ndef f(x): return x + 1\n"
        "if __name__ == '__main__':\n    print(multiprocessing.get_context('spawn').Pool(1).map(f, [1]))",
    ],
)
def test_it_ends_as_it_would_in_a_new_process(node: Node, source: str) -> None:
    node.write("import slowly\n" + source)
    assert node.run(forked=True) == node.run(forked=False)


def test_many_workers_share_one_import_and_the_next_one_too(node: Node) -> None:
    node.write("import slowly, os\nprint(os.environ['RANK'])")
    with node.starts() as start:
        assert [node.ends(worker) for worker in [start() for _ in range(5)]] == [(0, "3\n")] * 5
        assert node.ends(start()) == (0, "3\n")
    assert node.imports() == 1


def test_a_signal_for_the_worker_reaches_the_script(node: Node) -> None:
    node.write(
        "import slowly, signal, sys, time\nsignal.signal(signal.SIGUSR1, lambda *_: sys.exit(5))\n"
        "print('up', flush=True)\ntime.sleep(99)"
    )
    with node.starts() as start:
        worker = start()
        until(lambda: "up" in worker.log.read_text())
        worker.process.send_signal(signal.SIGUSR1)
        assert node.ends(worker) == (5, "up\n")


CHILD = """
import slowly, os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(99)"], start_new_session=True)
print(os.getpid(), os.getppid(), child.pid, flush=True)
time.sleep(99)
"""


def is_there(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_a_killed_worker_is_gone_with_all_its_processes(node: Node) -> None:
    node.write(CHILD)
    with node.starts() as start:
        worker = start()
        until(lambda: worker.log.read_text().endswith("\n"))
        pids = [int(word) for word in worker.log.read_text().split()]
        worker.kill()
        until(lambda: not any(map(is_there, pids)))
        assert node.ends(worker)[0] == -signal.SIGKILL


def test_without_a_holder_the_server_and_its_workers_end_with_the_driver(node: Node) -> None:
    node.write(CHILD)
    with node.starts() as start:
        worker = start()
        until(lambda: worker.log.read_text().endswith("\n"))
        server = int(Path(f"/proc/{worker.log.read_text().split()[1]}/stat").read_text().rpartition(")")[2].split()[1])
        pids = [server, *map(int, worker.log.read_text().split())]
    until(lambda: not any(map(is_there, pids)))


def test_a_server_that_is_killed_costs_no_worker(node: Node) -> None:
    node.write("import slowly, os, time\nprint(os.getppid(), flush=True)\n"
               "while not os.path.exists('go'): time.sleep(0.01)\nraise SystemExit(9)")  # fmt: skip
    with node.starts() as start:
        worker = start()
        until(lambda: worker.log.read_text().endswith("\n"))
        keeper = int(worker.log.read_text())
        server = int(Path(f"/proc/{keeper}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(server, signal.SIGKILL)
        until(lambda: not is_there(server))
        time.sleep(0.1)
        (node.path / "go").touch()
        assert node.ends(worker)[0] == 9
        status, log = node.ends(start())
        assert status == 9, log


@pytest.mark.parametrize(
    ("module", "why"),
    [
        ("import threading, time\nthreading.Thread(target=time.sleep, args=(99,), daemon=True).start()\n", "1 threads"),
        ("import socket\nkept = socket.socket()\n", "has opened socket:"),
        ("import own\n", "which is not installed"),
        ("import subprocess\nkept = subprocess.Popen(['sleep', '9'])\n", "has started a process"),
        ("kept = bytearray(80_000_000)\n", "the limit is 60 MB"),
    ],
)
def test_imports_that_a_fork_cannot_share_are_left_to_the_worker(node: Node, module: str, why: str) -> None:
    (node.installed / "slowly.py").write_text(module)
    own = node.path / "elsewhere"
    own.mkdir()
    (own / "own.py").write_text("")
    os.environ["PYTHONPATH"] += f":{own}"
    node.write("import slowly\nprint('trained')")
    with node.starts(fork_server_mb=60) as start:
        status, log = node.ends(start())
        assert (status, log.splitlines()[-1]) == (0, "trained")
        assert PLAINLY in log
        assert why in log


def test_a_module_that_changed_on_disk_is_imported_again(node: Node) -> None:
    (node.installed / "slowly.py").write_text("value = 1\n")
    node.write("import slowly\nprint(slowly.value)")
    with node.starts() as start:
        assert node.ends(start()) == (0, "1\n")
        (node.installed / "slowly.py").write_text("value = 222\n")
        status, log = node.ends(start())
        assert (status, log.splitlines()[-1]) == (0, "222")


def test_a_module_of_the_scripts_folder_comes_first_as_it_always_does(node: Node) -> None:
    node.write("print('own')", "slowly.py")
    node.write("import slowly")
    assert node.run()[1].splitlines()[-1] == "own"


def test_only_its_user_can_reach_the_socket_and_a_foreign_folder_is_not_used(node: Node) -> None:
    node.write("import slowly")
    with node.starts() as start:
        worker = start()
        place = Path(next(word for word in worker.process.args if word.startswith("/tmp/bftrainer-")))  # type: ignore[union-attr, arg-type]
        assert node.ends(worker) == (0, "")
        for folder in (place.parent, place.parent.parent):
            assert (stat.S_IMODE(folder.stat().st_mode), folder.stat().st_uid) == (0o700, os.getuid())
        place.parent.chmod(0o755)
        status, log = node.ends(start())
        assert (status, f"{place.parent} is not private" in log) == (0, True)


def test_variables_that_the_script_sets_first_are_set_before_the_imports(node: Node) -> None:
    (node.installed / "slowly.py").write_text(
        "import os\nseen = os.environ.get('A'), os.environ.get('HOME2', 'none')\n"
    )
    node.write("import os\nos.environ['A'] = '5'\nimport slowly\nprint(slowly.seen, os.environ['A'])")
    assert node.run() == node.run(forked=False) == (0, "('5', 'none') 5\n")


def test_a_server_that_does_not_start_delays_a_worker_and_no_more(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "APPEAR_S", 0.2)
    node.write("import slowly\nprint('trained')")
    broken = node.path / "broken"
    broken.mkdir()
    (broken / "fork_server.py").write_text("raise SystemExit(4)")
    for name in ("fork_client.py", "fork_facts.py"):
        (broken / name).symlink_to(Path(servers.__file__).with_name(name))
    monkeypatch.setattr(servers, "_PROGRAMS", broken)
    with node.starts() as start:
        for _ in range(2):
            status, log = node.ends(start())
            assert (status, log.splitlines()[-1], PLAINLY in log) == (0, "trained", True)
        until(lambda: node.ends(start()) == (0, "trained\n"))


def test_a_server_starts_although_another_removes_its_folder_at_that_moment(node: Node) -> None:
    """What has no server is removed by servers elsewhere on the node: here before the new one has locked it."""
    place = node.path / "bftrainer-0" / "place"
    place.mkdir(parents=True, mode=0o700)
    place.parent.chmod(0o700)
    path = place / "kind"
    settings = {
        "socket": str(path), "modules": [], "variables": [], "late": [], "most": 2, "memory_bytes": 10**10,
        "idle_s": 60.0, "tied": True,
    }  # fmt: skip
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    program = Path(servers.__file__).with_name("fork_server.py")
    server = subprocess.Popen([sys.executable, str(program), json.dumps(settings)], stdin=PIPE)
    try:
        children = Path(f"/proc/{server.pid}/task/{server.pid}/children")
        until(children.read_text)
        time.sleep(0.05)  # it tries to lock; a slow one comes after this and finds nothing
        Path(f"{path}.lock").unlink()
        place.rmdir()
        os.close(lock)
        until(lambda: path.exists() or server.poll() is not None)
        assert server.poll() is None, "it serves"
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
    finally:
        server.communicate(timeout=60 * PATIENCE)
    assert not place.exists()


def test_a_refusal_is_read_although_the_server_does_not_read_the_request(tmp_path: Path) -> None:
    """More variables than a socket's buffer holds: the client is still writing when the server has answered and gone."""
    folder = tmp_path / "of" / "server"
    folder.mkdir(parents=True)
    for each in (folder, folder.parent):
        each.chmod(0o700)
    path = folder / "socket"
    variables = {f"MUCH_{i}": "x" * 100_000 for i in range(12)}
    argv = [
        sys.executable,
        "-S",
        "-s",
        str(Path(servers.__file__).with_name("fork_client.py")),
        str(path),
        "5",
        "5",
        "",
        "0",
        "/bin/echo",
        "trained",
    ]
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        client = subprocess.Popen(argv, env=os.environ | variables, stdout=PIPE, stderr=PIPE, text=True)
        listener.settimeout(60 * PATIENCE)
        with listener.accept()[0] as connection:
            answer = marshal.dumps("which is not installed")
            connection.sendall(len(answer).to_bytes(4, "little") + answer)
        out, err = client.communicate(timeout=60 * PATIENCE)
    assert (out, err.splitlines()) == (
        "trained\n",
        ["bftrainer: started without the fork server: which is not installed"],
    )
