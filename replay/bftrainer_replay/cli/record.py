"""``bftrainer record``: records the idle nodes of a live cluster as an event log. It only reads the
scheduler.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer.console.cli.choices import DIR, FILE, SCHEDULER
from bftrainer.console.cli.output import note
from bftrainer.counted import counted
from bftrainer.errors import BFTrainerError, CommandError, SchedulerError, UserError
from bftrainer.slots import Grain
from bftrainer.system.printable import printable

_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_LENGTH = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)([smhd]?)", re.ASCII)


def seconds(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """Return the value of an option with a duration in seconds: "5m" is 300; None without the
    option.

    Raises :class:`UserError` for anything that is not a number above 0 with an optional unit (s, m,
    h, d).
    """
    if text is None:
        return None
    match = _LENGTH.fullmatch(text.strip())
    value = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    if not value > 0:
        raise UserError(
            f"{parameter.opts[0]} {text!r:.40}: expected a duration above 0, like 10s, 5m, 2h or 2d"
        )
    return value


if TYPE_CHECKING:
    from bftrainer_replay.recording.cluster_recorder import RecordingTotals

_ASK_NO_MORE_THAN_S = 10.0
_KEPT_AT_MOST = 20
_WHOLE_SECONDS = 2.0


@click.command()
@click.option(
    "--scheduler", type=SCHEDULER, default="slurm", help="The batch scheduler: slurm, lsf or pbs."
)
@click.option(
    "--for",
    "for_",
    callback=seconds,
    metavar="TIME",
    help="Stop after this time, like 30m, 12h or 2d.  [default: never]",
)
@click.option("--every", default="10s", callback=seconds, metavar="TIME", help="Polling interval.")
@click.option(
    "--config",
    type=FILE,
    help="The pilot's configuration file; the command uses [slurm], [lsf] or [pbs], and [nodes] to "
    "select nodes.  "
    "[default: all nodes]",
)
@click.option(
    "--unit",
    type=click.Choice(["node", "gpu"]),
    help="Record idle nodes, or the idle GPUs of all nodes (Slurm).  [default: node]",
)
@click.option(
    "--slots-per-node",
    type=int,
    metavar="N",
    help="Slots per host, for LSF without --config.  [default: the most common slot count]",
)
@click.option(
    "--keep",
    type=DIR,
    metavar="FOLDER",
    help="Directory for scheduler output that cannot be parsed.  [default: OUT.answers]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the totals as one JSON object.")
@click.option("--out", default="idle.csv", type=FILE, help="Event log to write or continue (.csv).")
def record(
    scheduler: str,
    for_: float | None,
    every: float,
    config: Path | None,
    unit: str | None,
    slots_per_node: int | None,
    keep: Path | None,
    as_json: bool,
    out: Path,
) -> None:
    """Record which idle nodes of a live cluster a pilot could use, for `replay` and `advise`.

    The command polls the scheduler as the pilot does and holds no nodes; any user may run it. FILE
    grows row by row. You can stop the command at any time and run it again to resume. Time without
    data becomes a gap.

    \b
    Example:
      bftrainer record --for 7d --out idle.csv
      bftrainer record --scheduler lsf --for 10m --out idle.csv
    """
    from bftrainer.cluster.site_plugin import observed_site
    from bftrainer.config.pilot import PilotConfig, read_config
    from bftrainer.system.clock import SystemClock
    from bftrainer.system.signals import Signals
    from bftrainer_replay.recording.cluster_recorder import ClusterRecorder
    from bftrainer_replay.recording.file import RecordFile
    from bftrainer_replay.recording.samples import sample_of

    if every < 1:
        raise UserError(
            f"--every {every:g}s: expected 1 s or more, because every poll runs several "
            "scheduler commands"
        )
    if slots_per_node is not None and slots_per_node < 1:
        raise UserError(f"--slots-per-node {slots_per_node}: expected 1 or more")
    if unit == "gpu" and scheduler != "slurm":
        raise UserError(
            f"--unit gpu: {scheduler} does not tell the idle GPUs of a node; expected "
            "--scheduler slurm"
        )
    pilot, by_gpu = None if config is None else read_config(config), unit == "gpu"
    if by_gpu:
        pilot = pilot or PilotConfig()
        pilot = pilot.model_copy(
            update={"nodes": pilot.nodes.model_copy(update={"unit": Grain.GPU})}
        )
    clock = SystemClock()
    kept = UnparsedOutput(keep or out.with_name(f"{out.name}.answers"), scheduler)
    try:
        site = observed_site(scheduler, pilot, str(config), clock, slots_per_node)
    except SchedulerError as error:
        raise SchedulerError(f"{error}{kept.keep(error)}") from error
    for remark in site.remarks:
        note(remark)
    if every < _ASK_NO_MORE_THAN_S:
        note(
            f"polling every {every:g} s; for long recordings, use 10 s or more to reduce the "
            "load on the scheduler"
        )
    with (
        closing(RecordFile(out, by_gpu)) as file,
        Signals().caught() as signals,
        _status_line(out, unit) as show,
    ):
        if file.truncated_bytes:
            note(
                f"{out}: removed an incomplete last line of {counted(file.truncated_bytes, 'byte')}"
            )
        recorder = ClusterRecorder(
            site.scheduler,
            lambda seen: sample_of(seen, site.ours, site.chosen(seen.nodes), by_gpu),
            file,
            clock,
            every,
            # Without an answer for so long, what happened in between is unknown: a gap of the log.
            unknown_after_s=max(60.0, 6 * every),
            on_error=kept.report,
        )
        totals = recorder.run(
            math.inf if for_ is None else for_, lambda: signals.ends or signals.reloads, show
        )
    _sum_up(out, totals, as_json, every, unit)


class UnparsedOutput:
    """Reports each new failure once, and keeps scheduler output that could not be parsed."""

    def __init__(self, folder: Path, scheduler: str) -> None:
        self._folder = folder
        self._scheduler = scheduler
        self._count = 0

    def report(self, error: BFTrainerError, totals: RecordingTotals) -> None:
        """Print the error of a failed poll, once for each new one. Raises :class:`UserError` if a
        command has been missing from the start.
        """
        if (
            # No poll has succeeded: the scheduler's commands are not installed on this host.
            totals.polls == totals.failed
            and isinstance(error, CommandError)
            and error.problem == "not found"
        ):
            raise UserError(f"{error}; run this on a login node of the cluster") from error
        if isinstance(error, CommandError):
            note(
                f"poll failed: {printable(error.brief)} (does the scheduler answer on this host? "
                "`bftrainer doctor` says more; Ctrl-C ends the recording)"
            )
        else:
            note(f"poll failed: {printable(str(error))}{self.keep(error)}")

    def keep(self, error: BFTrainerError) -> str:
        """Write the scheduler's output that could not be parsed to a file; return a hint to the
        file.

        The hint is in parentheses; empty if the error has no output, or enough of it has been kept.
        """
        answer = error.answer if isinstance(error, SchedulerError) else None
        if answer is None or self._count >= _KEPT_AT_MOST:
            return ""
        (argv, text), self._count = answer, self._count + 1
        path = self._folder / f"{self._scheduler}-{argv[0]}-{self._count}.txt"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            path.write_text(f"$ {' '.join(argv)}\n{text}", encoding="utf-8")
        except OSError as problem:
            raise UserError(
                f"--keep {self._folder}: cannot be written: {problem.strerror}"
            ) from problem
        return f" (please report this as an issue and attach {path})"


@contextmanager
def _status_line(out: Path, unit: str | None) -> Iterator[Callable[[RecordingTotals], None]]:
    """Yield a function that shows the totals of a recording in one line that is updated in place.

    Without a terminal, it shows nothing.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(f"{out}: polling") as status:
        yield lambda totals: status.update(f"{out}: {_summary_line(totals, unit)}")


