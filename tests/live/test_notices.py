"""The command that is told when a trainer is done, has failed or starves."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.fakes_live import FakeClock
from support.live_house import spec
from support.live_machine import CONFIG, eventually, machine

from bftrainer.config.in_effect import ConfigCell
from bftrainer.config.pilot import NoticesConfig, PilotConfig
from bftrainer.config.validation import check_table
from bftrainer.pilot.notices import NOTE, Notices
from bftrainer.pilot.persistence.registry import Registry, Submission, TrainerStatus
from bftrainer.pilot.persistence.registry_writer import TrainerChange
from bftrainer.pilot.persistence.store import Store
from bftrainer.pilot.recorder import Recorder
from bftrainer.pilot.steady_clock import SteadyClock

KEEP = (
    "import sys, os; open('told', 'a').write(sys.stdin.read()); open('names', "
    "'a').write(os.environ['BFTRAINER_EVENT'])"
)


class Desk:
    """A recorder with notices that listen, and a clock that is set to ``now_s``."""

    def __init__(self, store: Store, folder: Path, now_s: float = 100.0, **keys: object) -> None:
        config = check_table(
            {"on_event": [sys.executable, "-c", KEEP], **keys}, NoticesConfig, "test"
        )
        self.clock = FakeClock(now_s)
        self.registry = Registry(store)
        self.notices = Notices(
            ConfigCell(PilotConfig(notices=config)), self.registry, folder, self.clock
        )
        self.recorder = Recorder(store, SteadyClock(self.clock), [self.notices.hear])
        self.folder = folder

    def add(self, name: str) -> None:
        self.recorder.submissions([Submission(spec(name), "me", name)])

    def change(self, name: str, status: TrainerStatus, **keys: Any) -> None:
        change = TrainerChange(status=status, finished=status.is_final, **keys)
        self.recorder.trainer(self.registry.trainer(name), change)

    def look(self) -> None:
        for trainer, text in self.notices.look():
            self.recorder.note(NOTE, trainer, text)

    def until(self, holds: Callable[[], object]) -> None:
        def looked() -> bool:
            self.look()
            return bool(holds())

        eventually(looked)

    def told(self) -> list[dict[str, object]]:
        path = self.folder / "told"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def notes(self) -> list[str]:
        return [
            f"{n.subject} {n.text}"
            for n in self.registry.notes(1000)
            if n.kind == "notice" and n.subject
        ]


def test_done_and_failed_are_told_with_what_is_known(store: Store, tmp_path: Path) -> None:
    desk = Desk(store, tmp_path)
    desk.add("a")
    desk.add("b")
    desk.change("a", TrainerStatus.DONE, samples_done=7.0)
    desk.change("b", TrainerStatus.FAILED, reason="status 3: no data set")
    desk.until(lambda: len(desk.notes()) == 2)
    first, second = sorted(desk.told(), key=lambda told: str(told["trainer"]))
    assert (first["event"], first["trainer"], first["samples_done"], first["owner"]) == (
        "done",
        "a",
        7.0,
        "me",
    )
    assert (second["event"], second["text"]) == ("failed", "status 3: no data set")
    assert sorted(desk.notes()) == ["a done: sent", "b failed: sent"]


def test_nobody_is_told_of_a_canceled_or_running_one(store: Store, tmp_path: Path) -> None:
    desk = Desk(store, tmp_path)
    desk.add("a")
    desk.change("a", TrainerStatus.RUNNING)
    desk.change("a", TrainerStatus.CANCELED)
    desk.look()
    assert not desk.notices._pending
    assert not desk.notices._running


def test_starving_is_told_once_and_again_after_as_long(store: Store, tmp_path: Path) -> None:
    desk = Desk(store, tmp_path, starved_after_s=60)
    desk.add("a")
    desk.clock.now = 159.0
    desk.look()
    assert not desk.notices._running
    desk.clock.now = 161.0
    desk.until(lambda: len(desk.notes()) == 1)
    assert desk.told()[0]["text"] == "no nodes for 61 s"
    desk.change("a", TrainerStatus.RUNNING)
    desk.clock.now = 400.0
    desk.look()
    assert len(desk.notes()) == 1, "it runs"
    desk.change("a", TrainerStatus.WAITING)
    desk.clock.now = 470.0
    desk.until(lambda: len(desk.notes()) == 2)


def test_what_ended_while_no_pilot_told_is_told_by_the_next(store: Store, tmp_path: Path) -> None:
    first = Desk(store, tmp_path)
    first.look()
    first.add("early")
    first.add("late")
    silent = Recorder(store, SteadyClock(FakeClock(150.0)))  # the pilot dies before it tells
    silent.trainer(
        first.registry.trainer("late"), TrainerChange(status=TrainerStatus.DONE, finished=True)
    )
    second = Desk(store, tmp_path, now_s=200.0)
    second.until(second.notes)
    assert [told["trainer"] for told in second.told()] == ["late"]
    third = Desk(store, tmp_path, now_s=300.0)
    third.look()
    assert not third.notices._running, "told once"


def test_what_ended_before_there_were_notices_is_not_told(store: Store, tmp_path: Path) -> None:
    before = Recorder(store, SteadyClock(FakeClock(50.0)))
    before.submissions([Submission(spec("old"), "me", "old")])
    before.trainer(
        before.registry.trainer("old"), TrainerChange(status=TrainerStatus.DONE, finished=True)
    )
    desk = Desk(store, tmp_path)
    desk.look()
    assert not desk.notices._running


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["/no/such/program"], "the command cannot be run"),
        (
            ["sh", "-c", "echo no route to host; exit 4"],
            "the command ended with status 4: no route to host",
        ),
        (
            ["sh", "-c", "echo stuck; touch up; sleep 600 & sleep 600"],
            "the command was killed after 30 s: stuck",
        ),
    ],
)
def test_a_command_that_fails_or_hangs_stops_nothing_and_is_noted(
    store: Store, tmp_path: Path, command: list[str], words: str
) -> None:
    desk = Desk(store, tmp_path, on_event=command, timeout_s=30)
    desk.add("a")
    desk.change("a", TrainerStatus.DONE)
    if "stuck" in words:
        desk.until((tmp_path / "up").exists)
        assert desk.notes() == []
        desk.clock.now = 131.0
    desk.until(desk.notes)
    assert desk.notes()[0].startswith(f"a done: {words}")


def test_a_name_is_data_and_no_shell_sees_it(store: Store, tmp_path: Path) -> None:
    desk = Desk(store, tmp_path, on_event=["sh", "-c", "cat > told", "$(touch shell)"])
    desk.add("a")
    desk.change("a", TrainerStatus.FAILED, reason="$(touch shell); `touch shell`")
    desk.until(desk.notes)
    assert desk.told()[0]["text"] == "$(touch shell); `touch shell`"
    assert not (tmp_path / "shell").exists()


def test_a_real_pilot_tells(tmp_path: Path) -> None:
    program = tmp_path / "tell.py"
    program.write_text(f"import sys; open({str(tmp_path / 'told')!r}, 'a').write(sys.stdin.read())")
    command = json.dumps([sys.executable, str(program)])
    with machine(tmp_path, "n1", f"{CONFIG}\n[notices]\non_event = {command}\n") as on:
        on.submit("a", 5)
        pilot = on.pilot()
        eventually((tmp_path / "told").exists, 40)
        on.end(pilot)
        told = json.loads((tmp_path / "told").read_text())
        assert told["event"] == "done"
        assert told["held_node_h"] > 0, "all that it has used, also since the last heartbeat"


@pytest.mark.parametrize(
    "pilots", [{}, {"on_event": []}], ids=["instead", "where the pilot has none"]
)
def test_a_trainer_s_own_command_is_told_and_its_failure_ends_nothing(
    store: Store, tmp_path: Path, pilots: dict[str, object]
) -> None:
    desk = Desk(store, tmp_path, **pilots)  # type: ignore[arg-type]
    own = [
        sys.executable,
        "-c",
        "import sys; open('own', 'w').write(sys.stdin.read()); sys.exit(3)",
    ]
    desk.recorder.submissions([Submission(spec("a", notify=own), "me", "a")])
    desk.add("b")
    desk.change("a", TrainerStatus.FAILED, reason="boom")
    desk.change("b", TrainerStatus.DONE)
    wanted = ["a failed: the command ended with status 3: ", "b done: sent"][: 1 if pilots else 2]
    desk.until(lambda: sorted(desk.notes()) == wanted)
    assert json.loads((tmp_path / "own").read_text())["text"] == "boom"
    assert [line["trainer"] for line in desk.told()] == ["b"][: len(wanted) - 1]
