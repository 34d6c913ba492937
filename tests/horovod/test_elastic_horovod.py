"""Elastic Horovod while nodes join and leave, with and without notice."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
from support.horovod_trainer import Trainer, example

from bftrainer.progress import STOPPED_STATUS
from bftrainer.system.processes import identify
from bftrainer_drivers.common.membership import Membership

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("elastic_horovod")]


def test_grows_shrinks_and_loses_rank_0_by_order(trainer: Trainer) -> None:
    trainer.start("a:1:1")
    trainer.steps(1)
    asked_s = trainer.hosts("a:1:1 b:1:2 c:1:3")
    trainer.event("running", asked_s, world_size=3, fragments=["1", "2", "3"])
    trainer.steps(3)
    asked_s = trainer.hosts("b:1:2 c:1:3")  # rank 0 leaves
    trainer.event("running", asked_s, fragments=["2", "3"])
    assert identify(trainer.worker("1")) is None, (
        "a fragment is free once the trainer runs without it"
    )
    trainer.steps(2)
    asked_s = trainer.hosts("c:1:3")
    trainer.event("running", asked_s, fragments=["3"])
    trainer.steps(1)
    asked_s = trainer.hosts("c:1:3 a:1:1")  # the same fragment, for a second stay
    trainer.event("running", asked_s, fragments=["1", "3"])
    trainer.steps(2)
    assert not [event for event in trainer.events if event["event"] == "withheld"]
    sizes = [line["world_size"] for line in trainer.formed()]
    assert sizes[-4:] == [3, 2, 1, 2]
    warm_s = [trainer.event("warm", fragment=fragment)["time"] for fragment in ("2", "3")]
    waited = abs(warm_s[0] - warm_s[1]) < 0.8 * Membership().straggler_s
    assert len(sizes) == 4 or not waited, "those that are warm at about the same time join together"
    trainer.check_continuity()


def test_a_killed_worker_costs_its_fragment_until_the_node_comes_back_as_another(
    trainer: Trainer,
) -> None:
    trainer.start("a:1:1 b:1:2")
    trainer.steps(2)
    before = len(trainer.formed())
    killed_s = trainer.kill("2")
    trainer.event("withheld", killed_s, fragment="2")
    trainer.event("running", killed_s, fragments=["1"])
    assert not [event for event in trainer.events if event["event"] == "hung"], (
        "found by its end, not by its silence"
    )
    trainer.steps(1, count=100)  # 2 s and more with a hosts file that still lists the dead fragment
    assert len(trainer.formed()) == before + 1, trainer.story()
    started = [e["fragment"] for e in trainer.events if e["event"] == "worker_started"]
    assert sorted(started) == ["1", "2"], "nothing is started in a dead fragment"
    asked_s = trainer.hosts("a:1:1 b:1:9")
    trainer.event("running", asked_s, fragments=["1", "9"])
    trainer.steps(2)
    trainer.check_continuity()


def test_a_stopped_worker_is_found_and_killed(elastic_horovod: None, tmp_path: Path) -> None:
    # Gloo's timeout is when the others notice; its default of 30 s would be half the test. hang_s
    # is for those that do not.
    with Trainer(
        tmp_path / "trainer", hang_s=60, environment={"HOROVOD_GLOO_TIMEOUT_SECONDS": "10"}
    ) as trainer:
        trainer.start("a:1:1 b:1:2")
        trainer.steps(2)
        stopped_s = trainer.kill("2", signal.SIGSTOP)
        trainer.event("hung", stopped_s, fragment="2")
        trainer.event("withheld", stopped_s, fragment="2")
        trainer.event("running", stopped_s, fragments=["1"])
        trainer.steps(1)
        trainer.check_continuity()


def test_a_node_that_goes_just_after_horovod_took_it_costs_no_work(
    elastic_horovod: None, tmp_path: Path
) -> None:
    """The others already wait for it in Gloo; without a stand-in they abort after Gloo's
    timeout.
    """
    script = tmp_path / "slow_on_2.py"
    script.write_text(
        "import os, runpy, sys, time\n"
        "if os.environ['BFTRAINER_FRAGMENT'] == '2':\n"
        "    print('not yet', flush=True)\n"
        "    time.sleep(600)\n"
        "sys.argv = sys.argv[1:]\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    command = [sys.executable, str(script), *example("horovod", "--checkpoint-every-s=1000")[1:]]
    with Trainer(tmp_path / "trainer", command) as trainer:
        trainer.start("a:1:1")
        trainer.steps(1)
        trainer.hosts("a:1:1 b:1:2")
        trainer.event("worker_started", fragment="2")
        trainer.until(
            "it is in the group",
            lambda: "not yet" in (trainer.path / "logs/1/b.2.0.log").read_text(),
        )
        killed_s = trainer.kill("2")
        trainer.event("withheld", killed_s, fragment="2")
        trainer.event("running", killed_s, fragments=["1"])
        trainer.steps(1)
        assert not [e for e in trainer.events if e["event"] == "running" and "2" in e["fragments"]]
        trainer.check_continuity()
        trainer.control("stop")
        assert trainer.wait() == STOPPED_STATUS
        assert trainer.left() == []


def test_a_change_before_the_script_listens_is_not_lost(
    elastic_horovod: None, tmp_path: Path
) -> None:
    with Trainer(
        tmp_path / "trainer", example("horovod", "--samples=300000"), warm=False
    ) as trainer:
        trainer.start("a:1:1")
        trainer.event("worker_started", fragment="1")
        trainer.hosts("a:1:1 b:1:2")
        trainer.event("running", fragments=["1", "2"])
