"""The results of a sweep as tables: CSV, and Parquet where pyarrow is installed."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from bftrainer_replay.sweep.results import SweepRow, as_dict


def as_csv(rows: Sequence[SweepRow]) -> bytes:
    """Return a CSV table with a row per cell, in the order of the grid; the same bytes on every
    machine.
    """
    text = io.StringIO(newline="")
    tables = [as_dict(row) for row in rows]
    writer = csv.DictWriter(text, list(tables[0]) if tables else (), lineterminator="\n")
    writer.writeheader()
    writer.writerows(tables)
    return text.getvalue().encode()


def as_parquet(rows: Sequence[SweepRow]) -> bytes | None:
    """Return the table of :func:`as_csv` in Parquet; None without pyarrow.

    A column with numbers and ``auto`` is text.
    """
    if find_spec("pyarrow") is None:
        return None
    arrow: Any = import_module("pyarrow")
    parquet: Any = import_module("pyarrow.parquet")
    columns: dict[str, list[object]] = {}
    for row in rows:
        for name, value in as_dict(row).items():
            columns.setdefault(name, []).append(value)
    sink = io.BytesIO()
    parquet.write_table(
        arrow.table({name: _uniform_column(values) for name, values in columns.items()}), sink
    )
    return sink.getvalue()


def _uniform_column(values: list[object]) -> list[object]:
    """Return the values of a column in one type: as they are, or as text if their types differ."""
    kinds = set(map(type, values)) - {type(None)}
    if len(kinds) <= 1 or kinds == {int, float}:
        return values
    return list(map(_as_text, values))


def _as_text(value: object) -> str | None:
    return None if value is None else str(value)
