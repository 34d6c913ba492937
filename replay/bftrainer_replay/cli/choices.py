"""Options with fixed values whose list is loaded only when it is needed, so that ``--help`` stays fast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem


class LazyChoice(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4 only
    """Like :class:`click.Choice`, with values from a function that imports their owner."""

    name = "choice"

    def __init__(self, values: Callable[[], Sequence[str]]) -> None:
        self._values = values

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        found: str = click.Choice(self._values()).convert(value, param, ctx)
        return found

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return click.Choice(self._values()).shell_complete(ctx, param, incomplete)


def solvers() -> Sequence[str]:
    """The values of ``--solver``."""
    from bftrainer.allocation.chain import SOLVER_NAMES

    return SOLVER_NAMES


def cost_models() -> Sequence[str]:
    """The values of ``--cost-model``."""
    from bftrainer_replay.simulation.progress import CostModel

    return [each.value for each in CostModel]


def triggers() -> Sequence[str]:
    """The values of ``--decide-on``."""
    from bftrainer_replay.simulation.world import DecideOn

    return [each.value for each in DecideOn]
