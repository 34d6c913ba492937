"""Replicas under the torchft driver while nodes join, leave and die: the survivors' processes go
on.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from support.horovod_trainer import Trainer, example
from support.needs import need_package
from support.promises import promised
from support.training_schedules import equal_on_all_ranks, rank_lines

from bftrainer.progress import STOPPED_STATUS
from bftrainer.system.processes import identify

pytestmark = pytest.mark.slow


def replicas(folder: Path, command: list[str] | None = None, **driver: Any) -> Trainer:
    need_package("torchft")
    environment = {"BFTRAINER_REPORT_EVERY_S": "0", **driver.pop("environment", {})}
    return Trainer(folder, command, driver="torchft", environment=environment, **driver)


def test_survivors_train_on_through_growth_a_kill_and_the_loss_of_rank_0(tmp_path: Path) -> None:
    # With this hang_s, a survivor that waits for a time-out is waited for too long.
    with replicas(tmp_path / "trainer", hang_s=1200) as trainer:
        trainer.start("a:1:1 b:1:2")
        trainer.steps(2)
        began = trainer.worker("1"), trainer.worker("2")
        asked_s = trainer.hosts("a:1:1 b:1:2 c:2:3")  # two replicas on one node
        trainer.event("running", asked_s, world_size=4, fragments=["1", "2", "3"])
        trainer.steps(4)
        killed_s = trainer.kill("1")  # rank 0
        trainer.event("withheld", killed_s, fragment="1")
        trainer.event("running", killed_s, world_size=3, fragments=["2", "3"])
        trainer.steps(3)
        trainer.hosts("b:1:2 c:2:3 d:2:4")
        trainer.steps(5)
        killed_s = trainer.kill("4")  # one of two on its node: the other one is ended as well
        trainer.event("running", killed_s, world_size=3, fragments=["2", "3"])
        trainer.steps(3)
        asked_s = trainer.hosts("b:1:2")
        trainer.event("running", asked_s, world_size=1, fragments=["2"])
        assert len(trainer.left()) == 1, "a fragment is free once the trainer runs without it"
        trainer.steps(1)
        assert trainer.worker("2") == began[1], "the survivor's process has trained all along"
        trainer.control("stop")
        assert trainer.wait() == STOPPED_STATUS
        assert trainer.event("stopped")["checkpointed"] is True
        assert trainer.left() == []
        with promised():
            made = [
                line["step"]
                for line in trainer.progress
                if line["phase"] == "running" and not line.get("formed")
            ]
            assert made == sorted(set(made)), "no step was made twice"
            assert all(new - old <= 2 for old, new in itertools.pairwise(made)), (
                "at most one step went unreported"
            )
            assert {line["incarnation"] for line in trainer.progress} == {1}
            assert equal_on_all_ranks(rank_lines(trainer.path)) >= 30


def test_the_driver_s_death_ends_the_replicas_and_the_next_driver_resumes(tmp_path: Path) -> None:
    with replicas(tmp_path / "trainer", example("torchft", "--checkpoint-every-s=0.2")) as trainer:
        trainer.start("a:1:1 b:1:2")
        trainer.until(
            "a checkpoint",
            lambda: any(line["phase"] == "checkpointed" for line in trainer.progress),
        )
        workers = trainer.worker("1"), trainer.worker("2")
        assert trainer.process is not None
        trainer.process.kill()
        trainer.wait()
        trainer.until("no worker is left", lambda: all(identify(pid) is None for pid in workers))
        trainer.start()
        trainer.steps(2)
        first = next(line for line in trainer.progress if line["incarnation"] == 2)
        assert first["step"] > 0


def test_the_key_is_the_owner_s_and_in_no_environment(tmp_path: Path) -> None:
    with replicas(tmp_path / "trainer") as trainer:
        trainer.start("a:1:1")
        trainer.steps(1)
        assert trainer.directory.meeting.stat().st_mode & 0o777 == 0o600
        key = json.loads(trainer.directory.meeting.read_text())["key"].encode()
        for name in ("environ", "cmdline"):
            assert key not in Path(f"/proc/{trainer.worker('1')}/{name}").read_bytes()
