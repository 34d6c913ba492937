"""Options in a row, and their types: paths, and names, either fixed ones (``click.Choice``) or
those that packages extend.

:class:`NameChoice` loads its names when a value is checked or completed, so ``--help`` imports no
plug-in.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from bftrainer.errors import UnknownNameError
from bftrainer.plugin_traits import LAUNCHER_GROUP, SITE_GROUP, default_launcher, default_site

if TYPE_CHECKING:
    _ParamType = click.ParamType[str]  # generic since click 8.4
else:
    _ParamType = click.ParamType
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def with_options(*options: Decorator) -> Decorator:
    """Return a decorator that gives a command these arguments and options; its help shows them in
    this order.
    """
    # As in a column of decorators, the last one is applied first.
    return lambda command: reduce(lambda inner, option: option(inner), reversed(options), command)


class NumberRange(click.FloatRange):
    """A range of finite numbers, which refuses ``nan``.

    Nothing is below or above ``nan``, so click's own range would accept it.
    """

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{number} is not a finite number.", param, ctx)
        return number


class NameChoice(_ParamType):
    """A choice among the names that ``names()`` returns.

    ``custom``: ``module:function`` is accepted as well, unchecked. ``parameters``:
    ``NAME?key=value&...`` is a name with its own parameters. ``several``: names joined by commas.
    ``default``: the name that is used where none is given.
    """

    def __init__(
        self,
        kind: str,
        names: Callable[[], Iterable[str]],
        *,
        custom: bool = False,
        parameters: bool = False,
        several: bool = False,
        default: Callable[[], str] = str,
    ) -> None:
        self.name = kind
        self._names = names
        self._custom = custom
        self._parameters = parameters
        self._several = several
        self._default = default

    def installed(self) -> tuple[list[str], str]:
        """All names, and the default one; empty if there is none."""
        return sorted(self._names()), self._default()

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Return the metavar for the list of options, without loading the names."""
        return "NAME,..." if self._several else "NAME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value unchanged, if all of its names exist; else fail with the valid ones."""
        parts = str(value).split(",") if self._several else [str(value)]
        names = [part.strip() for part in parts]
        if self._parameters:
            names = [name.partition("?")[0] for name in names]
        if self._custom:
            names = [name for name in names if ":" not in name]
        if not names:
            return value  # without loading the names
        valid_names = sorted(self._names())
        for name in names:
            if name not in valid_names:
                self.fail(str(UnknownNameError(self.name, name, valid_names)), param, ctx)
        return value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Complete the last word of the value by the names that begin with it."""
        head, comma, prefix = "", "", incomplete
        if self._several:
            head, comma, prefix = incomplete.rpartition(",")
        return [
            CompletionItem(f"{head}{comma}{name}")
            for name in sorted(self._names())
            if name.startswith(prefix)
        ]


class PluginOption(click.Option):
    """An option whose help lists the names of plug-ins: ``{names}``, and ``{default}`` for the one
    that is used without the option.
    """

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the option and its help, for which the names are loaded."""
        record = super().get_help_record(ctx)
        if record is None or not isinstance(self.type, NameChoice):
            return record
        names, default = self.type.installed()
        return record[0], record[1].format(names=", ".join(names), default=default)


class IsoTime(_ParamType):
    """An option's type: a time in ISO 8601, local if it has no offset, as seconds since 1970."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the time in seconds since 1970."""
        try:
            return datetime.fromisoformat(value).timestamp()
        except (ValueError, OverflowError):
            self.fail(
                f"{value!r:.60} is not ISO 8601, expected a time like 2026-01-31T18:00", param, ctx
            )


class CountRange(_ParamType):
    """An option's type: a number or a range of numbers, ``4`` or ``1-4``, as (smallest, largest).
    One number is the largest: the smallest is then None.
    """

    name = "range"
    _FORM = re.compile(r"(?:(\d{1,7})-)?(\d{1,7})", re.ASCII)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the pair of numbers."""
        match = self._FORM.fullmatch(value)
        if match is None:
            self.fail(f"{value!r:.60}: expected a number or a range, such as 4 or 1-4", param, ctx)
        smallest, largest = match.groups()
        return (None if smallest is None else int(smallest), int(largest))


class PathNamed(click.Path):
    """A path, with its metavar in the help."""

    def __init__(self, metavar: str, **options: Any) -> None:
        super().__init__(path_type=Path, **options)
        self._metavar = metavar

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return self._metavar


def _installed_names(group: str) -> Iterable[str]:
    from bftrainer.plugins import installed_names

    return installed_names(group)


def _objective_names() -> Iterable[str]:
    from bftrainer.decide.allocation.objectives import OBJECTIVES

    return OBJECTIVES


def _scheduler_names() -> Iterable[str]:
    from bftrainer.cluster.site_plugin import batch_systems

    return (name for name, _ in batch_systems())


FILE, DIR = PathNamed("FILE", dir_okay=False), PathNamed("DIR", file_okay=False)
POLICY = NameChoice(
    "policy", partial(_installed_names, "bftrainer.policies"), custom=True, parameters=True
)
OBJECTIVE = NameChoice("objective", _objective_names, custom=True)
OBJECTIVES = NameChoice("objective", _objective_names, custom=True, several=True)
LAUNCHER = NameChoice(
    "launcher", partial(_installed_names, LAUNCHER_GROUP), default=default_launcher
)
HOLDER = NameChoice("holder", partial(_installed_names, SITE_GROUP), default=default_site)
SCHEDULER = NameChoice("scheduler", _scheduler_names)
SOLVER = click.Choice(["auto", "exact", "highs", "gurobi", "milp"])
