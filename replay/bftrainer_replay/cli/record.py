"""``bftrainer record``: what a live cluster leaves idle, as an event log. It only looks."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer.errors import BFTrainerError, CommandError, SchedulerError, UserError
from bftrainer_replay.cli.durations import seconds

if TYPE_CHECKING:
    from bftrainer_replay.recording.recorder import RecordingTotals

_ASK_NO_MORE_THAN_S = 10.0
_KEPT_AT_MOST = 20
_WHOLE_SECONDS = 2.0


@click.command()
@click.option("--scheduler", default="slurm", show_default=True, metavar="NAME", help="slurm or lsf.")
@click.option(
    "--for", "for_", callback=seconds, metavar="TIME", help="Stop after 30m, 12h, 2d ...  [default: on SIGTERM]"
)
@click.option("--every", default="10s", show_default=True, callback=seconds, metavar="TIME", help="Between two looks.")
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The pilot's configuration: [slurm] or [lsf], and which nodes of [nodes] to record.  [default: all nodes]",
)
@click.option("--slots-per-node", type=int, metavar="N", help="LSF without --config.  [default: what most hosts have]")
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Answers of the scheduler that are not understood go here.  [default: OUT.answers]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the totals as one JSON object.")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="An event log."
)
def record(
    scheduler: str,
    for_: float | None,
    every: float,
    config: Path | None,
    slots_per_node: int | None,
    keep: Path | None,
    as_json: bool,
    out: Path,
) -> None:
    """Record which nodes of a live cluster are idle and cannot be filled, for `replay` and `advise` to read.

    Looks as the pilot does and holds nothing; any user may run it. FILE grows row by row: stop it at any time, give the same
    command again, and it goes on. Time of which it knows nothing becomes a gap.

    \b
    Example:
      bftrainer record --for 7d --out idle.csv
      bftrainer record --scheduler lsf --for 10m --out idle.csv
    """
    from bftrainer.config.pilot import read_config
    from bftrainer.live.signals import Signals
    from bftrainer.live.site import observed_site
    from bftrainer.system.clock import SystemClock
    from bftrainer_replay.recording.file import RecordFile
    from bftrainer_replay.recording.looks import look_of
    from bftrainer_replay.recording.recorder import Recorder

    if every < 1:
        raise UserError(
            f"--every {every:g}s: expected 1 s or more: every look is a batch of calls that the scheduler answers"
        )
    if slots_per_node is not None and slots_per_node < 1:
        raise UserError(f"--slots-per-node {slots_per_node}: expected 1 or more")
    clock = SystemClock()
    kept = Kept(keep or out.with_name(f"{out.name}.answers"), scheduler)
    try:
        site = observed_site(
            scheduler, None if config is None else read_config(config), str(config), clock, slots_per_node
        )
    except SchedulerError as error:
        raise SchedulerError(f"{error}{kept.keep(error)}") from error
    for remark in site.remarks:
        _note(remark)
    if every < _ASK_NO_MORE_THAN_S:
        _note(f"looking every {every:g} s; 10 s is what schedulers ask not to exceed for long")
    with closing(RecordFile(out)) as file, Signals().caught() as signals, _status(out) as show:
        if file.mended:
            _note(f"{out}: half a line at its end, {file.mended} bytes, was cut off")
        recorder = Recorder(
            site.scheduler, lambda seen: look_of(seen, site.ours, site.chosen(seen.nodes)), file, clock, every,
            unknown_after_s=max(60.0, 6 * every), told=kept.tell,
        )  # fmt: skip
        totals = recorder.run(math.inf if for_ is None else for_, lambda: signals.ends or signals.reloads, show)
    _sum_up(out, totals, as_json, every)


class Kept:
    """Says each new failure once, and keeps what was not understood."""

    def __init__(self, folder: Path, scheduler: str) -> None:
        self._folder = folder
        self._scheduler = scheduler
        self._count = 0

    def tell(self, error: BFTrainerError, totals: RecordingTotals) -> None:
        """A look failed in a way that did not occur before. A program that never was there is the user's mistake."""
        if totals.looks == totals.failed and isinstance(error, CommandError) and error.problem == "not found":
            raise UserError(f"{error}; is this a login node of the cluster?") from error
        _note(f"a look failed: {error}{self.keep(error)}")

    def keep(self, error: BFTrainerError) -> str:
        """Where the answer of an error is kept, in brackets; nothing where there is none."""
        answer = error.answer if isinstance(error, SchedulerError) else None
        if answer is None or self._count >= _KEPT_AT_MOST:
            return ""
        (argv, text), self._count = answer, self._count + 1
        path = self._folder / f"{self._scheduler}-{argv[0]}-{self._count}.txt"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            path.write_text(f"$ {' '.join(argv)}\n{text}", encoding="utf-8")
        except OSError as problem:
            raise UserError(f"--keep {self._folder}: cannot be written: {problem.strerror}") from problem
        return f" (please send this file in with an issue: {path})"


@contextmanager
def _status(out: Path) -> Iterator[Callable[[RecordingTotals], None]]:
    """A line on the terminal that follows the looks; nothing elsewhere."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(f"{out}: looking") as status:
        yield lambda totals: status.update(f"{out}: {_said(totals)}")


def _said(totals: RecordingTotals) -> str:
    at = "never" if totals.at_s is None else datetime.fromtimestamp(totals.at_s, timezone.utc).strftime("%F %T UTC")
    idle = f"{totals.idle:,} of {totals.machine_nodes:,} nodes idle at the last ({at})"
    return f"{totals.looks:,} looks, {totals.failed:,} failed, {totals.rows:,} rows, {totals.gaps:,} gaps; {idle}"


def _sum_up(out: Path, totals: RecordingTotals, as_json: bool, every_s: float) -> None:
    # Slurm's times are whole seconds: two looks in a second are no matter.
    if totals.stale and every_s >= _WHOLE_SECONDS:
        _note(f"{totals.stale:,} looks showed no later time of the scheduler than the look before, and were left out")
    if totals.hidden:
        _note("the site hides other users' jobs (PrivateData): what waited is not in the record")
    if as_json:
        found = {**dataclasses.asdict(totals), "hidden": sorted(kind.value for kind in totals.hidden)}
        click.echo(json.dumps({"out": str(out), **found}))
    else:
        click.echo(f"{out}: {_said(totals)}")
    if totals.looks == totals.failed:
        raise SchedulerError(
            f"{out}: all {totals.looks:,} looks failed" if totals.looks else f"{out}: not one look was taken"
        )


def _note(text: str) -> None:
    click.echo(f"note: {text}", err=True)
