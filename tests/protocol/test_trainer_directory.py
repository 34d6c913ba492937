"""The files of docs/trainer-directory.md: read, rejected, written, followed."""

from __future__ import annotations

import ast
import json
import os
import re
import string
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bftrainer.errors import InputFileError
from bftrainer.progress import Reporter
from bftrainer.system.json_tail import JsonTail
from bftrainer.system.processes import identify, is_alive, this_process
from bftrainer.wires import VERSION
from bftrainer.wires.control import STOPPED_STATUS, ControlRequest, is_stop_requested
from bftrainer.wires.driver_events import _TYPES, DriverEvent, Running
from bftrainer.wires.driver_pid import DriverPid, read_driver_pid, write_own_pid
from bftrainer.wires.hosts_file import HostSlots, format_hosts, parse_hosts
from bftrainer.wires.messages import DriverSettings, TrainerMessage
from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.progress_line import Phase, ProgressLine
from bftrainer.wires.typed_json import read_json, to_fields, write_json
from bftrainer_drivers.common.event_writer import EventWriter

TRAINER = {
    "version": 1,
    "id": "t",
    "command": ["python", "x.py"],
    "cwd": "/",
    "min_nodes": 1,
    "max_nodes": 2,
}
LETTERS = string.ascii_letters + string.digits
NAMES = st.builds(str.__add__, st.sampled_from(LETTERS), st.text(LETTERS + "._-", max_size=9))


@settings(deadline=None)
@given(st.lists(st.tuples(NAMES, st.integers(1, 99), NAMES), unique_by=lambda line: line[0]))
def test_hosts_round_trip(lines: list[tuple[str, int, str]]) -> None:
    hosts = tuple(HostSlots(*line) for line in lines)
    assert parse_hosts(format_hosts(hosts), "hosts") == hosts


def test_each_gpu_of_a_part_is_a_host() -> None:
    text = "a:3:7:1,2,5\nb:1:8:0\nc:4:9\na:1:10:0\n"
    hosts = parse_hosts(text, "hosts")
    assert [host.fragment for host in hosts] == ["7.g1", "7.g2", "7.g5", "8.g0", "9", "10.g0"]
    assert [host.slots for host in hosts] == [1, 1, 1, 1, 4, 1]
    assert format_hosts(hosts) == text


@pytest.mark.parametrize(
    "line",
    [
        "a",
        "a:1",
        "a:2:2:3",
        "a:2:2:3,3",
        "a:1:2:x",
        "a:1:2:",
        "a:1:2.b:3",
        "a:1:2:3:4",
        "a:0:1",
        "a:x:1",
        ":1:1",
        "a:1:",
        "a b:1:1",
        "../a:1:1",
        "a:-1:1",
        "a:1:x/y",
    ],
)
def test_an_invalid_line_is_rejected_with_its_number(line: str) -> None:
    with pytest.raises(InputFileError, match=r"hosts:3: expected host:slots:fragment, or"):
        parse_hosts(f"ok:1:1\n\n{line}\n", "hosts")


