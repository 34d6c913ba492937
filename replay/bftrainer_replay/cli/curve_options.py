"""The option ``--curves``: where the true curves come from, and whether the policy knows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer.cli.choices import with_options
from bftrainer.errors import UserError
from bftrainer_replay.cli.choices import SHARED_BY

if TYPE_CHECKING:
    from bftrainer.domain.model import Curve

KNOWN, LEARN = "known", "learn"


curve_options = with_options(
    click.option(
        "--curves",
        multiple=True,
        metavar="FILE|HOW",
        help="FILE: throughput curves (model,nodes_1,nodes_2,...).  [default: the paper's Table 2]  "
        "HOW: known, or learn (the policy is told no curves, and measures them). Specify FILE, HOW or both.",
    ),
    click.option("--noise", default=0.0, help="Relative error of a measurement, like 0.1."),
    click.option(
        "--lessons",
        type=SHARED_BY,
        default="model",
        help="Share measurements between trainers of one model, or keep them per trainer.",
    ),
)
"""``--curves``, ``--noise`` and ``--lessons``."""


def curves_of(given: Sequence[str]) -> tuple[Mapping[str, Curve], bool]:
    """The values of ``--curves``, at most one file and one word: the true curves by model, and whether they are learned."""
    from bftrainer_replay.workload.curves import TABLE_2, read_curves

    words = [text for text in given if text in (KNOWN, LEARN)]
    files = [text for text in given if text not in words]
    if len(words) > 1 or len(files) > 1:
        raise UserError(f"--curves {' --curves '.join(given)}: expected at most one FILE and one of {KNOWN}, {LEARN}")
    return read_curves(Path(files[0])) if files else TABLE_2, words == [LEARN]
