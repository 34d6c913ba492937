"""Hung workers, and how a trainer ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from bftrainer.protocol.reports import Ending
from bftrainer_adapters.drivers.common.warm_command import warm_command
from bftrainer_adapters.drivers.horovod.hang_watch import HangWatch
from bftrainer_adapters.drivers.horovod.outcome import Exit, outcome

TWO = {("a", 0), ("b", 0)}
LOG = Path("worker.log")


def test_a_script_that_reports_nothing_is_never_hung() -> None:
    assert HangWatch(60).hung(TWO, False, 1e9) == set()


def test_silence_of_hang_s_makes_all_suspect() -> None:
    watch = HangWatch(60)
    watch.heard(100)
    assert watch.hung(TWO, False, 159.9) == set()
    assert watch.hung(TWO, False, 160) == TWO
    watch.regrouped(150)
    assert watch.hung(TWO, False, 209.9) == set()


def test_the_straggler_that_others_wait_for_gets_a_tenth_and_5_s_at_least() -> None:
    for hang_s, given_s in ((120, 12.0), (10, 5.0)):
        watch = HangWatch(hang_s)
        assert watch.hung({("b", 0)}, True, 10) == set()
        assert watch.hung({("b", 0)}, True, 10 + given_s - 0.1) == set()
        assert watch.hung({("b", 0)}, True, 10 + given_s) == {("b", 0)}


def test_the_wait_begins_anew_when_nobody_waits() -> None:
    watch = HangWatch(10)
    watch.hung({("b", 0)}, True, 0)
    watch.hung(TWO, False, 3)
    assert watch.hung({("b", 0)}, True, 5) == set()


def done(status: int, planned: bool = False) -> Exit:
    return Exit(status, planned, LOG)


@pytest.mark.parametrize(
    ("exits", "asked", "ending", "status"),
    [
        ([done(0), done(0)], None, Ending.DONE, 0),
        ([done(83), done(83)], "the pilot requested a stop", Ending.STOPPED, 83),
        ([done(83)], None, Ending.STOPPED, 83),
        ([done(-9), done(-9)], None, Ending.STOPPED, 83),
        ([done(137), done(143)], None, Ending.STOPPED, 83),
        ([done(-6), done(1)], None, Ending.FAILED, 1),
        ([done(-9, planned=True), done(0)], None, Ending.DONE, 0),
        ([], None, Ending.STOPPED, 83),
    ],
)
def test_outcomes(exits: list[Exit], asked: str | None, ending: Ending, status: int) -> None:
    ended = outcome(exits, asked)
    assert (ended.ending, ended.exit_status) == (ending, status)


def test_how_an_exit_is_told() -> None:
    assert str(done(-9)) == str(done(137)) == "ended by SIGKILL"
    assert str(done(3)) == "ended with status 3"


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        (["python", "train.py", "--lr", "1"], ["python", ..., "train.py", "--lr", "1"]),
        (["/opt/bin/python3.11", "-u", "train.py"], ["/opt/bin/python3.11", "-u", ..., "train.py"]),
        (["python3", "-m", "package.train"], ["python3", ..., "-m", "package.train"]),
    ],
)
def test_python_scripts_and_modules_can_start_warm(command: list[str], kept: list[object]) -> None:
    found = warm_command(command)
    assert found is not None
    place = kept.index(...)
    assert found[place].endswith("warm_start.py")
    assert found[:place] + found[place + 1 :] == kept[:place] + kept[place + 1 :]


@pytest.mark.parametrize(
    "command",
    [[], ["./train"], ["python"], ["python", "-c", "pass"], ["python", "-m"], ["pythonic", "x.py"], ["bash", "x.sh"]],
)
def test_others_start_cold(command: list[str]) -> None:
    assert warm_command(command) is None
