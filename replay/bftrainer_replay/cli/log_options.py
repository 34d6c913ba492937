"""The options for the log that a command reads, and for the part that it uses: LOG, --start,
--hours, --nodes, ...

Use::

    @click.command()
    @log_options
    def command(choice: LogChoice) -> None:
        window = window_of(choice)
"""

from __future__ import annotations

import errno
import functools
import math
import os
import re
import stat
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import click

from bftrainer.console.cli.choices import FILE, with_options
from bftrainer.console.cli.ending import ended_by_signals
from bftrainer.console.cli.output import note
from bftrainer.counted import counted
from bftrainer.errors import InputFileError, UserError
from bftrainer_replay.cli.import_options import NAMES, OPTIONS, TOPICS_OF_IMPORTS, import_options
from bftrainer_replay.cli.sweeping import progress_of_reading
from bftrainer_replay.limited_file import MOST_BYTES
from bftrainer_replay.logs.clock import zone_of
from bftrainer_replay.logs.event_log import format_time, parse_time
from bftrainer_replay.logs.gpus import held_parts
from bftrainer_replay.logs.model import EventLog, LogWindow, restricted_log
from bftrainer_replay.logs.node_list import hashed_sample, read_node_list
from bftrainer_replay.logs.partition import in_partition
from bftrainer_replay.logs.source import ImportOptions

_STDIN = re.compile(r"\S*/bftrainer-\w{8}/stdin")
"""The copy of standard input, which a reader of a page cannot open."""


@dataclass(frozen=True, slots=True)
class LogChoice:
    """The values of the options that choose a log and a window of it, as the user typed them."""

    log: Path
    start: str | None = None
    hours: float | None = None
    nodes: int | None = None
    node_list: Path | None = None
    importing: ImportOptions = field(default_factory=ImportOptions)
    partition: str | None = None


