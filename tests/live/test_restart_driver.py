"""Driver ``restart`` as a process: programs that crash, hang, are taken, checkpoint on a signal, or
start their own workers.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.horovod_trainer import SITE
from support.live_machine import STEPPER, eventually
from support.needs import need_package

from bftrainer.config.trainer_file import TrainerSpec, settle
from bftrainer.config.validation import check_table
from bftrainer.pilot.trainers.launcher import DirectoryLauncher
from bftrainer.wires.hosts_file import HostSlots
from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.reports import DriverView, Ending

TWO = (HostSlots("n1", 1, "f1"), HostSlots("n2", 1, "f2"))


class Driven:
    """One trainer under a real driver."""

    def __init__(self, path: Path, state: Path | None = None, **driver: object) -> None:
        self.path = path
        self.launcher = DirectoryLauncher(
            (state or path) / "trainers", {**SITE, "poll_s": 0.05, **driver}
        )

    def __enter__(self) -> Driven:
        return self

    def __exit__(self, *_: object) -> None:
        self.launcher.kill("t")
        eventually(lambda: not self.look().alive)

    def start(
        self,
        program: str | list[str],
        hosts: tuple[HostSlots, ...] = TWO,
        interface: str | None = None,
        **keys: Any,
    ) -> None:
        command = [sys.executable, "-c", program] if isinstance(program, str) else program
        table = {
            "name": "t",
            "command": command,
            "max_nodes": 4,
            "samples_per_s": 1.0,
            "stop_s": 60.0,
            **keys,
        }
        self.spec = settle(check_table(table, TrainerSpec, "test"), "test", self.path, os.environ)
        self.launcher.start(self.spec, hosts, interface)

    def look(self) -> DriverView:
        return self.launcher.look("t")

    def ends(self, how: Ending) -> DriverView:
        eventually(lambda: self.look().ending is not None and not self.look().alive)
        assert self.look().ending is how, self.events()
        return self.look()

    def events(self, kind: str = "") -> list[dict[str, Any]]:
        path = TrainerDirectory.of(self.path, "t").events
        lines = (
            [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        )
        return [line for line in lines if kind in ("", line["event"])]

    def pids(self) -> list[int]:
        ended = {e["pid"] for e in self.events("worker_exited")}
        return [e["pid"] for e in self.events("worker_started") if e["pid"] not in ended]


@pytest.fixture
def driven(tmp_path: Path) -> Iterator[Driven]:
    with Driven(tmp_path) as it:
        yield it


def stepper(path: Path, steps: int = 10_000) -> list[str]:
    return [
        sys.executable,
        str(STEPPER),
        str(path / "c.json"),
        str(path / "steps"),
        str(steps),
        "0.02",
    ]


def test_a_worker_that_aborts_because_its_peer_was_killed_is_not_blamed(driven: Driven) -> None:
    """As NCCL's watchdog does: the abort is the worker's own."""
    driven.start(
        "import os, time, pathlib\n"
        "pathlib.Path(os.environ['RANK'] + '.pid').write_text(str(os.getpid()))\n"
        "while os.environ['WORLD_SIZE'] == '1' or os.environ['RANK'] == '1': time.sleep(0.1)\n"
        "while not os.path.exists('1.pid'): time.sleep(0.1)\n"
        "peer = int(pathlib.Path('1.pid').read_text() or '0')\n"
        "while os.path.exists(f'/proc/{peer}'): time.sleep(0.01)\n"
        "os.abort()"
    )
    eventually(lambda: len(driven.pids()) == 2 and (driven.path / "1.pid").exists())
    os.kill(driven.pids()[1], signal.SIGKILL)
    eventually(lambda: len(driven.events("running")) == 2)
    assert driven.events("running")[-1]["fragments"] == ["f1"]
    assert [e["fragment"] for e in driven.events("withheld")] == ["f2"]


GROUP = """import json, os, sys
given = [os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]]
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1) + dist.get_rank()
dist.all_reduce(total)
kept = [os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]] == given
open(f"of-{os.environ['RANK']}.json", "w").write(json.dumps([total.item(), kept]))
dist.destroy_process_group()
"""


def test_a_group_of_torch_meets_at_a_store_with_a_key(tmp_path: Path) -> None:
    """The name in MASTER_ADDR is that of no host, so nothing but the driver's store can be met."""
    need_package("torch")
    (tmp_path / "group.py").write_text(GROUP)
    with Driven(tmp_path) as driven:
        driven.start([sys.executable, "group.py"])
        driven.ends(Ending.DONE)
    assert [json.loads((tmp_path / f"of-{rank}.json").read_text()) for rank in range(2)] == [
        [3.0, True]
    ] * 2


def test_a_program_without_a_group_starts_no_relay_and_needs_no_interface(tmp_path: Path) -> None:
    (tmp_path / "alone.py").write_text(
        "import os, sys\nopen(f\"of-{os.environ['RANK']}\", 'w').write(\n"
        "    f\"{'torch' in sys.modules} {sorted(n for n in os.environ if 'STORE' in n)}\")\n"
    )
    with Driven(tmp_path) as driven:
        driven.start([sys.executable, "alone.py"], interface="none0")
        driven.ends(Ending.DONE)
    assert {(tmp_path / f"of-{rank}").read_text() for rank in range(2)} == {"False []"}


def test_a_group_without_an_interface_is_refused_in_one_line(tmp_path: Path) -> None:
    need_package("torch")
    (tmp_path / "group.py").write_text(GROUP)
    with Driven(tmp_path) as driven:
        driven.start([sys.executable, "group.py"], interface="none0")
        view = driven.ends(Ending.FAILED)
    assert "no group can be formed: interface 'none0' has no IPv4 address" in " ".join(view.tail)


