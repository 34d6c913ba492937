"""Options of several commands. The lists of names are checked against the code by tests/replay/cli/test_choices.py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from bftrainer.cli.choices import DIR, NameChoice
from bftrainer.errors import UserError


def _formats() -> Iterable[str]:
    from bftrainer_replay.logs.source import FORMAT_NAMES

    return FORMAT_NAMES


FORMAT = NameChoice("format", _formats)
COST_MODEL = click.Choice(["stall", "paper", "delay", "overlap"])
cost_model_option = click.option(
    "--cost-model", type=COST_MODEL, default="stall", help="How the cost of a rescale is modeled."
)
"""Gives a command ``cost_model``."""
DECIDE_ON = click.Choice(["all", "pool"])
WORKLOAD = click.Choice(["hpo", "diverse"])
SHARED_BY = click.Choice(["model", "trainer"])
"""Of ``--lessons``: which trainers share measurements."""

out_option = click.option("--out", required=True, type=DIR, help="Output directory.")


@contextmanager
def written(out: Path, option: str = "--out") -> Iterator[None]:
    """What the block writes; an error of the disk is the user's to fix."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{option} {out}: cannot be written: {error.strerror}") from error