def readable(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Return the value if every log can be opened; raises :class:`InputFileError` for one that
    cannot.

    A click callback, so that this error comes before those of missing options. No log is opened:
    the writer of a pipe would see that its reader has left. ``-`` is standard input.
    """
    # Set while click completes a command line, which must not fail.
    if context.resilient_parsing:
        return value
    for log in value if isinstance(value, tuple) else (value,):
        if log is None or str(log) == "-":
            continue
        if problem := _open_problem(log):
            raise InputFileError(str(log), f"cannot be read: {problem}")
    return value


def _open_problem(log: Path) -> str | None:
    """Return why a file cannot be opened; None if it can."""
    try:
        mode = log.stat().st_mode
    except OSError as error:
        return error.strerror
    if stat.S_ISDIR(mode):
        return os.strerror(errno.EISDIR)
    return None if os.access(log, os.R_OK) else os.strerror(errno.EACCES)


_LOG_ARGUMENT = click.argument(
    "log",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path),
    metavar="LOG...",
    callback=readable,
    is_eager=True,  # before other values are checked
)
_WINDOW_OPTIONS = (
    click.option(
        "--start",
        metavar="ISO",
        help="Start of the window, in UTC (event logs: in the log's own time). Example: "
        "2021-02-10T20:21:15.  "
        "[default: the log's start]",
    ),
    click.option(
        "--hours",
        type=float,
        metavar="H",
        help="Length of the window.  [default: to the end of the log]",
    ),
    click.option(
        "--nodes",
        type=int,
        metavar="N",
        help="Use N nodes only: the first N of --node-list or, without a list, a sample of the "
        "log's nodes "
        "(in order of the SHA-256 of their names).  [default: all]",
    ),
    click.option(
        "--node-list",
        type=FILE,
        help="Use these nodes only: one name per line, including nodes that were never idle.",
    ),
    click.option(
        "--partition",
        metavar="NAME",
        help=(
            "Use the nodes of this partition only, and the jobs that wait for it (job logs "
            "with partitions)."
        ),
    ),
    click.option(
        "--machine-nodes",
        type=int,
        metavar="M",
        help="Number of nodes in the cluster, used to compute idle shares and to place jobs "
        "without node names.  "
        "[default: the number of selected nodes or, without a selection, the number in the log]",
    ),
)


TOPICS_OF_LOGS = {
    "Part of the log": ("--nodes", "--node-list"),
    **TOPICS_OF_IMPORTS,
}
"""The options that only ``--help-all`` lists, by topic."""


def log_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command LOG and its options; the function gets them as ``choice``, a
    :class:`LogChoice`.
    """
    return _with_choice(function, _LOG_ARGUMENT)


def _with_choice(
    function: Callable[..., Any], log_parameter: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a command with ``log_parameter`` and the options of window and import added to it.

    The function gets the values of all of these as one parameter, ``choice``.
    """

    @functools.wraps(function)
    @ended_by_signals()
    def with_choice(
        *,
        log: Path | tuple[Path, ...],
        start: str | None,
        hours: float | None,
        nodes: int | None,
        node_list: Path | None,
        partition: str | None,
        machine_nodes: int | None,
        **others: Any,
    ) -> Any:
        """Call the command's function with these values as one LogChoice."""
        importing = import_options(machine_nodes, {name: others.pop(name) for name in NAMES})
        logs = log if isinstance(log, tuple) else (log,)
        files = [_log_file(path, importing.max_bytes) for path in logs]
        importing = replace(importing, more_files=tuple(files[1:]))
        return function(
            choice=LogChoice(files[0], start, hours, nodes, node_list, importing, partition),
            **others,
        )

    return with_options(log_parameter, *_WINDOW_OPTIONS, *OPTIONS)(with_choice)


def _log_file(log: Path, max_bytes: int | None) -> Path:
    """Return the file of the log; for ``-``, a copy of standard input.

    Logs are read more than once, which standard input cannot be. The copy exists until the program
    ends. Raises :class:`UserError` for more bytes than allowed.
    """
    if str(log) != "-":
        return log
    folder = tempfile.TemporaryDirectory(prefix="bftrainer-", ignore_cleanup_errors=True)
    click.get_current_context().call_on_close(folder.cleanup)
    copy = Path(folder.name) / "stdin"
    remaining_bytes = max_bytes or MOST_BYTES
    with copy.open("wb") as file:
        while piece := sys.stdin.buffer.read(1 << 20):
            file.write(piece)
            remaining_bytes -= len(piece)
            if remaining_bytes < 0:
                raise UserError("standard input has more bytes than --max-bytes allows")
    return copy


def read_log(choice: LogChoice, *, always_totals: bool = False) -> tuple[EventLog, tuple[str, ...]]:
    """Return the whole log with remarks (the number of records, and all guesses of the importer).

    The remarks are also printed to stderr. An event log has nothing to skip or guess: its totals
    are returned only with ``always_totals``. A copy of standard input is called "standard input"
    everywhere.
    """
    from bftrainer_replay.logs.open import open_log

    try:
        with progress_of_reading((choice.log, *choice.importing.more_files)) as on_bytes:
            opened = open_log(choice.log, choice.importing, on_bytes)
    except UserError as error:
        if _STDIN.search(str(error)) is None:
            raise
        raise UserError(_STDIN.sub("standard input", str(error))) from error
    has_totals = always_totals or not opened.is_event_log
    texts = (*opened.totals, *opened.remarks) if has_totals else opened.remarks
    remarks = tuple(_STDIN.sub("standard input", text) for text in texts)
    for remark in remarks:
        note(remark)
    return replace(opened.log, source=_STDIN.sub("standard input", opened.log.source)), remarks


def window_of(choice: LogChoice, *, of_idle_gpus: bool = False) -> LogWindow:
    """Read the log, and return the chosen window of it.

    A log in GPUs gives the window of the slots (parts of nodes) that a pilot holds or, with
    ``of_idle_gpus``, of all idle GPUs; with ``--unit node``, that of nodes all of whose GPUs are
    idle. Raises :class:`UserError`; if the log is shorter than the window, a note on stderr says
    so.
    """
    _check_numbers(choice)
    listed = None if choice.node_list is None else read_node_list(choice.node_list)
    if choice.partition is not None and (listed or choice.nodes):
        raise UserError("--partition cannot be combined with --nodes or --node-list; specify one")
    log, remarks = read_log(choice)
    unit = choice.importing.unit or ("node" if log.gpus is None else "gpu")
    if unit == "gpu":
        _check_gpus(choice, log)
    start_s, end_s = _window_times(choice, log)
    nodes = _chosen_nodes(choice, listed, log)
    if nodes is not None and log.queue is not None:
        remark = "the queue is ignored because only some of the nodes are used"
        note(remark)
        remarks = (*remarks, remark)
    # Nodes that never ran a job of a job log are on neither side of its shares; those of an event
    # log were never idle.
    machine_nodes = choice.importing.machine_nodes if log.site.nodes is None else None
    window = restricted_log(
        log, start_s=start_s, end_s=end_s, nodes=nodes, machine_nodes=machine_nodes
    )
    if choice.partition is not None:
        window = in_partition(window, choice.partition)
    zone = zone_of(choice.importing.timezone)
    # Only times in UTC can be shown in another zone; a log without zones keeps its own clock.
    shown_zone = zone if window.clock == "UTC" and isinstance(zone, ZoneInfo) else None
    window = replace(window, remarks=remarks, zone=shown_zone)
    if window.gpus is None:
        return window
    by_node = replace(window.gpus.by_node, remarks=remarks, zone=shown_zone)
    if unit == "node":
        return by_node
    window = replace(window, gpus=replace(window.gpus, by_node=by_node))
    return window if of_idle_gpus else _held_gpus(window, choice.importing.back_s)


def _check_numbers(choice: LogChoice) -> None:
    """Refuse numbers that no window can have."""
    if choice.hours is not None and not 0 < choice.hours < math.inf:
        raise UserError(f"--hours {choice.hours:g}: expected a number above 0")
    if choice.nodes is not None and choice.nodes < 1:
        raise UserError(f"--nodes {choice.nodes}: expected 1 or more")


def _held_gpus(window: LogWindow, back_s: float) -> LogWindow:
    """Return the slots that a pilot holds of a window in GPUs, with a remark that the unit is a
    GPU.
    """
    remark = "the unit is a GPU: each node of the results is one GPU"
    note(remark)
    return held_parts(replace(window, remarks=(*window.remarks, remark)), back_s)


def _check_gpus(choice: LogChoice, log: EventLog) -> None:
    """Raise :class:`UserError` for options that cannot be combined with a log in GPUs."""
    if log.gpus is None:
        raise UserError(
            f"{choice.log}: is in nodes, so --unit gpu cannot be used; expected an event log "
            "with unit=gpu"
        )
    if choice.partition is not None:
        raise UserError(
            "--partition cannot be combined with --unit gpu; name its nodes with --node-list"
        )
    if choice.importing.machine_nodes is not None:
        raise UserError(
            "--machine-nodes cannot be combined with --unit gpu; specify --gpus-per-node"
        )


def _window_times(choice: LogChoice, log: EventLog) -> tuple[float, float]:
    """Return start and end of the window, which lie inside the log (seconds since 1970).

    By default, they are those of the log; an end after the log's end is moved there, with a note.
    Raises :class:`UserError` for a start outside.
    """
    first_s, last_s = log.events[0].at_s, log.events[-1].at_s
    span = f"{format_time(first_s)} .. {format_time(last_s)}"
    if first_s == last_s:
        raise UserError(
            f"{choice.log}: has only one row ({format_time(first_s)}), expected at least two"
        )
    start_s = first_s
    if choice.start is not None:
        try:
            start_s = parse_time(choice.start)
        except ValueError as error:
            problem = (
                f"--start {choice.start!r:.40} is not ISO 8601, expected a time like "
                f"{format_time(first_s)}"
            )
            raise UserError(problem) from error
        if not first_s <= start_s < last_s:
            raise UserError(f"--start {choice.start} is outside the log, which covers {span}")
    if choice.hours is None:
        return start_s, last_s
    end_s = start_s + choice.hours * 3600
    if end_s > last_s:
        covered_h = (last_s - start_s) / 3600
        note(
            f"the log ends at {format_time(last_s)}; using {covered_h:.2f} h instead of "
            f"{choice.hours:g} h"
        )
    return start_s, min(end_s, last_s)


def _chosen_nodes(
    choice: LogChoice, listed: tuple[str, ...] | None, log: EventLog
) -> tuple[str, ...] | None:
    """Return the names of the nodes that --nodes and --node-list choose; None for all nodes.

    ``listed`` is the content of --node-list, of which --nodes takes the first ones; without a list,
    --nodes takes a sample by the hashes of the names. Raises :class:`UserError` for more nodes than
    there are, or a list without any node of the log.
    """
    if listed is None and choice.nodes is None:
        return None
    log_nodes = log.nodes() if log.gpus is None else tuple(log.gpus.per_node)
    names = log_nodes if listed is None else listed
    count = len(names) if choice.nodes is None else choice.nodes
    if count > len(names):
        where = choice.log if listed is None else choice.node_list
        raise UserError(f"--nodes {count}: {where} has only {counted(len(names), 'node')}")
    if listed is None:
        return hashed_sample(log_nodes, count)
    if set(log_nodes).isdisjoint(listed[:count]):
        raise UserError(
            f"none of the {counted(count, 'node')} of {choice.node_list} is in {choice.log}; "
            f"its nodes have names like {log_nodes[0] if log_nodes else '(none)'}, the list has "
            f"names like {listed[0]}"
        )
    return listed[:count]
