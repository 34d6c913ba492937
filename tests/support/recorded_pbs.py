"""The recordings of a real OpenPBS (tests/recorded/openpbs-23.06.06)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "recorded" / "openpbs-23.06.06"


def recorded(name: str) -> str:
    """The text of a recording, as the pilot decodes it."""
    return (FOLDER / name).read_bytes().decode(errors="replace")


@dataclass(frozen=True, slots=True)
class RecordedCommand:
    """A command that was recorded: the file of its output, its exit status, its words as shell text."""

    file: str
    status: int
    argv: str


def recorded_commands() -> list[RecordedCommand]:
    """All commands, also those of which no parser reads the output."""
    _, *lines = (FOLDER / "COMMANDS.tsv").read_text().splitlines()
    rows = [line.split("\t") for line in lines]
    return [RecordedCommand(row[0], int(row[4]), row[5].strip()) for row in rows]


def status_of(name: str) -> int:
    """The exit status of a recorded command."""
    return next(command.status for command in recorded_commands() if command.file == name)


def as_dsv(name: str) -> str:
    """A recording of ``qstat -f -F json`` as ``-F dsv`` would have printed it; a test compares the two
    where both were recorded.
    """
    return _records_as_dsv(name, "Jobs", "Job Id")


def queues_as_dsv(name: str) -> str:
    """A recording of ``qstat -Qf -F json`` as ``-F dsv`` would have printed it."""
    return _records_as_dsv(name, "Queue", "Queue")


def _records_as_dsv(name: str, key: str, title: str) -> str:
    document = json.loads(recorded(name), strict=False)
    lines = []
    for id_, record in document.get(key, {}).items():
        pieces = [f"{key}={_escaped(value)}" for key, value in _flat(record)]
        lines.append("|".join((f"{title}: {id_}", *pieces)) + "\n")
    return "".join(lines)


def _flat(job: dict[str, Any]) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for key, value in job.items():
        if key == "Variable_List":
            pairs.append((key, ",".join(f"{k}={v}" for k, v in value.items())))
        elif isinstance(value, dict):
            pairs += [(f"{key}.{inner}", str(each)) for inner, each in value.items()]
        else:
            pairs.append((key, str(value)))
    return pairs


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", "\\n")