def _summary_line(totals: RecordingTotals, unit: str | None) -> str:
    """Return one line on how many polls, failures, rows and gaps there were, and what was idle
    last.
    """
    at = (
        "never"
        if totals.at_s is None
        else datetime.fromtimestamp(totals.at_s, UTC).strftime("%F %T UTC")
    )
    idle = (
        f"{totals.idle:,} of {totals.machine_nodes:,} "
        f"{'GPUs' if unit == 'gpu' else 'nodes'} idle at the last poll ({at})"
    )
    return (
        f"{counted(totals.polls, 'poll')}, {totals.failed:,} failed, "
        f"{counted(totals.rows, 'row')}, "
        f"{counted(totals.gaps, 'gap')}; {idle}"
    )


def _sum_up(
    out: Path, totals: RecordingTotals, as_json: bool, every_s: float, unit: str | None
) -> None:
    """Print what was recorded; raises :class:`SchedulerError` if every poll failed."""
    # Slurm's times are whole seconds: two polls may have the same time.
    if totals.stale and every_s >= _WHOLE_SECONDS:
        note(
            f"{counted(totals.stale, 'poll was', 'polls were')} ignored because the "
            "scheduler's time had "
            f"not advanced since the previous poll"
        )
    if totals.hidden:
        note("the site hides other users' jobs (PrivateData): the recorded log has no waiting jobs")
    if as_json:
        # Not asdict, which makes a Counter of pairs of a Counter (Python 3.11).
        values = {field.name: getattr(totals, field.name) for field in dataclasses.fields(totals)}
        values["hidden"] = sorted(kind.value for kind in totals.hidden)
        click.echo(json.dumps({"out": str(out), **values}))
    else:
        click.echo(f"{out}: {_summary_line(totals, unit)}")
    if totals.polls == totals.failed:
        raise SchedulerError(
            f"{out}: all {counted(totals.polls, 'poll')} failed"
            if totals.polls
            else f"{out}: stopped before the first poll"
        )
