"""Measured throughput of models over the number of GPUs: Gavel's table and Sia's step times.

The format is recognized by the content:

- Gavel (OSDI '20): JSON, ``{gpu: {"('model (batch size b)', gpus)": {"null": steps per second,
  ...}}}``. A step is a batch of b samples, so samples/s = b · steps/s; for a model without a batch
  size, a sample is a step. 0: the model did not run.
- Sia (SOSP '23) and Pollux: ``<model>/{scalability,placements}-<hardware>.csv`` in an archive,
  columns ``num_nodes, num_replicas,local_bsz,step_time`` or ``placement,local_bsz,step_time``;
  samples/s = GPUs · local_bsz / step_time. A placement is a digit per node: 44 is four GPUs on each
  of two.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from bftrainer.errors import InputFileError, InvalidValueError, UnknownNameError
from bftrainer_papers.traces.rows import MOST, Cells, header_of, rows_of
from bftrainer_papers.traces.texts import TextFile, texts_of
from bftrainer_replay.csv_tables import count, number

_SIA = re.compile(r"(?:^|/)([^/]+)/(scalability|placements)-([^/]+)\.csv$")
_GAVEL_KEY = re.compile(r"\('([^'\\]{1,100})', ([1-9][0-9]{0,5})\)")
_BATCH = re.compile(r" \(batch size ([1-9][0-9]{0,8})\)$")
_MOST_RATE = 1e12


@dataclass(frozen=True, slots=True)
class ProfilePoint:
    """A measurement on ``gpus`` GPUs of ``nodes`` nodes (0: unknown) with ``batch`` samples per
    GPU.
    """

    gpus: int
    nodes: int
    batch: int
    samples_per_s: float


@dataclass
class Profile:
    """All measurements of a model on one type of hardware."""

    model: str
    hardware: str
    points: list[ProfilePoint] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Profiles:
    """The content of a file with ``read`` measurements, ``failed`` of them 0 (the model did not
    run).
    """

    profiles: tuple[Profile, ...]
    title: str
    where: str
    read: int
    failed: int

    def of(self, hardware: str | None) -> tuple[Profile, ...]:
        """Return the profiles for one type of hardware; None will do if the file has only one.

        Raises an error if it has several, or not this one.
        """
        kinds = sorted({profile.hardware for profile in self.profiles})
        if hardware is None and len(kinds) > 1:
            raise InputFileError(
                self.where,
                "has profiles for several types of hardware; specify one with --hardware "
                f"({', '.join(kinds)})",
            )
        if hardware is not None and hardware not in kinds:
            raise UnknownNameError("hardware", hardware, kinds)
        return tuple(profile for profile in self.profiles if hardware in (None, profile.hardware))


def read_profiles(path: Path) -> Profiles:
    """Return all profiles (measured throughput of models) in a file, in Gavel's or Sia's format.

    Raises :class:`InputFileError` with file and line.
    """
    texts = texts_of(path)
    if len(texts) == 1 and texts[0].text.lstrip()[:1] == "{":
        return _gavel_profiles(texts[0])
    tables = [(text, match) for text in texts if (match := _SIA.search(text.name))]
    if not tables and len(texts) == 1 and (match := _SIA.search(str(path.resolve()))):
        tables = [(texts[0], match)]  # a single table, in the folder of its model
    if not tables:
        raise InputFileError(
            str(path),
            "is neither Gavel's JSON nor an archive of MODEL/scalability-HARDWARE.csv and "
            "placements-HARDWARE.csv",
        )
    return _sia_profiles(path, tables)


def _sia_profiles(path: Path, tables: Iterable[tuple[TextFile, re.Match[str]]]) -> Profiles:
    """Return the profiles in Sia's tables, which measured the time of a step.

    ``tables`` are texts with the match of their name (model, kind, hardware). Raises
    :class:`InputFileError`.
    """
    profiles: dict[tuple[str, str], Profile] = {}
    read = 0
    for text, name in tables:
        profile = profiles.setdefault((name[1], name[3]), Profile(name[1], name[3]))
        columns_of_kind = {
            "scalability": ("num_nodes", "num_replicas"),
            "placements": ("placement",),
        }[name[2]]
        header = header_of(text)
        if missing := [
            column
            for column in (*columns_of_kind, "local_bsz", "step_time")
            if column not in header
        ]:
            raise InputFileError(
                f"{text.where}:1", f"column {missing[0]} is missing in {','.join(header)!r:.80}"
            )
        for line, cells in rows_of(text):
            read += 1
            try:
                # rows_of() gives a text instead of cells: what is wrong with the line.
                if isinstance(cells, str):
                    raise InvalidValueError(cells)
                profile.points.append(_sia_point(cells, columns_of_kind))
            except InvalidValueError as error:
                raise InputFileError(f"{text.where}:{line}", str(error)) from error
    return Profiles(
        _checked_profiles(path, profiles.values()), "Sia's step times", str(path), read, 0
    )


def _sia_point(cells: Cells, needed: tuple[str, ...]) -> ProfilePoint:
    """Return the measurement of a row of Sia's tables: its GPUs, nodes and samples per second.

    A table of placements has one digit per node, its GPUs (44: 8 GPUs on 2 nodes); a table of
    scalability has both numbers as columns.
    """
    if "placement" in needed:
        placement = cells["placement"].strip()
        if not re.fullmatch("[1-9]{1,100}", placement):
            raise InvalidValueError(
                f"placement is {placement!r:.40}, expected a digit per node, like 44"
            )
        gpus, nodes = sum(int(digit) for digit in placement), len(placement)
    else:
        gpus, nodes = count(cells, "num_replicas", 1, MOST), count(cells, "num_nodes", 1, MOST)
    batch, step_s = count(cells, "local_bsz", 1, MOST), number(cells, "step_time", limit=MOST)
    if not step_s > 0:
        raise InvalidValueError(f"step_time is {step_s:g}, expected seconds above 0")
    return ProfilePoint(gpus, nodes, batch, _checked_rate(gpus * batch / step_s))


def _gavel_profiles(text: TextFile) -> Profiles:
    """Collect the profiles from Gavel's JSON table: {HARDWARE: {"('MODEL (batch size B)', GPUS)":
    {"null": steps per second}}}.

    "null" is the rate of the job alone, without another one on the same GPU. A rate of 0 says that
    the model did not run: it is counted, but is no measurement.
    """
    try:
        table = json.loads(text.text, object_pairs_hook=_without_duplicates)
    except json.JSONDecodeError as error:
        raise InputFileError(f"{text.where}:{error.lineno}", f"is not JSON: {error.msg}") from error
    except (InvalidValueError, RecursionError, ValueError) as error:
        raise InputFileError(
            text.where, f"is not Gavel's table: {error or 'nested too deeply'}"
        ) from error
    profiles: dict[tuple[str, str], Profile] = {}
    read = failed = 0
    for hardware, entries in table.items():
        if not isinstance(entries, dict):
            raise InputFileError(
                f"{text.where}: {hardware:.40}", "is not a table of models, expected Gavel's table"
            )
        for key, rates in entries.items():
            read += 1
            where = f"{text.where}: {hardware:.40}: {key:.80}"
            match = _GAVEL_KEY.fullmatch(key)
            if match is None or not isinstance(rates, dict):
                raise InputFileError(
                    where,
                    "is not an entry of Gavel's table, expected ('MODEL (batch size B)', GPUS)",
                )
            rate = rates.get("null")
            if (
                isinstance(rate, bool)
                or not isinstance(rate, (int, float))
                or not 0 <= rate < _MOST_RATE
            ):
                raise InputFileError(
                    where, f"null is {rate!r:.40}, expected steps per second of the job alone"
                )
            batch = _BATCH.search(match[1])
            model = _BATCH.sub("", match[1]) + (f"-bs{batch[1]}" if batch else "")
            size = int(batch[1]) if batch else 1
            profile = profiles.setdefault((model, hardware), Profile(model, hardware))
            if rate == 0:
                failed += 1
            else:
                # The 0: the table does not tell on how many nodes.
                profile.points.append(ProfilePoint(int(match[2]), 0, size, float(rate) * size))
    return Profiles(
        _checked_profiles(Path(text.where), profiles.values()),
        "Gavel's table",
        text.where,
        read,
        failed,
    )


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise InvalidValueError("duplicate name in one table")
    return table


def _checked_rate(samples_per_s: float) -> float:
    if not 0 < samples_per_s < _MOST_RATE:
        raise InvalidValueError(
            f"{samples_per_s:g} samples/s, expected above 0 and below {_MOST_RATE:g}"
        )
    return samples_per_s


def _checked_profiles(path: Path, profiles: Iterable[Profile]) -> tuple[Profile, ...]:
    """Return the profiles that have measurements, sorted. Raises InputFileError if none has."""
    measured = tuple(
        sorted(
            (profile for profile in profiles if profile.points), key=lambda p: (p.hardware, p.model)
        )
    )
    if not measured:
        raise InputFileError(str(path), "has no measurements")
    return measured
