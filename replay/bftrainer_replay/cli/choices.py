"""Options of several commands. The lists of names are checked against the code by
tests/replay/cli/test_choices.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from bftrainer.console.cli.choices import DIR, NameChoice
from bftrainer.errors import UserError


def _format_names() -> Iterable[str]:
    from bftrainer_replay.logs.source import FORMAT_NAMES

    return FORMAT_NAMES


FORMAT = NameChoice("format", _format_names)
COST_MODEL = click.Choice(["stall", "paper", "delay", "overlap"])
cost_model_option = click.option(
    "--cost-model", type=COST_MODEL, default="stall", help="How the cost of a rescale is modeled."
)
"""Gives a command the option --cost-model as ``cost_model``."""
DECIDE_ON = click.Choice(["all", "pool"])
WORKLOAD = click.Choice(["hpo", "diverse"])
SHARED_BY = click.Choice(["model", "trainer"])
"""Of ``--lessons``: which trainers share measurements."""

_COMPRESSED = (".gz", ".bz2", ".xz")


def folder_option(kind: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that gives a command the option --out, a directory.

    If it is None, the command uses :func:`folder_beside` with the same ``kind``.
    """
    help_text = (
        f"Output directory.  [default: LOG-{kind} in the current directory, like "
        f"july-{kind} for july.csv.gz]"
    )
    return click.option("--out", type=DIR, help=help_text)


def folder_beside(log: Path, kind: str) -> Path:
    """Return the default of ``--out``: a directory named after the log, in the current
    directory.
    """
    name = log.name
    # july.csv.gz becomes july.csv, of which the stem is july.
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    return Path(f"{Path(name).stem}-{kind}")


def new_file(out: Path | None, default: str) -> Path:
    """Return the file of --out, or its default. Raises :class:`UserError` if the default exists:
    only --out overwrites a file.
    """
    if out is not None:
        return out
    if Path(default).exists():
        raise UserError(
            f"{default} exists already; specify another file, or this one to overwrite it, "
            "with --out"
        )
    return Path(default)


@contextmanager
def write_errors_reported(out: Path, option: str = "--out") -> Iterator[None]:
    """Turn an ``OSError`` of the block, which writes ``out``, into a :class:`UserError`: an error
    of the disk is the user's to fix.
    """
    try:
        yield
    except OSError as error:
        raise UserError(f"{option} {out}: cannot be written: {error.strerror}") from error