def test_a_host_is_listed_once() -> None:
    with pytest.raises(InputFileError, match="hosts:2: host a is listed twice"):
        parse_hosts("a:1:1\na:1:2\n", "hosts")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "version: expected 1, found 2"),
        ({"command": "python"}, "command: expected a list of strings, found 'python'"),
        ({"command": ["python", 1]}, "command: expected a list of strings"),
        ({"cwd": None}, "cwd: missing"),
        ({"min_nodes": True}, "min_nodes: expected an integer, found True"),
        ({"environment": {"A": 1}}, "environment: expected an object of strings"),
        ({"stop_s": "30"}, "stop_s: expected a number"),
    ],
)
def test_errors_in_trainer_json_name_the_key(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    (tmp_path / "trainer.json").write_text(json.dumps(TRAINER | change))
    with pytest.raises(InputFileError, match=re.escape(message)):
        read_json(TrainerMessage, TrainerDirectory(tmp_path).trainer)


@pytest.mark.parametrize("content", ["", "[1]", "{"])
def test_a_file_without_a_json_object_is_rejected(tmp_path: Path, content: str) -> None:
    (tmp_path / "driver.json").write_text(content)
    with pytest.raises(InputFileError, match=r"driver\.json"):
        read_json(DriverSettings, TrainerDirectory(tmp_path).driver)


def test_without_a_request_nobody_stops_and_an_unknown_one_is_not_taken_for_run(
    tmp_path: Path,
) -> None:
    control = TrainerDirectory(tmp_path).control
    assert not is_stop_requested(control)
    control.write_text('{"version": 1, "request": "halt", "number": 1}')
    with pytest.raises(InputFileError, match="'halt'"):
        is_stop_requested(control)


def test_incarnations_count_on(tmp_path: Path) -> None:
    directory = TrainerDirectory(tmp_path)
    assert [directory.new_incarnation() for _ in range(3)] == [1, 2, 3]
    (tmp_path / "logs" / "driver.log").touch()
    (tmp_path / "logs" / "7").mkdir()
    assert directory.new_incarnation() == 8


def test_events_are_whole_lines_with_time_and_incarnation(tmp_path: Path) -> None:
    writer = EventWriter(tmp_path / "events.jsonl", 3, clock=lambda: 12.5)
    tail = JsonTail(tmp_path / "events.jsonl")
    assert tail.read() == []
    writer.write(Running(2, ("1",)))
    writer.close()
    assert tail.read() == [
        {"time": 12.5, "event": "running", "incarnation": 3, "world_size": 2, "fragments": ["1"]}
    ]
    assert tail.read() == []


def test_half_a_line_waits_for_its_end_and_a_torn_one_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    tail = JsonTail(path)
    path.write_bytes(b'{"step": 1}\n{"st')
    assert tail.read() == [{"step": 1}]
    with path.open("ab") as file:
        file.write(b'ep": 2}\n{"step": {"step": 3}\n[4]\n{"step": 5}\n')
    assert tail.read() == [{"step": 2}, {"step": 5}]
    assert JsonTail(path, tail.offset).read() == []


def test_a_file_that_is_read_to_its_end_is_known_without_opening_it(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    tail = JsonTail(path)
    assert not tail.is_read()  # there is none
    path.write_text('{"step": 1}\n')
    assert not tail.is_read()
    assert (tail.read(), tail.is_read()) == ([{"step": 1}], True)
    with path.open("a") as file:
        file.write('{"step": 2}\n')
    assert not tail.is_read()
    assert (tail.read(), tail.is_read()) == ([{"step": 2}], True)
    path.rename(tmp_path / "events.jsonl.1")
    path.write_text('{"step": 3, "a": 0}\n{} \n')  # as long as the other
    assert path.stat().st_size == tail.offset
    assert not tail.is_read()


def test_a_driver_is_told_from_a_later_process_with_its_pid(tmp_path: Path) -> None:
    path = TrainerDirectory(tmp_path).driver_pid
    assert read_driver_pid(path) is None
    assert write_own_pid(path) == os.getpid()
    assert read_driver_pid(path) == this_process()
    written = read_json(DriverPid, path)
    write_json(path, replace(written, start_ticks=written.start_ticks + 1))
    impostor = read_driver_pid(path)
    assert impostor is not None
    assert not is_alive(impostor)
    write_json(path, replace(written, host="another-host"))
    assert read_driver_pid(path) is None
    path.write_text("{}"[:1])
    assert read_driver_pid(path) is None


def test_a_zombie_is_not_alive() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = identify(child.pid)
    assert process is not None
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(process)
    child.wait()


def test_a_long_file_is_renamed_and_every_line_is_still_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bftrainer.progress.reporter.PROGRESS_BYTES", 400)
    report = Reporter({"BFTRAINER_TRAINER_DIR": str(tmp_path)})
    path = tmp_path / "progress.jsonl"
    often, seldom, late = JsonTail(path), JsonTail(path), JsonTail(path)
    seen: list[int] = []
    rare: list[int] = []
    for step in range(40):
        report.step(step=step, samples=step, force=True)
        seen += [line["step"] for line in often.read()]
        if step % 3 == 0:
            rare += [line["step"] for line in seldom.read()]
    assert seen == list(range(40))
    assert rare == list(range(40)), "a reader that comes once in a while misses none"
    assert (tmp_path / "progress.jsonl.1").stat().st_size < 800
    assert len(list(tmp_path.iterdir())) == 2
    assert late.read()[-1]["step"] == 39
    behind = JsonTail(path, offset=10_000)
    assert behind.read()[-1]["step"] == 39, "an offset from before the renaming"


# --- File names and event words of the trainer directory stand in ``bftrainer/wires`` only; its
# page says what is there

CHECKOUT = Path(__file__).parents[2]
PAGE = (CHECKOUT / "docs/trainer-directory.md").read_text()
PRODUCT = [CHECKOUT / name for name in ("bftrainer", "adapters", "replay")]
HOME = CHECKOUT / "bftrainer/wires"
AMBIGUOUS = {"hosts", "control", "leave", "logs"}
"""File names that are words of English too: in other places they may mean something else."""
OTHERS = {
    "bftrainer/console/cli/commands.py": {"logs"},  # a command
    "bftrainer/console/cli/synonyms.py": {"logs"},  # the same
    "bftrainer/pilot/nodes/cluster_view.py": {"hosts"},  # a kind of note
    "adapters/bftrainer_clusters/lsf/text.py": {"hosts"},  # LSF's key
    "adapters/bftrainer_clusters/slurm/text.py": {"failed"},  # a counter of sdiag
    "adapters/bftrainer_clusters/lsf/doctor.py": {"hosts"},  # a check
    "bftrainer/pilot/persistence/registry.py": {
        "running",
        "done",
        "failed",
    },  # a trainer's status in the registry
    "bftrainer/console/client/statuses.py": {"running", "done", "failed"},  # the same
    "bftrainer/console/rehearsal/ranks.py": {"ranks"},  # a check
    "bftrainer/pilot/nodes/poll_schedule.py": {"failed"},  # what a look at the scheduler found
    "bftrainer/pilot/notices.py": {
        "done",
        "failed",
    },  # the notices' own words, which users' programs read
}


def file_names() -> set[str]:
    directory = TrainerDirectory(Path("/t"))
    kinds = [name for name, value in vars(TrainerDirectory).items() if isinstance(value, property)]
    return {getattr(directory, name).name for name in kinds}


def texts(path: Path) -> Iterator[str]:
    """String constants of a module, but for docstrings."""
    tree = ast.parse(path.read_text())
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value


def test_file_names_and_words_stand_in_one_package() -> None:
    names = file_names() | {f"{name}.1" for name in file_names()}
    assert {
        "trainer.json",
        "driver.json",
        "events.jsonl",
        "progress.jsonl",
        "driver.pid",
    } | AMBIGUOUS <= names
    words = {event.value for event in DriverEvent} | {phase.value for phase in Phase}
    # "warm" is a key of driver.json, "started" a column of CSV files; all are in everybody's mouth.
    looked_for = (names | words) - {"warm", "started", "done", "stopped", "busy"} | {"checkpointed"}
    found = {}
    for path in (
        path for root in PRODUCT for path in root.rglob("*.py") if not path.is_relative_to(HOME)
    ):
        there = {
            text
            for text in texts(path)
            if text in looked_for or text.rpartition("/")[2] in names - AMBIGUOUS
        }
        if there - OTHERS.get(str(path.relative_to(CHECKOUT)), set()):
            found[str(path.relative_to(CHECKOUT))] = there
    assert found == {}


def table(section: str) -> dict[str, tuple[str, str]]:
    """Key -> (type, meaning) of a section's table; a row may have several keys."""
    body = PAGE.split(f"## {section}\n")[1].split("\n## ")[0]
    rows = [line.strip("|\n ").split(" | ") for line in body.splitlines() if line.startswith("| `")]
    return {key: (row[1], row[-1]) for row in rows for key in re.findall(r"`(\w+)`", row[0])}


@pytest.mark.parametrize(
    ("section", "kind"), [("`trainer.json`", TrainerMessage), ("`driver.json`", DriverSettings)]
)
def test_the_tables_of_messages_are_the_fields(section: str, kind: type[Any]) -> None:
    found = table(section)
    assert set(found) == {"version", *(it.name for it in fields(kind))}
    for it in fields(kind):
        default = it.default if it.default_factory is MISSING else it.default_factory()
        says = re.search(r"default (?:`([^`]*)`|([^ ]+))$", found[it.name][0])
        if default is MISSING:
            assert says is None, it.name
            assert "optional" not in found[it.name][0], it.name
        elif default is None:
            assert found[it.name][0].endswith("optional"), it.name
        else:
            assert says is not None, it.name
            assert json.loads(says[1] or says[2]) == json.loads(json.dumps(default)), it.name


def test_the_table_of_events_is_the_types() -> None:
    body = PAGE.split("## `events.jsonl`\n")[1].split("\n## ")[0]
    rows = [line.strip("|\n ").split(" | ") for line in body.splitlines() if line.startswith("| `")]
    found = {
        word: re.findall(r"`(\w+)`", row[1])
        for row in rows
        for word in re.findall(r"`(\w+)`", row[0])
    }
    assert found == {word: [it.name for it in fields(kind)] for word, kind in _TYPES.items()}


def test_the_table_of_progress_is_the_type() -> None:
    found = table("`progress.jsonl`")
    assert set(found) == {"time", *ProgressLine._fields} - {"at_s", "formed", "further", "refused"}
    assert re.findall(r'`"(\w+)"`', found["phase"][0]) == [phase.value for phase in Phase]


def test_the_other_files_are_as_the_page_says() -> None:
    assert f'`"version": {VERSION}`' in PAGE
    assert " | ".join(f'"{request.value}"' for request in ControlRequest) in PAGE
    assert f"**{STOPPED_STATUS}**" in PAGE
    keys = ", ".join(
        f'"{key}": ' + ('"..."' if key == "host" else "n") for key in to_fields(DriverPid(1, 1, ""))
    )
    assert f'{{"version": {VERSION}, {keys}}}' in PAGE
    assert (
        f"`{format_hosts([HostSlots('host', 1, 'fragment')]).strip().replace('1', 'slots')}`"
        in PAGE
    )
    for name in file_names() - {"driver.log"}:
        assert f"`{name}" in PAGE, name
