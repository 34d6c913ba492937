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
    """A row per cell, in the order of the grid; the same bytes on every machine."""
    text = io.StringIO(newline="")
    tables = [as_dict(row) for row in rows]
    writer = csv.DictWriter(text, list(tables[0]) if tables else (), lineterminator="\n")
    writer.writeheader()
    writer.writerows(tables)
    return text.getvalue().encode()


def as_parquet(rows: Sequence[SweepRow]) -> bytes | None:
    """The same table; None without pyarrow. Numbers are double where a cell has ``auto``, too."""
    if find_spec("pyarrow") is None:
        return None
    arrow: Any = import_module("pyarrow")
    parquet: Any = import_module("pyarrow.parquet")
    tables = [as_dict(row) for row in rows]
    columns = {name: [table[name] for table in tables] for name in (tables[0] if tables else {})}
    for name, values in columns.items():
        if len({type(value) for value in values if value is not None}) > 1:
            columns[name] = [None if value is None else str(value) for value in values]
    sink = io.BytesIO()
    parquet.write_table(arrow.table(columns), sink)
    return sink.getvalue()
