"""``bftrainer plot``: pictures of one trainer, and a page with all of them."""

from __future__ import annotations

from pathlib import Path

import click

from bftrainer.console.cli.choices import DIR
from bftrainer.console.cli.output import say
from bftrainer.console.cli.state import state_option
from bftrainer.console.cli.trainer_names import TrainerName
from bftrainer.counted import counted
from bftrainer.errors import UnknownNameError, UserError


@click.command()
@click.argument("trainer", type=TrainerName(), metavar="NAME")
@click.option("--out", type=DIR, help="Output directory.  [default: NAME in the current directory]")
@click.option(
    "--metric",
    metavar="METRIC",
    help="A metric to draw beside the loss.  [default: the first one reported]",
)
@state_option
def plot(trainer: str, out: Path | None, metric: str | None, state: Path) -> None:
    """Draw a training's loss, nodes and speed over time and over samples, and write a page with
    both pictures and its figures.

    The page also shows how long its nodes took from idle to their first step.

    \b
    Example:
      bftrainer plot digits
      bftrainer plot digits --metric accuracy --out pictures
    """
    from bftrainer.console.cli.trainers import facts_of
    from bftrainer.console.client.functions import trainer as handle_of
    from bftrainer.console.client.state_dir import opened_registry
    from bftrainer.pilot.persistence.time_lines import time_lines
    from bftrainer_replay.report.page import write
    from bftrainer_replay.report.trainer_page import trainer_page

    handle = handle_of(trainer, state=state)
    try:
        history = handle.history()
    except OSError as error:
        raise UserError(f"{error.filename}: cannot be read: {error.strerror}") from error
    if len(history.points) < 2:
        raise UserError(
            f"training {trainer!r} has reported its samples "
            f"{counted(len(history.points), 'time')}; a picture needs 2 reports"
        )
    names = history.metric_names
    if metric is not None and metric not in names:
        raise UnknownNameError(
            "metric", metric, names or ["none: the training has reported only its loss"]
        )
    folder = out or Path(trainer)
    with opened_registry(state) as registry:
        nodes = [line for line in time_lines(registry) if line.trainer == trainer]
    page = trainer_page(
        trainer, history, facts_of(state, trainer), metric or (names[0] if names else None), nodes
    )
    write(folder, page)
    say(f"wrote {folder / 'report.html'} and its pictures in {folder / 'pictures'}")
