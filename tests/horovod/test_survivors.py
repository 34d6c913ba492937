"""A worker is lost from a group of three and more: the others go on at once, and no node but its
own is blamed.

Horovod does not close the connections of a group that has failed, so a worker that waits for one
that has already left used to stay in the collective until it was killed as hung.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from support.horovod_trainer import Trainer

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("elastic_horovod")]
EVERY_STEP = {"BFTRAINER_REPORT_EVERY_S": "0"}


def workers(trainer: Trainer, fragment: int) -> list[int]:
    trainer.read()
    started = [event for event in trainer.events if event["event"] == "worker_started"]
    return [event["pid"] for event in started if event["fragment"] == str(fragment)]


@pytest.mark.parametrize(
    ("nodes", "slots", "warm"), [(4, 1, True), (2, 2, False)], ids=["4 x 1", "2 x 2, cold"]
)
def test_the_others_go_on_after_each_loss(
    tmp_path: Path, nodes: int, slots: int, warm: bool
) -> None:
    """A warm worker listens from its warm start on, a cold one from ``progress.track`` on."""
    left = list(range(1, nodes + 1))
    with Trainer(tmp_path / "trainer", hang_s=600, warm=warm, environment=EVERY_STEP) as trainer:
        trainer.start(" ".join(f"n{fragment}:{slots}:{fragment}" for fragment in left))
        trainer.steps(nodes * slots, count=3, timeout_s=120)
        for lost in (2, 1, 3)[: nodes - 1]:  # of a ring of four: one in the middle, then the ends
            pid, at_s = workers(trainer, lost)[-1], trainer.progress[-1]["time"]
            left.remove(lost)
            os.kill(pid, signal.SIGKILL)
            trainer.event("withheld", at_s, fragment=str(lost))
            trainer.event("running", at_s, fragments=[str(fragment) for fragment in left])
            trainer.steps(len(left) * slots, count=3)
        assert not [event for event in trainer.events if event["event"] == "hung"]
        blamed = [event["fragment"] for event in trainer.events if event["event"] == "withheld"]
        assert blamed == ["2", "1", "3"][: nodes - 1]
        assert {line["incarnation"] for line in trainer.progress} == {1}, (
            "from the last commit, not from a checkpoint"
        )
        trainer.check_continuity()


def test_a_survivor_that_cannot_leave_is_ended_and_its_node_is_used_again(tmp_path: Path) -> None:
    """It is stopped, so it does not answer; after a loss nobody can tell that from a survivor that
    waits.
    """
    with Trainer(tmp_path / "trainer", hang_s=50, environment=EVERY_STEP) as trainer:
        trainer.start("a:1:1 b:1:2 c:1:3")
        trainer.steps(3)
        trainer.kill("3", signal.SIGSTOP)
        killed_s = trainer.kill("2")
        trainer.event("hung", killed_s, fragment="3")
        trainer.event("running", killed_s, fragments=["1"])
        trainer.event("running", killed_s, fragments=["1", "3"])
        trainer.steps(2)
        assert [event["fragment"] for event in trainer.events if event["event"] == "withheld"] == [
            "2"
        ]
        trainer.check_continuity()


def test_a_script_without_progress_track_is_freed_too(tmp_path: Path) -> None:
    script = tmp_path / "plain.py"
    script.write_text(
        "import os, time\n"
        "os.environ['OMP_NUM_THREADS'] = '1'\n"
        "import horovod.torch as hvd\nimport torch\n"
        "hvd.init()\n"
        "state = hvd.elastic.TorchState(step=0)\n"
        "@hvd.elastic.run\n"
        "def train(state):\n"
        "    print('group of', hvd.size(), flush=True)\n"
        "    while True:\n"
        "        hvd.allreduce(torch.ones(1000), name='x')\n"
        "        time.sleep(0.01)\n"
        "        state.commit()\n"
        "train(state)\n"
    )
    with Trainer(tmp_path / "plain", [sys.executable, str(script)], hang_s=600) as trainer:
        trainer.start("a:2:1 b:2:2")
        log = trainer.path / "logs/1/a.1.0.log"
        trainer.until("a group of 4", lambda: log.exists() and "group of 4" in log.read_text())
        trainer.kill("2")
        trainer.until("a group of 2", lambda: "group of 2" in log.read_text())
        assert not [event for event in trainer.events if event["event"] == "hung"]
