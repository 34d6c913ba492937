"""The speed at each size in a rehearsal, as a row of a curves file
(``model,node_type,nodes_1,nodes_2,...``) for replays.
"""

from __future__ import annotations

import csv
import io
import os
import platform
import statistics
from collections.abc import Mapping
from pathlib import Path

from bftrainer.console.rehearsal.record import Record, is_whole, stretches
from bftrainer.errors import InputFileError
from bftrainer.system.files import write_atomically

_NAMED = ("model", "node_type")
_SIZE_PREFIX = "nodes_"


def speeds(record: Record, slots: int) -> dict[int, float]:
    """Return the samples per second by number of nodes, with ``slots`` workers a node.

    Each is the median over the stretches at that size, without their first steps. Stretches of
    fewer than three lines, or without samples, do not count.
    """
    rates_by_nodes: dict[int, list[float]] = {}
    for part in stretches(record.lines):
        lines = part.lines[1:]  # the first step compiles, or waits for data
        nodes, remainder = divmod(part.world_size, slots)
        has_samples = all(is_whole(line.get("samples")) for line in lines)
        if len(lines) < 2 or remainder or not has_samples:
            continue
        passed_s = float(lines[-1]["time"]) - float(lines[0]["time"])
        samples = lines[-1]["samples"] - lines[0]["samples"]
        if passed_s > 0 and samples > 0:
            rates_by_nodes.setdefault(nodes, []).append(samples / passed_s)
    return {nodes: statistics.median(rates) for nodes, rates in sorted(rates_by_nodes.items())}


def this_node() -> str:
    """The type of this host, if the user does not name it."""
    return f"{platform.node() or 'this host'}: {os.cpu_count()} processors, {platform.machine()}"


def add_curve(path: Path, model: str, node_type: str, rates: Mapping[int, float]) -> None:
    """Write the row of a model to a curves file, in the place of an earlier one of that model;
    other rows stay. ``rates`` are samples per second by number of nodes.

    Raises ``InputFileError`` if the file is no curves file.
    """
    rows = _rows_by_model(path)
    rows[model] = {
        "model": model,
        "node_type": node_type,
        **{f"{_SIZE_PREFIX}{nodes}": f"{rate:.6g}" for nodes, rate in rates.items()},
    }
    size_columns = sorted(
        {name for row in rows.values() for name in row} - set(_NAMED),
        key=lambda name: int(name.removeprefix(_SIZE_PREFIX)),
    )
    text = io.StringIO()
    table = csv.DictWriter(text, (*_NAMED, *size_columns), lineterminator="\n")
    table.writeheader()
    table.writerows(rows.values())
    write_atomically(path, text.getvalue().encode())


def _rows_by_model(path: Path) -> dict[str, dict[str, str]]:
    """Read the rows of a curves file by model; none if there is no file yet.

    Raises ``InputFileError`` if it is no curves file.
    """
    if not path.exists():
        return {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            table = csv.DictReader(file, strict=True)
            rows: dict[str, dict[str, str]] = {}
            for row in table:
                cells = {name: row[name] or "" for name in row if name is not None}
                rows[row["model"]] = cells
            names = set(table.fieldnames or ()) - set(_NAMED)
    except (KeyError, UnicodeDecodeError, csv.Error) as error:
        raise InputFileError(
            str(path), "is no curves file, expected the columns model,nodes_1,nodes_2,..."
        ) from error
    if not all(map(_is_size_column, names)):
        raise InputFileError(
            str(path), "is no curves file, expected the columns model,nodes_1,nodes_2,..."
        )
    return rows


def _is_size_column(name: str) -> bool:
    """Whether the name is ``nodes_`` and a number of at most seven digits."""
    digits = name.removeprefix(_SIZE_PREFIX)
    return name.startswith(_SIZE_PREFIX) and digits.isdecimal() and len(digits) < 8
