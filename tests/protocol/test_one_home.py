"""File names and event words of the trainer directory stand in ``bftrainer/protocol`` only; its page says what is there."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

from bftrainer.protocol import VERSION
from bftrainer.protocol.control import STOPPED_STATUS, ControlRequest
from bftrainer.protocol.driver_pid import DriverPid
from bftrainer.protocol.events import _TYPES, DriverEvent
from bftrainer.protocol.hosts import HostSlots, format_hosts
from bftrainer.protocol.messages import DriverSettings, TrainerMessage
from bftrainer.protocol.paths import TrainerDirectory
from bftrainer.protocol.progress_line import Phase, ProgressLine
from bftrainer.protocol.typed_json import to_fields

CHECKOUT = Path(__file__).parents[2]
PAGE = (CHECKOUT / "docs/trainer-directory.md").read_text()
PRODUCT = [CHECKOUT / name for name in ("bftrainer", "adapters", "replay")]
HOME = CHECKOUT / "bftrainer/protocol"
NAMES = {"hosts", "control", "leave", "logs"}
"""File names that are words of English too: in other places they may mean something else."""
OTHERS = {
    "bftrainer/cli/commands.py": {"logs"},  # a command
    "bftrainer/live/nodes/cluster_view.py": {"hosts"},  # a kind of note
    "adapters/bftrainer_adapters/lsf/text.py": {"hosts"},  # LSF's key
    "adapters/bftrainer_adapters/lsf/doctor.py": {"hosts"},  # a check
    "bftrainer/persistence/registry.py": {"running", "done", "failed"},  # a trainer's status in the registry
    "bftrainer/client/statuses.py": {"running", "done", "failed"},  # the same
    "bftrainer/rehearsal/ranks.py": {"ranks"},  # a check
    "bftrainer/live/nodes/poll_schedule.py": {"failed"},  # what a look at the scheduler found
    "bftrainer/live/notices.py": {"done", "failed"},  # the notices' own words, which users' programs read
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
    assert {"trainer.json", "driver.json", "events.jsonl", "progress.jsonl", "driver.pid"} | NAMES <= names
    words = {event.value for event in DriverEvent} | {phase.value for phase in Phase}
    # "warm" is a key of driver.json, "started" a column of CSV files; all are in everybody's mouth.
    looked_for = (names | words) - {"warm", "started", "done", "stopped", "busy"} | {"checkpointed"}
    found = {}
    for path in (path for root in PRODUCT for path in root.rglob("*.py") if not path.is_relative_to(HOME)):
        there = {text for text in texts(path) if text in looked_for or text.rpartition("/")[2] in names - NAMES}
        if there - OTHERS.get(str(path.relative_to(CHECKOUT)), set()):
            found[str(path.relative_to(CHECKOUT))] = there
    assert found == {}


def table(section: str) -> dict[str, tuple[str, str]]:
    """Key -> (type, meaning) of a section's table; a row may have several keys."""
    body = PAGE.split(f"## {section}\n")[1].split("\n## ")[0]
    rows = [line.strip("|\n ").split(" | ") for line in body.splitlines() if line.startswith("| `")]
    return {key: (row[1], row[-1]) for row in rows for key in re.findall(r"`(\w+)`", row[0])}


@pytest.mark.parametrize(("section", "kind"), [("`trainer.json`", TrainerMessage), ("`driver.json`", DriverSettings)])
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
    found = {word: re.findall(r"`(\w+)`", row[1]) for row in rows for word in re.findall(r"`(\w+)`", row[0])}
    assert found == {word: [it.name for it in fields(kind)] for word, kind in _TYPES.items()}


def test_the_table_of_progress_is_the_type() -> None:
    found = table("`progress.jsonl`")
    assert set(found) == {"time", *ProgressLine._fields} - {"at_s", "formed", "further", "refused"}
    assert re.findall(r'`"(\w+)"`', found["phase"][0]) == [phase.value for phase in Phase]


def test_the_other_files_are_as_the_page_says() -> None:
    assert f'`"version": {VERSION}`' in PAGE
    assert " | ".join(f'"{request.value}"' for request in ControlRequest) in PAGE
    assert f"**{STOPPED_STATUS}**" in PAGE
    keys = ", ".join(f'"{key}": ' + ('"..."' if key == "host" else "n") for key in to_fields(DriverPid(1, 1, "")))
    assert f'{{"version": {VERSION}, {keys}}}' in PAGE
    assert f"`{format_hosts([HostSlots('host', 1, 'fragment')]).strip().replace('1', 'slots')}`" in PAGE
    for name in file_names() - {"driver.log"}:
        assert f"`{name}" in PAGE, name
