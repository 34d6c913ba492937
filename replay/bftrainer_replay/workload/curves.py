"""Throughput curves: Table 2 of the paper, built in, and curve files
(``model,nodes_1,nodes_2,...``).

A curve file may have a column ``node_type``, which says on what nodes each model was measured.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from bftrainer.decide.domain.model import Curve
from bftrainer.errors import InputFileError, InvalidValueError, UnknownNameError
from bftrainer.system.printable import printable
from bftrainer_replay.csv_tables import read_table

_TABLE_2_NODES = (1, 2, 4, 8, 16, 32, 64)
# Paper, Table 2: ImageNet models on Summit, thousands of samples per second, minibatch 32 per GPU
# (6 per node).
_TABLE_2 = {
    "alexnet": (7.1, 13.1, 21.1, 40.5, 74.0, 130.8, 202.1),
    "resnet18": (5.2, 10.6, 20.4, 39.6, 78.0, 144.8, 262.7),
    "mnasnet": (3.2, 6.0, 11.5, 23.1, 43.9, 83.5, 160.5),
    "mobilenets": (3.0, 5.9, 11.4, 22.0, 42.5, 82.3, 155.2),
    "shufflenet": (2.8, 5.3, 10.0, 20.4, 38.9, 74.1, 145.1),
    "vgg16": (1.2, 2.4, 4.7, 9.3, 18.3, 36.2, 70.2),
    "densenet": (1.0, 2.0, 3.8, 7.6, 15.0, 28.8, 57.8),
}
_ALIASES = {
    "mnasnet1": "mnasnet",
    "mnasnet10": "mnasnet",
    "mobilenet": "mobilenets",
    "mobilenetv2": "mobilenets",
}
_NODE_TYPE = "node_type"
TABLE_2_NODES = "Summit nodes with six V100 GPUs each"
_COLUMN = re.compile(r"nodes_(\d{1,7})", re.ASCII)

TABLE_2: Mapping[str, Curve] = {
    model: Curve(_TABLE_2_NODES, tuple(1000.0 * value for value in row))
    for model, row in _TABLE_2.items()
}


def best_rate_per_node(curve: Curve) -> float:
    """Return the samples per second and node at the most efficient size."""
    return max(rate / nodes for nodes, rate in zip(curve.nodes, curve.per_s, strict=True))


def plain_name(model: str) -> str:
    """Return a model's name in lower case without punctuation (VGG-16 -> vgg16); the model names in
    the authors' files become the names of the paper.
    """
    plain = re.sub(r"[^a-z0-9]", "", model.lower())
    return _ALIASES.get(plain, plain)


def find_curve(model: str, curves: Mapping[str, Curve]) -> Curve:
    """Return the curve of a model; raises :class:`UnknownNameError`, which lists all models."""
    curve = curves.get(plain_name(model))
    if curve is None:
        raise UnknownNameError("model", model, curves)
    return curve


def read_curves(path: Path) -> dict[str, Curve]:
    """Return the curves of a file by model.

    The file has a row per model and a column per node count, with samples per second in its cells;
    empty cells were not measured. Raises :class:`InputFileError`.
    """
    header, rows = read_table(path)
    columns: dict[int, str] = {}  # by node count
    for column in header[1:]:
        if column == _NODE_TYPE:
            continue
        match = _COLUMN.fullmatch(column)
        if match is None:
            raise InputFileError(
                f"{path}:1", f"unknown column {column!r:.60}, expected model, nodes_1, nodes_2, ..."
            )
        node_count = int(match.group(1))
        if node_count in columns:
            raise InputFileError(
                f"{path}:1",
                f"columns {columns[node_count]} and {column} are the same node count",
            )
        columns[node_count] = column
    if header[:1] != ["model"] or not columns:
        header_text = printable(",".join(header))
        raise InputFileError(
            f"{path}:1", f"columns are {header_text:.200}, expected model,nodes_1,nodes_2,..."
        )
    curves: dict[str, Curve] = {}
    for row in rows:
        name = plain_name(row.text("model"))
        if name in curves:
            raise InputFileError(
                row.where, f"duplicate model {row.text('model')!r}, expected one row per model"
            )
        # Models may be measured on different node counts.
        points = [
            (node_count, row.number(column))
            for node_count, column in columns.items()
            if row.cells[column].strip()
        ]
        if points and points[0][0] == 0:  # column nodes_0, which a curve does not have
            if points[0][1] != 0:
                raise InputFileError(
                    row.where, f"nodes_0 is {points[0][1]:g}, expected 0: no nodes, no samples"
                )
            points = points[1:]
        try:
            curves[name] = Curve(
                tuple(node_count for node_count, _ in points), tuple(rate for _, rate in points)
            )
        except InvalidValueError as error:
            raise InputFileError(row.where, str(error)) from error
    return curves


def node_types(path: Path) -> tuple[str, ...]:
    """Return the types of node in a curve file, each once; empty without a column node_type."""
    header, rows = read_table(path)
    if _NODE_TYPE not in header:
        return ()
    types = [printable(row.text(_NODE_TYPE)) for row in rows if row.cells[_NODE_TYPE].strip()]
    return tuple(dict.fromkeys(types))
