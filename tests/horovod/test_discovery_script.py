"""``discover_hosts.sh``: what it prints, and that the default launcher and a stock horovodrun of the
user's go by it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.horovod_trainer import Trainer
from support.live_machine import eventually
from support.patience import PATIENCE

from bftrainer.errors import InputFileError, InvalidValueError
from bftrainer.system.processes import ProcessId, identify, this_process
from bftrainer.wires.hosts_file import HostSlots, parse_hosts
from bftrainer.wires.paths import TrainerDirectory
from bftrainer_drivers.common.membership import Member
from bftrainer_drivers.horovod.discovery_script import (
    DiscoveryScript,
    format_script,
    parse_script,
)

ODD_FOLDER = 'it\'s $(touch injected); "a" `b` & c'
HOSTS = parse_hosts("n1:4:71\nn2:2:72:0,3\nn2:1:73:1\nn3.x-1_y:1:74\n", "hosts")
SLOTS = {"n1": 4, "n2": 3, "n3.x-1_y": 1}
STOCK_SCRIPT = """
import time
import torch
import horovod.torch as hvd

hvd.init()
model = torch.nn.Linear(4, 1)
state = hvd.elastic.TorchState(model=model, step=0)


@hvd.elastic.run
def train(state):
    while True:
        hvd.allreduce(torch.ones(1), name="one")
        state.step += 1
        if hvd.rank() == 0:
            print("step", state.step, "size", hvd.size(), flush=True)
        time.sleep(0.1)
        state.commit()


train(state)
"""
"""A stock elastic script: it imports nothing of bftrainer."""


def printed(path: Path) -> str:
    """What the script prints, started directly: it is executable."""
    ended = subprocess.run([path], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stderr == ""
    return ended.stdout


@pytest.fixture
def script(tmp_path: Path) -> DiscoveryScript:
    """The script of a trainer in a folder with an odd name."""
    folder = tmp_path / ODD_FOLDER
    folder.mkdir()
    return DiscoveryScript(TrainerDirectory(folder))


def test_it_prints_the_slots_of_each_node(script: DiscoveryScript, tmp_path: Path) -> None:
    script.publish(HOSTS)
    assert printed(script.path) == "n1:4\nn2:3\nn3.x-1_y:1\n"
    assert script.read() == SLOTS
    assert [path.name for path in script.path.parent.iterdir()] == ["discover_hosts.sh"]
    script.publish(HOSTS[:1])
    assert printed(script.path) == "n1:4\n"
    script.clear()
    assert printed(script.path) == ""
    assert script.read() == {}
    assert not list(tmp_path.rglob("injected"))


@pytest.mark.parametrize("node", ["a\nHOSTS\ntouch injected", "a;b", "$(b)", "-oX", "a b", ""])
def test_an_odd_name_of_a_node_is_refused(script: DiscoveryScript, node: str) -> None:
    script.publish(HOSTS)
    with pytest.raises(InvalidValueError, match="cannot be the name of a node"):
        script.publish([HostSlots(node, 1, "71")])
    assert script.read() == SLOTS


def test_it_prints_nothing_once_the_driver_has_been_killed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as driver:
        process = identify(driver.pid)
        assert process is not None
        for number, host in enumerate((os.uname().nodename, "el$e where")):
            path = tmp_path / f"{number}.sh"
            path.write_text(format_script(HOSTS[:1], host, process))
            path.chmod(0o700)
        assert printed(tmp_path / "0.sh") == "n1:4\n"
        driver.kill()
        stat = Path(f"/proc/{driver.pid}/stat")
        eventually(lambda: ") Z " in stat.read_text())
        assert printed(tmp_path / "0.sh") == ""  # its parent may not have noticed yet
    assert printed(tmp_path / "0.sh") == ""
    # On another host the process cannot be looked up.
    assert printed(tmp_path / "1.sh") == "n1:4\n"


def test_it_prints_nothing_if_another_process_has_the_drivers_pid(tmp_path: Path) -> None:
    """Its name, which anybody may choose, looks like the end of the name and the next fields."""
    me = this_process()
    path = tmp_path / "discover_hosts.sh"
    for process, text in (
        (me, "n1:4\n"),
        (replace(me, started="1@boot"), ""),
        (ProcessId(2**22 + 1, me.started), ""),
    ):
        path.write_text(format_script(HOSTS[:1], os.uname().nodename, process))
        path.chmod(0o700)
        assert printed(path) == text
    program = "import ctypes; ctypes.CDLL(None).prctl(15, b'x) S 1 * $y (', 0, 0, 0); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as driver:
        eventually(lambda: "x) S" in Path(f"/proc/{driver.pid}/comm").read_text())
        odd = identify(driver.pid)
        assert odd is not None
        path.write_text(format_script(HOSTS[:1], os.uname().nodename, odd))
        assert printed(path) == "n1:4\n"
        driver.kill()


def test_a_driver_that_dies_while_it_writes_leaves_the_last_hosts(
    script: DiscoveryScript, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.publish(HOSTS[:1])

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", die)
        patched.setattr(os, "rename", die)
        with pytest.raises(KeyboardInterrupt):
            script.publish(HOSTS)
    assert script.read() == {"n1": 4}
    assert printed(script.path) == "n1:4\n"
    script.publish(HOSTS)
    assert script.read() == SLOTS


@pytest.mark.parametrize("what", ["missing", "pipe", "link", "folder"])
def test_what_is_no_file_is_not_read(script: DiscoveryScript, tmp_path: Path, what: str) -> None:
    match what:
        case "pipe":
            os.mkfifo(script.path)
        case "link":
            target = tmp_path / "target"
            target.write_text(format_script(HOSTS, "here", this_process()))
            script.path.symlink_to(target)
        case "folder":
            script.path.mkdir()
    with pytest.raises(InputFileError):
        script.read()


@pytest.mark.parametrize(
    ("line", "where"), [("n1", ":10"), ("n1:0", ":10"), ("n1:2:71", ":10"), ("$(b):1", ":10")]
)
def test_another_script_is_not_read(script: DiscoveryScript, line: str, where: str) -> None:
    text = format_script(HOSTS[:1], "here", this_process())
    with pytest.raises(InputFileError, match=where):
        parse_script(text.replace("n1:4", line), "script")
    with pytest.raises(InputFileError, match="expected cat"):
        parse_script("#!/bin/sh\necho n1:4\n", "script")
    with pytest.raises(InputFileError):
        parse_script("", "script")


@pytest.mark.usefixtures("elastic_horovod")
def test_the_default_launcher_goes_by_it(
    script: DiscoveryScript, capsys: pytest.CaptureFixture[str]
) -> None:
    """The hosts that Horovod's driver gets are those that the script prints, under their labels."""
    from bftrainer_drivers.horovod.elastic_driver import AnnouncedHosts

    script.publish(())
    hosts = AnnouncedHosts(script)
    assert hosts.find_available_hosts_and_slots() == {}
    hosts.announce([Member(f"m{number}", host) for number, host in enumerate(HOSTS)])
    both_gpus = {"m0": 4, "m1": 1, "m2": 1, "m3": 1, "m4": 1}
    assert hosts.find_available_hosts_and_slots() == both_gpus
    assert printed(script.path) == "n1:4\nn2:3\nn3.x-1_y:1\n"
    without_n1 = script.path.read_text().replace("n1:4\nn2:3\n", "n2:1\nn9:8\n")
    script.path.write_text(without_n1)
    assert hosts.find_available_hosts_and_slots() == {"m1": 1, "m4": 1}
    script.path.write_text("echo n1:4\n")
    for _ in range(2):
        assert hosts.find_available_hosts_and_slots() == {"m1": 1, "m4": 1}
    assert capsys.readouterr().out.count("the last hosts stay in force") == 1


