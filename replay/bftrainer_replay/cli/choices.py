"""Options of replays whose values are names; their lists are checked against the code by tests/replay/cli/test_choices.py."""

from __future__ import annotations

from collections.abc import Iterable

import click

from bftrainer.cli.choices import NameChoice


def _formats() -> Iterable[str]:
    from bftrainer_replay.logs.source import FORMAT_NAMES

    return FORMAT_NAMES


FORMAT = NameChoice("format", _formats)
COST_MODEL = click.Choice(["stall", "paper", "delay", "overlap"])
cost_model_option = click.option(
    "--cost-model",
    type=COST_MODEL,
    default="stall",
    show_default=True,
    help="How the cost of a rescale is modeled.",
)
"""Gives a command ``cost_model``."""
DECIDE_ON = click.Choice(["all", "pool"])
WORKLOAD = click.Choice(["hpo", "diverse"])
SHARED_BY = click.Choice(["model", "trainer"])
"""Of ``--lessons``: which trainers share measurements."""
