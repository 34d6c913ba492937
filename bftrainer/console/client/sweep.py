"""Sweeps: one submission for each combination of parameters. Pure, but for the CSV file."""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from bftrainer.config.parameters import PARAMETER, as_text, filled, problem_with
from bftrainer.config.trainer_file import NAME
from bftrainer.config.validation import read_text
from bftrainer.console.client.gate import Draft
from bftrainer.counted import counted
from bftrainer.errors import InputFileError, InvalidValueError

MOST_TRIALS = 20_000
MOST_CSV_BYTES = 16 << 20
NAME_COLUMN = "name"
_RANGE = re.compile(r"(-?\d{1,9})\.\.(-?\d{1,9})")
_ODD = re.compile(r"[^A-Za-z0-9._-]")

TrialParameters = Mapping[str, str]
"""The parameters of one trial; under ``name`` its trainer's name, where the CSV file has it."""


def parse_grid(texts: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Parse values by parameter: ``lr=0.1,0.01`` and ``seed=0..9``, both ends included."""
    grid: dict[str, tuple[str, ...]] = {}
    for text in texts:
        where = f"--grid {text:.100}"
        key, equals, values = text.partition("=")
        if not equals or not values or not PARAMETER.fullmatch(key):
            raise InputFileError(
                where,
                "expected NAME=VALUE,VALUE,... or NAME=FIRST..LAST, like lr=0.1,0.01 or seed=0..9",
            )
        if key in grid:
            raise InputFileError(
                where, f"{key!r} has been given before; expected one --grid per parameter"
            )
        grid[key] = tuple(
            value for part in values.split(",") for value in _grid_values(part, where)
        )
    return grid


def _grid_values(part: str, where: str) -> Iterator[str]:
    """Yield the values of one part of a grid: "0..9" gives 0 to 9, another text itself.

    ``where`` names the option in errors. Raises ``InputFileError``.
    """
    if not part:
        raise InputFileError(
            where, "has an empty value; expected VALUE,VALUE,... (empty values: use --array)"
        )
    match = _RANGE.fullmatch(part)
    if match is None:
        yield part
        return
    first, last = int(match[1]), int(match[2])
    if not 0 <= last - first < MOST_TRIALS:
        raise InputFileError(
            where,
            f"{part}: expected FIRST..LAST with at most {MOST_TRIALS:,} values, the smaller first",
        )
    yield from map(str, range(first, last + 1))


def grid_trials(
    grid: Mapping[str, Sequence[object]], where: str = "grid"
) -> tuple[TrialParameters, ...]:
    """Combine all values of a grid; the last parameter changes fastest.

    ``where`` names the grid in errors. Raises ``InputFileError`` for too many trials.
    """
    count = prod(len(values) for values in grid.values())
    if count > MOST_TRIALS:
        raise InputFileError(
            where, f"gives {counted(count, 'trial')}, expected at most {MOST_TRIALS:,}"
        )
    texts: dict[str, list[str]] = {}
    for key, values in grid.items():
        texts[key] = [_parameter_text(value, key) for value in values]
    return tuple(dict(zip(texts, values, strict=True)) for values in product(*texts.values()))


def trials_as_text(trials: Iterable[Mapping[str, object]]) -> tuple[TrialParameters, ...]:
    """Convert the values of trials from Python to text."""
    return tuple(map(_trial_as_text, trials))


def _trial_as_text(trial: Mapping[str, object]) -> TrialParameters:
    return {key: _parameter_text(value, key) for key, value in trial.items()}


def _parameter_text(value: object, key: str) -> str:
    """Return the value of a parameter as text. Raises ``InvalidValueError`` if it has none."""
    text = as_text(value)
    if not isinstance(text, str):
        raise InvalidValueError(
            f"parameters: {key}: expected a string or a number, got {value!r:.60}"
        )
    return text


def read_trials(path: Path) -> tuple[TrialParameters, ...]:
    """Read trials from a CSV file whose first row names the parameters.

    Raises :class:`InputFileError` with file and line.
    """
    text = read_text(path, MOST_CSV_BYTES).removeprefix("\ufeff")  # of spreadsheets
    rows = csv.reader(text.splitlines(), strict=True)
    trials: list[TrialParameters] = []
    try:
        heads = next(rows, [])
        for head in heads:
            if head != NAME_COLUMN and (problem := problem_with({head: ""})):
                raise InputFileError(f"{path}:1", problem)
        if not heads or len(set(heads)) < len(heads):
            raise InputFileError(
                f"{path}:1", "expected the names of parameters, each once, as in lr,seed"
            )
        for row in filter(None, rows):
            if len(row) != len(heads):
                raise InputFileError(
                    f"{path}:{rows.line_num}",
                    f"has {counted(len(row), 'value')}, expected {len(heads)}",
                )
            trials.append(dict(zip(heads, row, strict=True)))
            if len(trials) > MOST_TRIALS:
                raise InputFileError(str(path), f"has more than {MOST_TRIALS:,} trials")
    except csv.Error as error:
        raise InputFileError(f"{path}:{rows.line_num}", f"is not CSV: {error}") from error
    if not trials:
        raise InputFileError(
            str(path), "has no trials: expected a row of parameter names, then one row per trial"
        )
    return tuple(trials)


def combined(
    first: Sequence[TrialParameters], second: Sequence[TrialParameters]
) -> tuple[TrialParameters, ...]:
    """Combine each trial of ``first`` with each of ``second``; neither is empty.

    Raises ``InvalidValueError`` for a parameter of both, and for too many trials.
    """
    common_keys = {*first[0]} & {*second[0]}
    if common_keys:
        raise InvalidValueError(
            f"parameter {min(common_keys)!r} is given twice: in --array and --grid"
        )
    count = len(first) * len(second)
    if count > MOST_TRIALS:
        raise InvalidValueError(
            f"--array and --grid give {counted(count, 'trial')}, expected at most {MOST_TRIALS:,}"
        )
    return tuple({**trial, **other} for trial, other in product(first, second))


def drafts_of(base: Draft, trials: Sequence[TrialParameters]) -> tuple[Draft, ...]:
    """Make one draft per trial.

    Names are a function of the base name and the parameters: the same sweep has the same names.
    Raises :class:`InputFileError` if two trials have the same name. Values of the wrong type are
    left as they are: the validation of the drafts reports them.
    """
    drafts: list[Draft] = []
    numbers_by_name: dict[str, int] = {}
    base_values = base.table.get("parameters", {})
    base_parameters: dict[str, object] = {}
    if isinstance(base_values, dict):
        base_parameters = {key: as_text(value) for key, value in base_values.items()}
    template, group = base.table.get("name"), base.table.get("group")
    for number, trial in enumerate(trials, 1):
        trial_parameters = {key: value for key, value in trial.items() if key != NAME_COLUMN}
        parameters = {**base_parameters, **trial_parameters}
        name = trial.get(NAME_COLUMN, template)
        if isinstance(name, str) and NAME_COLUMN not in trial:
            name = _trial_name(name, trial_parameters, parameters, base.where)
        if isinstance(name, str) and numbers_by_name.setdefault(name, number) != number:
            raise InputFileError(
                f"{base.where}: name",
                f"trials {numbers_by_name[name]} and {number} are both {name!r}; expected "
                "different parameters",
            )
        table: dict[str, Any] = {**base.table, "name": name, "parameters": parameters}
        if group is None and isinstance(template, str):
            table["group"] = group_of(template)
        keys = {key: value for key, value in table.items() if value is not None}
        drafts.append(Draft(keys, base.where, base.home))
    return tuple(drafts)


def group_of(template: str) -> str:
    """The group of a sweep that names none: its name, without placeholders."""
    return _ODD.sub("", re.sub(r"\{[^{}]*\}", "", template)).strip("-._")[:64] or "sweep"


def _trial_name(
    template: str, trial_parameters: TrialParameters, parameters: Mapping[str, Any], where: str
) -> str:
    """Return the name of a trial: a template with placeholders filled with all ``parameters``, or
    another one with the trial's own parameters at its end.

    "digits" with lr=0.1 gives "digits-lr0.1"; a name that is too long or has characters that a name
    cannot have ends in a digest instead.
    """
    if "{" in template:
        values = {key: str(value) for key, value in parameters.items()}
        return filled(template, values, f"{where}: name")
    name = "-".join((template, *(f"{key}{value}" for key, value in trial_parameters.items())))
    if NAME.fullmatch(name):
        return name
    parameters_text = repr(sorted(trial_parameters.items()))
    digest = hashlib.sha256(parameters_text.encode()).hexdigest()[:10]
    return f"{template[:53]}-{digest}"