@pytest.mark.usefixtures("elastic_horovod")
def test_horovods_own_discovery_reads_it(script: DiscoveryScript, tmp_path: Path) -> None:
    """Horovod gives the option's value to a shell, in a folder with an odd name."""
    from horovod.runner.elastic.discovery import HostDiscoveryScript

    option, value = script.options()
    assert option == "--host-discovery-script"
    script.publish(HOSTS)
    assert HostDiscoveryScript(value, 1).find_available_hosts_and_slots() == SLOTS
    script.path.chmod(0o600)
    assert HostDiscoveryScript(value, 1).find_available_hosts_and_slots() == SLOTS, (
        "as on a file system that executes no file"
    )
    script.publish(())
    assert HostDiscoveryScript(value, 1).find_available_hosts_and_slots() == {}
    assert not list(tmp_path.rglob("injected"))


@pytest.mark.slow
@pytest.mark.usefixtures("elastic_horovod")
def test_a_stock_horovodrun_outside_of_bftrainer_goes_by_it(tmp_path: Path) -> None:
    """Two hosts of this machine, announced by a driver whose own workers only sleep."""
    stock, log = tmp_path / "stock.py", tmp_path / "stock.log"
    stock.write_text(STOCK_SCRIPT)
    folder = tmp_path / ODD_FOLDER
    sleeps = [sys.executable, "-c", "import time; time.sleep(600)"]

    def grown(size: int) -> Callable[[], bool]:
        begun = len(log.read_text()) if log.exists() else 0
        return lambda: f" size {size}\n" in log.read_text()[begun:]

    with Trainer(folder, sleeps) as trainer:
        script = DiscoveryScript(trainer.directory)
        trainer.start("localhost:1:1")
        trainer.until("one host", lambda: script.path.exists() and script.read())
        assert printed(script.path) == "localhost:1\n"
        horovodrun = [sys.executable, "-m", "horovod.runner.launch", "-np", "1", "--min-np", "1"]
        horovodrun += ["--network-interfaces", "lo"]
        horovodrun += script.options()
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "HOROVOD_GLOO_TIMEOUT_SECONDS": "300"}
        with log.open("wb") as out:
            run = subprocess.Popen(
                [*horovodrun, sys.executable, str(stock)],
                stdout=out,
                stderr=out,
                env=environment,
                cwd=tmp_path,
                start_new_session=True,
            )
        try:
            trainer.until("it trains on one host", grown(1), timeout_s=120)
            trainer.hosts("localhost:1:1 127.0.0.1:1:2")
            trainer.until("it trains on both hosts", grown(2), timeout_s=120)
            assert printed(script.path) == "localhost:1\n127.0.0.1:1\n"
            trainer.hosts("localhost:1:1")
            trainer.until("it trains on one host again", grown(1), timeout_s=120)
            assert run.poll() is None
        except AssertionError as error:
            raise AssertionError(f"{error}\n--- horovodrun\n{log.read_text()[-4000:]}") from None
        finally:
            run.send_signal(signal.SIGTERM)
            give_up_s = time.monotonic() + 20 * PATIENCE
            while run.poll() is None and time.monotonic() < give_up_s:
                time.sleep(0.1)
            if run.poll() is None:
                os.killpg(run.pid, signal.SIGKILL)
            run.wait()
        trainer.end()
        assert printed(script.path) == ""
