"""The right part of ``bftrainer top`` on a large screen: nodes by trainer over time, and the chosen trainer. Pure."""

from __future__ import annotations

from bftrainer.cli.output import clock_time, length
from bftrainer.cli.top.board import HISTORY_S, Board, TrainerRow
from bftrainer.cli.top.text import Glyphs, cut, number
from bftrainer.client.history import Progress
from bftrainer.persistence.registry import TrainerRecord

FROM_WIDTH, FROM_HEIGHT = 130, 30
"""A smaller screen has no such part."""
WIDTH = 56
_NAME = 16
_DETAILS = 14


def pane(board: Board, chosen: str | None, latest: Progress | None, height: int, marks: Glyphs) -> list[str]:
    """At most ``height`` lines of ``WIDTH`` characters: trainers with most nodes first, then the chosen one."""
    rows = board.rows(ended=True)
    details = [] if chosen is None else _details(board, chosen, {row.name: row for row in rows}.get(chosen), latest)
    details = details[: max(height - 4, 0)]
    return [*_nodes(board, height - len(details) - 1, marks), "", *details]


def _nodes(board: Board, height: int, marks: Glyphs) -> list[str]:
    """One line per trainer that had nodes in the last minutes, on one scale."""
    series = board.shares(WIDTH - _NAME - 6)
    most = max((n for line in series.values() for n in line), default=0) or 1
    top = len(marks.levels) - 1
    ranked = sorted(series, key=lambda name: (-series[name][-1], -max(series[name]), name))
    room = max(height - 1, 0)
    shown, rest = (ranked, 0) if len(ranked) <= room else (ranked[: max(room - 1, 0)], len(ranked) - max(room - 1, 0))
    lines = [f"nodes by trainer, last {HISTORY_S / 60:.0f} min"]
    for name in shown:
        drawn = "".join(marks.levels[0 if n <= 0 else max(1, round(top * n / most))] for n in series[name])
        lines.append(f"{cut(name, _NAME - 1):<{_NAME}}{series[name][-1]:>4}  {drawn}".rstrip())
    return lines + [f"and {rest} more"] * bool(rest)


def _details(board: Board, name: str, row: TrainerRow | None, latest: Progress | None) -> list[str]:
    record = next((it for it in board.last.trainers if it.name == name), None)
    if row is None or record is None:
        return [cut(name, WIDTH), "submitted; not read by a pilot yet"]
    facts = [*_facts(row, record), *_reported(latest)]
    lines = [cut(f"{key:<{_DETAILS}}{text}", WIDTH) for key, text in facts if text]
    return [cut(name, WIDTH), *lines]


def _facts(row: TrainerRow, record: TrainerRecord) -> list[tuple[str, str]]:
    spec, lost_node_h = record.spec, (record.stalled_node_s + record.repeated_node_s) / 3600
    return [
        ("status", row.status),
        ("remark", row.remark),
        ("group", spec.group or ""),
        ("parameters", " ".join(f"{key}={value}" for key, value in spec.parameters.items())),
        ("nodes", f"{row.nodes} of {spec.min_nodes} to {spec.max_nodes}"),
        ("samples/s", "" if row.per_s is None else number(row.per_s)),
        ("samples", f"{row.samples:,.0f}" + (f" of {spec.samples_total:,.0f}" if spec.samples_total else "")),
        ("left", "" if row.left_s is None else length(row.left_s)),
        ("started", clock_time(record.started_s)),
        (
            "node-hours",
            f"{record.held_node_s / 3600:,.2f}; {lost_node_h:,.2f} of them stalled or repeated",
        ),
    ]


def _reported(latest: Progress | None) -> list[tuple[str, str]]:
    if latest is None:
        return []
    metrics = " ".join(f"{key}={value:.4g}" for key, value in latest.metrics.items())
    return [
        ("step", "" if latest.step is None else f"{latest.step:,}"),
        ("loss", "" if latest.loss is None else f"{latest.loss:.4g}"),
        ("metrics", metrics),
    ]
