"""What the drivers of all launchers promise: changes of hosts, losses, ends. Real programs as local
workers.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.horovod_trainer import EXAMPLES, Trainer, example, on_a_word
from support.needs import need_package

from bftrainer.progress import STOPPED_STATUS
from bftrainer.system.processes import identify
from bftrainer.wires.reports import LATE

pytestmark = pytest.mark.slow


TEN_STEPS = {
    "horovod": ("--epochs=1", "--samples=640"),
    "torchrun": ("--epochs=1", "--samples=640"),
    "pool": ("--tasks=10",),
    "restart": ("--steps=10",),
}
"""Options of the shipped examples for 10 steps on two nodes."""
KINDS = [*TEN_STEPS]
WARM, GROUPS = ["horovod", "torchrun"], ["horovod", "torchrun", "restart"]
Make = Callable[..., Trainer]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    need_package(EXAMPLES[found][0])
    return found


@pytest.fixture
def make(kind: str, tmp_path: Path) -> Iterator[Make]:
    """A trainer of this kind; its driver is not started yet."""
    with ExitStack() as made:
        yield lambda command=None, **driver: made.enter_context(
            Trainer(tmp_path / "t", command, driver=kind, **driver)
        )


def running(trainer: Trainer) -> list[list[str]]:
    return [event["fragments"] for event in trainer.events if event["event"] == "running"]


@pytest.mark.parametrize("kind", WARM, indirect=True)
def test_three_orders_in_a_second_are_one_rescale(kind: str, make: Make, tmp_path: Path) -> None:
    command, environment = on_a_word(tmp_path / "around", example(kind))
    trainer = make(command, environment=environment)
    trainer.start("a:1:1")
    trainer.steps(1)
    trainer.hosts("a:1:1 b:1:2")
    trainer.event("warming", fragment="2")
    trainer.hosts("a:1:1 c:1:3")
    trainer.event("warming", fragment="3")
    asked_s = trainer.hosts("a:1:1 c:1:3 d:1:4")
    trainer.event("warming", fragment="4")
    (trainer.path / "go").touch()
    trainer.event("running", asked_s, fragments=["1", "3", "4"])
    trainer.steps(3)
    assert len(running(trainer)) == 2
    trainer.event("warming_canceled", fragment="2")
    trainer.until("its worker has ended", lambda: identify(trainer.worker("2")) is None)
    assert not [event for event in trainer.events if event["event"] == "withheld"]


@pytest.mark.parametrize("kind", WARM, indirect=True)
def test_a_node_that_goes_while_it_warms_disturbs_nobody(
    kind: str, make: Make, tmp_path: Path
) -> None:
    command, environment = on_a_word(tmp_path / "around", example(kind))
    trainer = make(command, environment=environment)
    trainer.start("a:1:1")
    trainer.steps(1)
    trainer.hosts("a:1:1 b:1:2 c:1:3")
    trainer.event("worker_started", fragment="2")
    killed_s = trainer.kill("2")
    trainer.event("withheld", killed_s, fragment="2")
    (trainer.path / "go").touch()
    trainer.event("running", killed_s, fragments=["1", "3"])
    trainer.steps(2)
    assert len(running(trainer)) == 2


@pytest.mark.parametrize("kind", ["horovod"], indirect=True)
def test_after_a_loss_the_group_has_a_legal_size_or_stops(make: Make) -> None:
    trainer = make(sizes=[2, 4], environment={"BFTRAINER_REPORT_EVERY_S": "0"})
    trainer.start("a:1:1 b:1:2 c:1:3 d:1:4")
    trainer.steps(4, count=2, timeout_s=120)
    lost = "4"
    for left in ({"1", "2", "3"}, {"1", "2", "3"}):
        killed_s = trainer.kill(lost)
        pair = set(trainer.event("running", killed_s, world_size=2)["fragments"])
        assert len(pair) == 2
        assert pair <= left - {lost}
        trainer.steps(2, count=2)
        lost = min(pair)
    trainer.kill(lost)
    assert trainer.wait() == STOPPED_STATUS
    assert trainer.event("stopped")["reason"] == "1 node, but sizes is [2, 4]"
    trained = [line for line in trainer.progress if line["phase"] == "running"]
    assert {line["world_size"] for line in trained if not line.get("formed")} == {2, 4}


@pytest.mark.parametrize("kind", GROUPS, indirect=True)
def test_all_nodes_at_once_stops_the_trainer(make: Make) -> None:
    trainer = make()
    trainer.start("a:1:1 b:1:2")
    trainer.steps(2)
    trainer.kill_together("1", "2")
    assert trainer.wait() == STOPPED_STATUS
    assert {event["fragment"] for event in trainer.events if event["event"] == "withheld"} == {
        "1",
        "2",
    }
    assert trainer.left() == []


def test_a_stop_request_of_the_pilot_on_two_nodes(make: Make) -> None:
    trainer = make()
    trainer.start("a:1:1 b:2:2")
    trainer.steps(3)
    trainer.control("stop")
    assert trainer.wait() == STOPPED_STATUS
    stopped = trainer.event("stopped")
    assert stopped["checkpointed"] is True
    assert LATE not in str(stopped), (
        "it ends with its workers, whichever of them hears of the stop first"
    )
    assert [event["status"] for event in trainer.events if event["event"] == "worker_exited"] == [
        STOPPED_STATUS
    ] * 3


@pytest.mark.parametrize("kind", ["horovod", "torchrun", "torchft"], indirect=True)
def test_without_a_node_of_its_group_it_checkpoints_stops_and_goes_on_from_there(
    kind: str, make: Make
) -> None:
    trainer = make(environment={"BFTRAINER_REPORT_EVERY_S": "0"})
    trainer.start("a:1:1")
    trainer.steps(1)
    trainer.hosts(
        "" if kind == "torchrun" else "a:1:9"
    )  # torchrun starts again on the node as another fragment
    assert trainer.wait() == STOPPED_STATUS
    assert trainer.event("stopped")["checkpointed"] is True
    saved = [line for line in trainer.progress if line["phase"] == "checkpointed"][-1]
    trainer.start("b:1:2")
    trainer.steps(1)
    first = next(
        x
        for x in trainer.progress
        if x["incarnation"] == 2 and x["phase"] == "running" and not x.get("formed")
    )
    assert (first["step"], first["samples"]) == (saved["step"] + 1, saved["samples"] + 32)


def test_a_finished_program_is_done(kind: str, make: Make) -> None:
    # One that is warm long before the other would begin alone.
    trainer = make(example(kind, *TEN_STEPS[kind]), warm=False)
    trainer.start("a:1:1 b:1:2")
    assert trainer.wait() == 0
    assert trainer.event("done")
    assert trainer.left() == []
    assert "10 steps" in "".join(log.read_text() for log in trainer.path.glob("logs/1/*.log"))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ([sys.executable, "-c", "print('as far as this'); raise SystemExit(3)"], "as far as this"),
        (["no-such-program", "train.py"], "no-such-program"),
    ],
    ids=["exits", "no program"],
)
@pytest.mark.parametrize("kind", [*KINDS, "torchft"], indirect=True)
def test_a_program_that_fails_at_once_shows_its_last_lines(
    make: Make, command: list[str], words: str
) -> None:
    trainer = make(command)
    trainer.start("a:1:1 b:1:2")
    assert trainer.wait() == 1
    failed = trainer.event("failed")
    assert words in "\n".join(failed["tail"]), failed
    assert trainer.left() == []


def test_a_program_that_ignores_the_request_is_killed_after_stop_s(
    make: Make, tmp_path: Path
) -> None:
    script = tmp_path / "deaf.py"
    script.write_text(
        "import os, time\nif 'HOROVOD_RANK' in os.environ:\n    import horovod.torch as hvd\n  "
        "  hvd.init()\n"
        "print('deaf', flush=True)\ntime.sleep(600)\n"
    )
    trainer = make([sys.executable, str(script)], stop_s=1)
    trainer.start("a:1:1")
    trainer.event("worker_started")
    trainer.until(
        "it runs", lambda: "deaf" in (trainer.path / "logs/1/a.1.0.log").read_text(errors="replace")
    )
    asked_s = time.time()
    trainer.control("stop")
    assert trainer.wait() == STOPPED_STATUS
    assert trainer.event("stopped")["time"] - asked_s >= 1
    assert trainer.left() == []


def test_workers_end_with_their_driver(make: Make) -> None:
    trainer = make()
    trainer.start("a:1:1 b:1:2")
    trainer.steps(2)
    assert trainer.process is not None
    trainer.process.kill()
    trainer.process.wait()
    trainer.until("no worker is left", lambda: not trainer.left())
