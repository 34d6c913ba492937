"""One log on its way in: where it comes from, what the user said about it, and what is collected from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from bftrainer_replay.logs.clock import LogClock, zone_of
from bftrainer_replay.logs.jobs import JobRows, Tally
from bftrainer_replay.logs.lines import Lines

DEBOUNCE_S = 10.0
"""The paper removes what was idle between two jobs and "usually appears only in one bslots record", of 10 s (2.1)."""


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """What the user says about a job log; None is "guess, and say what was guessed"."""

    format: str | None = None
    timezone: str | None = None
    skip_bad: bool = False
    columns: str | None = None
    machine_nodes: int | None = None
    processors_per_node: int | None = None
    debounce_s: float = DEBOUNCE_S
    warm_up_h: float | None = None
    cool_down_h: float | None = None
    outages: tuple[str, ...] = ("auto",)


@dataclass
class Source:
    """Given to an importer, which reads ``lines``, fills ``rows``, counts in ``tally`` and leaves its guesses.

    ``machine_nodes`` and ``machine_why``: the size as the log states it, and where. ``remarks``: what to tell the user.
    """

    path: Path
    options: ImportOptions
    lines: Lines = field(init=False)
    clock: LogClock = field(init=False)
    tally: Tally = field(init=False)
    rows: JobRows = field(init=False, default_factory=JobRows)
    machine_nodes: int | None = None
    machine_why: str = ""
    remarks: list[str] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.lines = Lines(self.path)
        self.clock = LogClock(zone_of(self.options.timezone))
        self.tally = Tally(str(self.path), self.options.skip_bad)
