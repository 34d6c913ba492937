"""The option ``--curves``: where the true curves come from, and what the policy knows of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bftrainer.errors import UserError
from bftrainer_replay.cli.choices import SHARED_BY

if TYPE_CHECKING:
    from bftrainer.domain.model import Curve
    from bftrainer_replay.simulation.world import Arrival

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class CurveSettings:
    """The true ``curves`` by model, and ``mode``, what the policy knows (:mod:`bftrainer_replay.simulation.curve_error`)."""

    curves: Mapping[str, Curve]
    mode: str

    def with_curve_error(self, arrivals: Sequence[Arrival], lessons: str, seed: int) -> tuple[Arrival, ...]:
        """The trainers as their users describe them."""
        from bftrainer_replay.simulation.curve_error import with_curve_error

        return with_curve_error(arrivals, self.mode, seed, by_model=lessons == "model")


def curve_options(command: _Command) -> _Command:
    """``--curves``, ``--noise`` and ``--lessons``."""
    for option in reversed(
        (
            click.option(
                "--curves",
                multiple=True,
                metavar="FILE|HOW",
                help="FILE: throughput curves (model,nodes_1,nodes_2,...).  [default: the paper's Table 2]  "
                "HOW: the policy's knowledge of the curves: known, learn (no curves given; the policy measures them), "
                "wrong:KIND (wrong curves) or learn:KIND (wrong curves; measurements correct them). "
                "KIND is factor, linear or flat. Specify FILE, HOW or both.",
            ),
            click.option("--noise", default=0.0, help="Relative error of a measurement, like 0.1."),
            click.option(
                "--lessons",
                type=SHARED_BY,
                default="model",
                help="Share measurements between trainers of one model, or keep them per trainer.",
            ),
        )
    ):
        command = option(command)
    return command


def curves_of(given: Sequence[str]) -> CurveSettings:
    """The values of ``--curves``: at most one file and one mode."""
    from bftrainer_replay.simulation.curve_error import CURVE_MODES
    from bftrainer_replay.workload.curves import TABLE_2, read_curves

    words = [text for text in given if text in CURVE_MODES or text.partition(":")[0] in ("learn", "wrong")]
    files = [text for text in given if text not in words]
    if len(words) > 1 or len(files) > 1:
        raise UserError(
            f"--curves {' --curves '.join(given)}: expected at most one FILE and one of {', '.join(CURVE_MODES)}"
        )
    return CurveSettings(read_curves(Path(files[0])) if files else TABLE_2, words[0] if words else "known")
