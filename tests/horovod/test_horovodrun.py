"""Stock horovodrun with the same trainer directory, only where it is allowed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.horovod_trainer import Trainer, example

from bftrainer.progress import STOPPED_STATUS
from bftrainer.system.processes import identify
from bftrainer.wires.paths import TrainerDirectory
from bftrainer_drivers.horovod.discovery_script import DiscoveryScript
from bftrainer_drivers.horovod.ssh_shim import announced_path, host_and_command


def test_it_is_off_unless_allowed(tmp_path: Path) -> None:
    with Trainer(tmp_path / "trainer", driver="horovodrun") as trainer:
        trainer.start("a:1:1")
        assert trainer.wait() == 1
        assert "allow_stock_horovodrun" in trainer.event("failed")["reason"]


def test_the_shim_reads_what_horovodrun_says_to_ssh() -> None:
    options = ["-o", "PasswordAuthentication=no", "-o", "StrictHostKeyChecking=no"]
    assert host_and_command([*options, "n1", "cd / ; env A=1 python x.py"]) == (
        "n1",
        "cd / ; env A=1 python x.py",
    )
    assert host_and_command([*options, "n1", "-p", "22", "-i", "key", "true"]) == ("n1", "true")


@pytest.mark.slow
@pytest.mark.usefixtures("elastic_horovod")
def test_it_grows_loses_a_worker_and_stops_with_a_checkpoint(tmp_path: Path) -> None:
    with Trainer(tmp_path / "trainer", driver="horovodrun", allow_stock_horovodrun=True) as trainer:
        trainer.start("a:1:1")
        trainer.steps(1)
        script = DiscoveryScript(trainer.directory)
        assert script.read() == {"a": 1}
        asked_s = trainer.hosts("a:1:1 b:1:2")
        trainer.event("running", asked_s, fragments=["1", "2"])
        trainer.steps(2)
        killed_s = trainer.kill("2")
        trainer.event("withheld", killed_s, fragment="2")
        trainer.until("the host is no longer announced", lambda: script.read() == {"a": 1})
        trainer.event("running", killed_s, fragments=["1"])
        trainer.steps(1)
        asked_s = trainer.hosts("a:1:1 b:1:9")
        trainer.event("running", asked_s, fragments=["1", "9"])
        asked_s = trainer.hosts("b:1:9")  # rank 0 leaves
        trainer.event("running", asked_s, fragments=["9"])
        trainer.until("its worker has gone", lambda: identify(trainer.worker("1")) is None)
        trainer.steps(1)
        trainer.control("stop")
        assert trainer.wait() == STOPPED_STATUS
        assert trainer.event("stopped")["checkpointed"]
        trainer.check_continuity()
        trainer.until("no worker is left", lambda: not trainer.left())


@pytest.mark.slow
@pytest.mark.usefixtures("elastic_horovod")
def test_a_change_that_rank_0_did_not_hear_of_is_made_again(tmp_path: Path) -> None:
    """The notice came while the script started; such a trainer used to stay at its first size
    forever.
    """
    folder, script = tmp_path / "trainer", tmp_path / "begins_late.py"
    # horovodrun looks once a second: 6 s after it was shown b it has told of it.
    script.write_text(
        "import os, pathlib, runpy, sys, time\n"
        f"shown = pathlib.Path({str(announced_path(TrainerDirectory(folder)))!r})\n"
        "while os.environ['BFTRAINER_FRAGMENT'] == '1' and 'b:' not in shown.read_text():\n"
        "    time.sleep(0.1)\n"
        "time.sleep(6 * (os.environ['BFTRAINER_FRAGMENT'] == '1'))\n"
        "sys.argv = sys.argv[1:]\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    command = [sys.executable, str(script), *example("horovod")[1:]]
    with Trainer(folder, command, driver="horovodrun", allow_stock_horovodrun=True) as trainer:
        trainer.start("a:1:1")
        trainer.event("worker_started", fragment="1")
        asked_s = trainer.hosts("a:1:1 b:1:2")
        trainer.event("running", asked_s, timeout_s=120, fragments=["1", "2"])
        trainer.steps(2)
        assert "the change is repeated" in (trainer.path / "driver.log").read_text()
        trainer.check_continuity()
