"""Whatever stands in a trainer's files, its view is finite and bounded, and can be measured,
journaled and registered.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import hostile_lines
from support.hostile_lines import NOT_LINES, VALUES, events, progress

from bftrainer.pilot.persistence import codec
from bftrainer.pilot.trainers.launcher import DirectoryLauncher
from bftrainer.pilot.trainers.meter import TrainerMeter
from bftrainer.wires.driver_pid import write_own_pid
from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.reports import DriverView, Ending

STARTED = (
    b'{"time": 1.0, "event": "running", "incarnation": 1, "world_size": 1, "fragments": ["f"]}\n'
)
KEYS = ("time", "incarnation", "world_size", "step", "samples", "loss")


@pytest.fixture
def directory(tmp_path: Path) -> TrainerDirectory:
    """A trainer whose driver (this process) runs on one fragment."""
    made = TrainerDirectory(tmp_path / "t")
    made.path.mkdir()
    write_own_pid(made.driver_pid)
    made.events.write_bytes(STARTED)
    return made


def numbers(value: object) -> Iterator[float]:
    if isinstance(value, (int, float)):
        yield value
    elif isinstance(value, (tuple, frozenset, list)):
        for one in value:
            yield from numbers(one)
    elif dataclasses.is_dataclass(value):
        yield from numbers([getattr(value, it.name) for it in dataclasses.fields(value)])


def texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (tuple, frozenset)):
        for one in value:
            yield from texts(one)


def assert_usable(view: DriverView) -> None:
    """By all that the pilot does with it: arithmetic, the meter, the journal's JSON, the columns of
    SQLite.
    """
    assert all(math.isfinite(it) and abs(it) <= 1e30 for it in numbers(view))
    assert view.samples is None or 0 <= view.samples <= 1e15
    assert 0 <= view.incarnation <= 10**9
    assert view.driver_reported_s <= time.time()
    assert view.rank_0_reported_s <= time.time()
    assert all(
        it.encode() is not None and len(it) <= 2000
        for name in view.__slots__
        for it in texts(getattr(view, name))
    )
    assert sum(len(it) for name in view.__slots__ for it in texts(getattr(view, name))) < 200_000
    measured, _ = TrainerMeter().hear("t", view, 1.0)
    for seen in measured:
        json.loads(codec.dumps(seen), parse_constant=lambda text: pytest.fail(text))


def problems(view: DriverView) -> dict[str, str]:
    return dict(view.refused)


@pytest.mark.parametrize("key", KEYS)
def test_a_value_of_progress_is_used_or_named(directory: TrainerDirectory, key: str) -> None:
    for name, value in VALUES.items():
        directory.progress.write_text(progress(samples=5) + "\n" + progress(**{key: value}) + "\n")
        view = DirectoryLauncher(directory.path.parent, {}).look("t")
        assert_usable(view)
        assert (view.alive, view.ending) == (True, None), name
        is_fine = key == "loss" and name in ("negative", "beyond any bound")
        assert is_fine or view.refused, name
        if key == "samples":
            assert view.samples == 5, name


@pytest.mark.parametrize("file", ["progress", "events"])
def test_what_is_no_line_is_named_and_the_next_line_is_read(
    directory: TrainerDirectory, file: str
) -> None:
    for name, data in NOT_LINES.items():
        directory.progress.write_text("")
        directory.events.write_bytes(STARTED)
        with getattr(directory, file).open("ab") as out:
            out.write(data + b"\n")
        launcher = DirectoryLauncher(directory.path.parent, {})
        for _ in range(6):
            view = launcher.look("t")
        assert_usable(view)
        assert name == "carriage returns" or view.refused, name
        with directory.progress.open("ab") as out:
            out.write(progress(samples=9).encode() + b"\n")
        for _ in range(6):
            view = launcher.look("t")
        assert (view.alive, view.samples) == (True, 9), name


@pytest.mark.parametrize("word", ["event", *hostile_lines.EVENTS])
def test_every_key_of_every_event_is_used_or_named(directory: TrainerDirectory, word: str) -> None:
    for what, line in events():
        if what.startswith((f"{word}.", f"{word}:")) or what == word:
            directory.events.write_bytes(STARTED + line.encode() + b"\n")
            view = DirectoryLauncher(directory.path.parent, {}).look("t")
            assert_usable(view)
            assert view.alive, what


def test_samples_that_nobody_can_have_processed_are_not_used(directory: TrainerDirectory) -> None:
    at_s = time.time() - 10
    lines = [
        progress(time=at_s, samples=5),
        progress(time=at_s + 1, samples=9e14),
        progress(time=at_s + 2, samples=6),
    ]
    directory.progress.write_text("\n".join(lines) + "\n")
    view = DirectoryLauncher(directory.path.parent, {}).look("t")
    assert view.samples == 6
    assert "found 5 and then 9e+14" in problems(view)["progress samples"]


def test_a_time_ahead_of_the_pilots_is_the_pilots(directory: TrainerDirectory) -> None:
    directory.progress.write_text(progress(time=time.time() + 3600.0) + "\n")
    view = DirectoryLauncher(directory.path.parent, {}).look("t")
    assert_usable(view)
    assert view.rank_0_reported_s > time.time() - 60
    assert "s ahead of the pilot's clock" in problems(view)["progress time"]


def made_pipe(path: Path) -> None:
    os.mkfifo(path)


def made_link(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [made_pipe, made_link, Path.mkdir])
@pytest.mark.parametrize("name", ["progress", "events", "driver_pid", "control"])
def test_what_is_no_file_fails_its_trainer_or_is_no_message(
    directory: TrainerDirectory, make: Callable[[Path], None], name: str
) -> None:
    path = getattr(directory, name)
    path.unlink(missing_ok=True)
    make(path)
    view = DirectoryLauncher(directory.path.parent, {}).look("t")
    if name in ("progress", "events"):
        assert (view.ending, view.reason) == (Ending.FAILED, f"{path}: is not a regular file")
    else:
        assert view.alive is (name == "control")


@pytest.mark.parametrize(
    "text", ["[" * 200_000, '{"version": 1, "pid": %s}' % ("9" * 400), "\xff", "NaN"]
)
@pytest.mark.parametrize("name", ["driver_pid", "control"])
def test_a_message_that_is_damaged_is_no_message(
    directory: TrainerDirectory, text: str, name: str
) -> None:
    getattr(directory, name).write_text(text, encoding="latin-1")
    DirectoryLauncher(directory.path.parent, {}).look("t")


@pytest.mark.parametrize("name", ["progress", "events"])
def test_a_line_of_2_gb_takes_no_memory(directory: TrainerDirectory, name: str) -> None:
    """A hole on the disk, but 2 GB to its reader; then a valid line."""
    pid = os.fork()
    if not pid:
        status = 1
        try:
            here = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (here + (256 << 20), resource.RLIM_INFINITY))
            os.truncate(
                getattr(directory, name), 0
            ) if name == "events" else directory.progress.touch()
            launcher = DirectoryLauncher(directory.path.parent, {})
            launcher.look("t")
            with getattr(directory, name).open("ab") as out:
                out.truncate(2 << 30)
            with getattr(directory, name).open("ab") as out:
                out.write(
                    b"\n" + (STARTED if name == "events" else progress(samples=9).encode() + b"\n")
                )
            for _ in range(60):
                view = launcher.look("t")
            status = (
                0 if (view.on if name == "events" else view.samples == 9) and view.refused else 2
            )
        except BaseException as error:
            print(repr(error), file=sys.stderr)
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
