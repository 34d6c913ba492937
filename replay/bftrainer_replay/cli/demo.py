"""``bftrainer demo``: a generated log, its report, and a minute of a live pilot on nodes of the log."""

from __future__ import annotations

from pathlib import Path

import click

from bftrainer.errors import UserError

_NODES, _DAYS, _SEED = 1024, 7.0, 1


@click.command()
@click.option(
    "--out",
    default="demo",
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Output directory.",
)
def demo(out: Path) -> None:
    """Generate a week of idle nodes of a 1,024-node cluster and write the report on it.

    During the replays, a real pilot runs for a minute on nodes from the same log, played back faster than real time, with
    trainers on this host.

    The demo needs no input, no root privileges and no port. The report is DIR/report.html; DIR/log.csv.gz, DIR/pilot.db and
    DIR/bftrainer.toml are the log, and the database and configuration of the pilot.

    \b
    Example:
      bftrainer demo --out demo
    """
    from contextlib import closing

    from bftrainer_replay.cli.demo_pilot import RUN_S, DemoPilot
    from bftrainer_replay.cli.report import report
    from bftrainer_replay.generation.generate import generate
    from bftrainer_replay.logs.event_log import write_event_log

    log = out / "log.csv.gz"
    click.echo(f"Generating {_DAYS:g} days of idle nodes of a cluster with {_NODES:,} nodes (seed {_SEED}): {log}")
    try:
        write_event_log(log, generate(_NODES, _DAYS, _SEED))
    except OSError as error:
        raise UserError(f"--out {out}: cannot be written: {error.strerror}") from error
    click.echo(f"Starting a pilot on nodes of this log, with three trainers, for {RUN_S:.0f} s")
    with closing(DemoPilot.start(log)) as pilot:
        report.main([str(log), "--machine-nodes", str(_NODES), "--out", str(out)], standalone_mode=False)
        click.echo(pilot.finish())
        pilot.keep(out)
    click.echo(f"Report: {(out / 'report.html').resolve()}")
