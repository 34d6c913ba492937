"""The record of a rehearsal: the acts as played, and rank 0's progress lines cut into stretches.
Pure.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from bftrainer.console.rehearsal.scenario import Act
from bftrainer.wires.progress_line import Phase
from bftrainer.wires.rank_line import RankLine

Line = Mapping[str, Any]


class TrialOutcome(Enum):
    """How an act ended."""

    OK = "as expected"
    DONE = "training was complete"
    FAILED = "the script failed"
    DIED = "the driver died"
    TIMEOUT = "timed out"
    STOPPED = "it left"


@dataclass(frozen=True, slots=True)
class Played:
    """One act as it was played, from ``at_s`` to ``until_s`` (seconds since 1970).

    ``reason``: why it did not end as expected; empty if it did.
    ``tail``: the last lines of a failing worker's log.
    ``stalls_s``: the stalls in the act, as the pilot's meter measured them.
    ``hung_at``: where a worker was when the act had timed out; empty if it is not known.
    """

    act: Act
    at_s: float
    until_s: float
    outcome: TrialOutcome
    reason: str = ""
    tail: tuple[str, ...] = ()
    stalls_s: tuple[float, ...] = ()
    hung_at: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """A start after one file that is written in place was cut to half, as a kill during the save
    would leave it.

    ``step`` is the first reported step.
    """

    file: str
    outcome: TrialOutcome
    step: int | None
    reason: str = ""
    tail: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Saved:
    """Files below the working directory that the last save wrote in place, or renamed into place,
    the latest first. ``created``: those written in place that did not exist before it.
    """

    in_place: tuple[str, ...] = ()
    renamed: tuple[str, ...] = ()
    created: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """A whole rehearsal, from which the checks are made.

    ``acts``: the acts of the scenario.
    ``played``: those that were played; none follows one that did not end as expected.
    ``lines``: rank 0's progress lines.
    ``events``: the lines of the driver's events.
    ``reference``: the progress lines of a run without any change; None, with
    ``no_reference_reason``, if there was no such run.
    ``saved``: the files that the last save wrote.
    ``trials``: starts with a truncated file; None if the rehearsal did not get that far.
    ``left``: the pids of processes that still ran after a stop.
    ``ranks``: what every rank reported of itself, in order of time.
    ``missing``: files that a failing script looked for in the copy, and that are beside the
    original.
    """

    acts: tuple[Act, ...]
    played: tuple[Played, ...]
    lines: tuple[Line, ...]
    events: tuple[Line, ...]
    reference: tuple[Line, ...] | None = None
    no_reference_reason: str = ""
    saved: Saved = Saved()
    trials: tuple[Trial, ...] | None = None
    left: tuple[int, ...] = ()
    ranks: tuple[RankLine, ...] = ()
    missing: tuple[str, ...] = ()

    def resumed_without_a_step(self) -> bool:
        """Whether the last start of the workers resumed, and has reported no step."""
        incarnations = [
            line["incarnation"]
            for line in (*self.events, *self.lines)
            if is_whole(line.get("incarnation"))
        ]
        latest = max(incarnations, default=0)
        incarnations_with_steps = [
            part.last_line.get("incarnation") for part in stretches(self.lines)
        ]
        return bool(incarnations_with_steps) and latest not in incarnations_with_steps

    def progress(self) -> tuple[float, float] | None:
        """Return the samples that the script has processed, and those of its whole training.

        None if it does not report both.
        """
        totals = [line["samples_total"] for line in self.lines if line.get("samples_total")]
        counts = [line["samples"] for line in self.lines if line.get("samples")]
        return (max(counts), totals[-1]) if totals and counts else None

    def act_at(self, at_s: float) -> Act | None:
        """Return the last act that had begun at a time; None before the first."""
        acts = [played.act for played in self.played if played.at_s <= at_s]
        return acts[-1] if acts else None

    def saved_steps(self, at_s: float) -> list[int]:
        """Return the steps whose checkpoints had been reported at a time, in the order in which
        they were saved.
        """
        saves = (
            line
            for line in self.lines
            if line.get("phase") == Phase.CHECKPOINTED and is_whole(line.get("step"))
        )
        return [int(line["step"]) for line in saves if float(line["time"]) <= at_s]

    def played_of_kinds(self, *kinds: object) -> list[Played]:
        """Return the played acts of these kinds, in order."""
        return [played for played in self.played if played.act.kind in kinds]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive lines of one group of workers, without a change of size or a restart."""

    lines: tuple[Line, ...]
    world_size: int

    @property
    def first_line(self) -> Line:
        return self.lines[0]

    @property
    def last_line(self) -> Line:
        return self.lines[-1]


@dataclass(frozen=True, slots=True)
class Boundary:
    """The change from one stretch to the next: the last line ``before`` and the first one
    ``after``.

    ``saved`` is the step of the last "checkpointed" line; ``act`` caused the change.
    """

    act: Act
    before: Line
    after: Line
    saved: int | None

    @property
    def last_step(self) -> int:
        """The last step before the change."""
        return int(self.before["step"])

    @property
    def next_step(self) -> int:
        """The first step after the change."""
        return int(self.after["step"])


def stretches(lines: Iterable[Line]) -> list[Stretch]:
    """Cut the "running" lines with a step where a group of workers is formed, and return the
    pieces.
    """
    parts: list[list[Line]] = []
    for line in lines:
        if line.get("phase") != Phase.RUNNING or not is_whole(line.get("step")):
            continue
        is_same_group = bool(parts) and all(
            line.get(key) == parts[-1][-1].get(key) for key in ("incarnation", "world_size")
        )
        if is_same_group and not line.get("formed"):
            parts[-1].append(line)
        else:
            parts.append([line])
    return [Stretch(tuple(part), int(part[0].get("world_size") or 0)) for part in parts]


def boundaries(record: Record) -> list[Boundary]:
    """Return all changes from one stretch to the next, with the act in which the next one began."""
    changes = []
    for old, new in itertools.pairwise(stretches(record.lines)):
        at_s = float(new.first_line["time"])
        act = record.act_at(at_s)
        if act is None:
            continue
        saved_steps = record.saved_steps(at_s)
        last_saved = saved_steps[-1] if saved_steps else None
        changes.append(Boundary(act, before=old.last_line, after=new.first_line, saved=last_saved))
    return changes


def stride(record: Record) -> int:
    """Return the usual number of steps between two lines: a script may report every tenth step
    only.
    """
    gaps = [
        new["step"] - old["step"]
        for part in stretches(record.lines)
        for old, new in itertools.pairwise(part.lines)
        if new["step"] > old["step"]
    ]
    return middle(gaps) if gaps else 1


def middle(values: Sequence[int]) -> int:
    """The lower median."""
    return sorted(values)[(len(values) - 1) // 2]


def is_whole(value: object) -> bool:
    """Whether the value is a step or a sample count."""
    return isinstance(value, int) and not isinstance(value, bool)