def test_a_start_that_hangs_shows_where_the_worker_waits(driven: Driven) -> None:
    script = driven.path / "train.py"
    script.write_text(
        "import time\n"
        "def read_data():\n"
        "    print('reading', flush=True)\n"
        "    time.sleep(600)\n"
        "read_data()  # of a dead file system; bftrainer.progress would follow\n"
    )
    driven.start([sys.executable, "train.py"], first_step_s=2.0)
    view = driven.ends(Ending.FAILED)
    assert view.reason == (
        "no step within 2 s of its start (first_step_s); a worker waits at train.py:4 in read_data"
    )
    assert view.tail == ("reading",)


def test_a_signal_asks_programs_that_do_not_read_the_control_file(driven: Driven) -> None:
    program = (
        "import signal, sys, time, pathlib\n"
        "signal.signal(signal.SIGUSR1, lambda *_: (pathlib.Path('saved').write_text('x'), "
        "sys.exit(0)))\n"
        "pathlib.Path('up').write_text('x')\nwhile True: time.sleep(0.01)"
    )
    driven.start(program, TWO[:1], stop_signal="SIGUSR1")
    eventually((driven.path / "up").exists)
    driven.launcher.ask_to_stop("t")
    driven.ends(Ending.STOPPED)
    assert (driven.path / "saved").exists()


EVALUATES = """
import sys, time
from bftrainer.progress import Reporter
report = Reporter()
report.step(step=1, samples=1, world_size=1)
for _ in range(40):
    time.sleep(0.1)
    if sys.argv[1] == "busy":
        report.busy()
    elif sys.argv[1] == "metrics":
        report.metrics(accuracy=0.5)
report.step(step=2, samples=2, world_size=1)
print("evaluated")
time.sleep(0.1)
"""


@pytest.mark.parametrize(
    ("calls", "ending"), [("busy", Ending.DONE), ("metrics", Ending.DONE), ("", Ending.FAILED)]
)
def test_a_long_evaluation_that_gives_signs_of_life_is_no_hang(
    driven: Driven, calls: str, ending: Ending
) -> None:
    """Of 4 s, with ``hang_s = 2`` in the trainer file; the site's is 120."""
    driven.start([sys.executable, "-c", EVALUATES, calls], TWO[:1], hang_s=2.0)
    view = driven.ends(ending)
    assert view.reason == ("" if calls else "hung: no report for 2 s (hang_s)")
    assert view.samples == (2 if calls else 1), "the last report is not lost"


def test_what_a_worker_prints_is_in_its_log_at_once(driven: Driven) -> None:
    driven.start("import time; print('begins'); time.sleep(3600)", TWO[:1])
    logs = driven.path / "trainers/t/logs/1"
    eventually(lambda: [log.read_text() for log in logs.glob("*.log")] == ["begins\n"])


def test_once_per_trainer_for_programs_that_start_their_own_workers(driven: Driven) -> None:
    driven.start(
        "import os; print(os.environ['WORLD_SIZE'], os.environ['BFTRAINER_HOSTS'])",
        started_per="trainer",
    )
    driven.ends(Ending.DONE)
    (log,) = (driven.path / "trainers/t/logs/1").glob("*.log")
    assert log.read_text() == "2 n1:1,n2:1\n"


def test_another_launcher_adopts_the_driver_and_does_not_double_it(driven: Driven) -> None:
    driven.start(stepper(driven.path))
    # A driver that just forks a worker would be seen twice.
    eventually(lambda: len(driven.pids()) == 2 and (driven.path / "steps").exists())
    other = DirectoryLauncher(driven.path / "trainers", SITE)
    assert other.look("t").alive
    other.start(driven.spec, TWO)
    drivers = subprocess.run(
        ["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True
    ).stdout
    assert drivers.count(f"drivers.restart.main {driven.path}/trainers/t\n") == 1
    other.order("t", TWO[:1])
    eventually(lambda: other.look("t").on == {"f1"})


def test_a_node_that_is_needed_within_seconds_is_left_by_notice(driven: Driven) -> None:
    """Workers save at once; the next group does its imports after that."""
    driven.start(stepper(driven.path))
    eventually(lambda: driven.look().on == {"f1", "f2"} and (driven.path / "steps").exists())
    driven.launcher.order("t", TWO, ["f2"])
    notices = driven.path / "trainers" / "t" / "preempted.jsonl"
    assert notices.read_text() == '{"fragment": "f2"}\n'
    eventually(lambda: driven.look().on == {"f1"})


def test_a_class_of_nodes_has_its_own_interface(driven: Driven) -> None:
    for interface, expected in (("ib7", "ib7"), (None, "lo")):
        driven.launcher._settings |= {"interface": "lo"}
        driven.start("pass", TWO[:1], interface)
        written = json.loads((driven.path / "trainers/t/driver.json").read_bytes())
        assert written["interface"] == expected
        driven.ends(Ending.DONE)


def test_a_driver_that_dies_of_an_exception_gives_its_last_line_as_the_reason(
    driven: Driven,
) -> None:
    folder = driven.path / "gone"
    folder.mkdir()
    driven.start("raise SystemExit(0)", cwd=str(folder))
    folder.rmdir()
    assert "FileNotFoundError: " in driven.ends(Ending.FAILED).reason
    folder.mkdir()
    driven.start("import time; time.sleep(600)", cwd=str(folder))
    eventually(lambda: driven.events("worker_started"))
    driven.launcher.kill("t")
    assert driven.ends(Ending.KILLED).reason == "", "what an earlier driver died of is over"
