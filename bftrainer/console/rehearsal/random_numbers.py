"""Whether steps draw new random numbers after a restart, and on each rank. Pure.

Every rank reports digests of its generators' states after each step. Only generators that steps
draw from are judged: those whose state differs after three steps in a row. A ``DataLoader`` draws
from torch's generator as well, but once per epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from bftrainer.console.rehearsal.finding import RehearsalCheck, RehearsalFinding
from bftrainer.console.rehearsal.record import Record
from bftrainer.counted import counted
from bftrainer.wires.rank_line import GENERATORS, RankLine

_CHECK = RehearsalCheck("random", "random numbers differ at each step and rank")
_SEED_STEPS = (
    "progress.seed_step(seed, step, rank) before each step: its random numbers then depend on "
    "these only"
)
_ONE_BATCH = (
    "nothing, if ranks draw one batch or choice together on purpose; else progress.seed_step(seed, "
    "step, rank) before each step"
)
_STEPS = 3
"""Steps in a row after which a generator's states must differ, if steps draw from it."""
_NAMES = {"python": "Python", "numpy": "NumPy", "torch": "torch", "cuda": "CUDA"}


class _Drawn(NamedTuple):
    """The last of three steps in a row that drew from a generator, with its states after each."""

    generator: str
    line: RankLine
    states: tuple[str, ...]


def judge(record: Record) -> RehearsalFinding:
    """Check that no two steps, and no two ranks at one step, draw the same random numbers.

    Equal numbers on ranks may be meant, such as those of a batch of which each rank takes its
    share: they decide nothing.
    """
    if not any(line.random for line in record.ranks):
        return _CHECK.undecided(
            "no rank reports its steps", "bftrainer.progress: report.step(...) on every rank"
        )
    first: dict[tuple[str, tuple[str, ...]], RankLine] = {}
    steps, generators = set(), set()
    equal_on_ranks: str | None = None
    for drawn in _steps_that_draw(record.ranks):
        earlier = first.setdefault((drawn.generator, drawn.states), drawn.line)
        if (wrong := _repeated_numbers_text(record, drawn, earlier)) is not None:
            return _CHECK.failed(wrong, _SEED_STEPS)
        equal_on_ranks = equal_on_ranks or _equal_numbers_text(record, drawn, earlier)
        steps.add((drawn.line.group, drawn.line.step))
        generators.add(drawn.generator)
    if not generators:
        return _CHECK.passed("steps draw from no generator of Python, NumPy or torch")
    if equal_on_ranks is not None:
        return _CHECK.undecided(equal_on_ranks, _ONE_BATCH)
    names = ", ".join(_NAMES[name] for name in GENERATORS if name in generators)
    return _CHECK.passed(f"{names}: none repeated in {counted(len(steps), 'step')}")


def _repeated_numbers_text(record: Record, drawn: _Drawn, earlier: RankLine) -> str | None:
    """Return what is wrong if a step's random numbers are those of another step; else None.

    A step that is made again after a loss may draw the same numbers again.
    """
    if earlier.step == drawn.line.step:
        return None
    step = drawn.line.step
    return f"{_numbers_text(record, drawn)} at step {step} are those of step {earlier.step} again"


def _equal_numbers_text(record: Record, drawn: _Drawn, earlier: RankLine) -> str | None:
    """Return which ranks of a group draw the same numbers at a step; None if they differ."""
    line = drawn.line
    if earlier.rank == line.rank or earlier.group != line.group:
        return None
    lower, higher = sorted((earlier.rank, line.rank))
    numbers = _numbers_text(record, drawn)
    return f"{numbers} at step {line.step} are equal on ranks {lower} and {higher}"


def _numbers_text(record: Record, drawn: _Drawn) -> str:
    """Return whose random numbers are meant, and after which act."""
    act = record.act_at(drawn.line.at_s) or "the start"
    return f"after {act}: {_NAMES[drawn.generator]}'s random numbers"


def _steps_that_draw(lines: Iterable[RankLine]) -> Iterator[_Drawn]:
    """Yield the steps that end three steps in a row that drew from a generator, in order."""
    recent: dict[tuple[object, int], list[RankLine]] = {}
    for line in lines:
        row = recent.setdefault((line.group, line.rank), [])
        if row and line.step != row[-1].step + 1:
            row.clear()
        row.append(line)
        del row[:-_STEPS]
        if len(row) < _STEPS:
            continue
        for generator in GENERATORS:
            states = [dict(step.random or ()).get(generator) for step in row]
            digests = tuple(state for state in states if state is not None)
            if len(set(digests)) == _STEPS:
                yield _Drawn(generator, line, digests)
