"""The recordings of a real OpenPBS (tests/recorded/openpbs-23.06.06)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "recorded" / "openpbs-23.06.06"


def recorded(name: str) -> str:
    """The text of a recording, as the pilot decodes it."""
    return (FOLDER / name).read_bytes().decode(errors="replace")


def status_of(name: str) -> int:
    """The exit status of a recorded command."""
    rows = (line.split("\t") for line in (FOLDER / "COMMANDS.tsv").read_text().splitlines())
    return next(int(row[4]) for row in rows if row[0] == name)


def as_dsv(name: str) -> str:
    """A recording of ``qstat -f -F json`` as ``-F dsv`` would have printed it; a test compares the two
    where both were recorded.
    """
    document = json.loads(recorded(name), strict=False)
    lines = []
    for id_, job in document.get("Jobs", {}).items():
        pieces = [f"{key}={_escaped(value)}" for key, value in _flat(job)]
        lines.append("|".join((f"Job Id: {id_}", *pieces)) + "\n")
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
