"""One rehearsal: the scenario, a reference run without changes, and starts with a truncated
checkpoint.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from bftrainer.config.trainer_file import TrainerSpec
from bftrainer.console.rehearsal.copies import copy_folder, missing, moved
from bftrainer.console.rehearsal.player import Options, Player
from bftrainer.console.rehearsal.record import (
    Line,
    Played,
    Record,
    TrialOutcome,
    is_whole,
    stretches,
)
from bftrainer.console.rehearsal.scenario import LEAVES, Act, ActKind, scenario, sizes_of
from bftrainer.console.rehearsal.trials import try_halves
from bftrainer.console.rehearsal.writes import Writes
from bftrainer.wires.driver_events import DriverEvent
from bftrainer.wires.environment import REPORT_EVERY_S
from bftrainer.wires.stacks import VARIABLE

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Costs:
    """Medians of the rescaling costs on this host in seconds; None if not measured."""

    up_s: float | None
    down_s: float | None
    stalls: tuple[tuple[str, float], ...]
    """By act: the stall, including repeated work; after a start of a driver, the time until the
    first step.
    """


def rehearse(
    spec: TrainerSpec, options: Options, scratch: Path, tell: Tell, where: str = "trainer file"
) -> Record:
    """Play a rehearsal of a trainer, and return its record.

    All files are written below ``scratch``, unless ``in_place``.
    """
    home = spec.cwd
    # Report every step, not one line per second; a worker that hangs can say where.
    spec = spec.model_copy(update={"env": {VARIABLE: "1", **spec.env, REPORT_EVERY_S: "0"}})
    here = spec
    if not options.in_place:
        copy_folder(home, scratch / "work", options.copy_bytes, where)
        copy_folder(home, scratch / "work-alone", options.copy_bytes, where)
        here = moved(spec, home, scratch / "work")
    acts = scenario(*sizes_of(spec), options.quick)
    player = Player(scratch / "trainers", here, options)
    with Writes(here.cwd) as writes:
        try:
            record = _play(player, acts, writes, tell)
            if _is_whole(record) and not spec.is_pool:
                trials = try_halves(
                    player, record, here.cwd, scratch / "saved", tell, in_place=options.in_place
                )
                record = replace(record, trials=trials)
        finally:
            player.end()
    if not options.in_place:
        tails = [line for played in record.played for line in played.tail]
        record = replace(record, missing=missing(tails, home, here.cwd))
    if options.in_place:
        return replace(
            record,
            why_no_reference=(
                "requires a second run from the same start, which --in-place rules out"
            ),
        )
    if len(record.of(ActKind.START)) < 2 or spec.is_pool:
        return record
    return replace(
        record,
        reference=_alone(moved(spec, home, scratch / "work-alone"), options, scratch, record, tell),
    )


def costs(record: Record) -> Costs:
    """Return R_up, R_dw and all stalls of a rehearsal."""

    def median(kind: ActKind) -> float | None:
        stalls_s = [seconds for played in record.of(kind) for seconds in played.stalls_s]
        return statistics.median(stalls_s) if stalls_s else None

    stalls = tuple(
        (str(played.act), seconds)
        for played in record.played
        for seconds in _stalls(record, played)
    )
    return Costs(median(ActKind.GROW), median(ActKind.SHRINK), stalls)


def _stalls(record: Record, played: Played) -> tuple[float, ...]:
    """Return the stalls of an act; after a start of the driver, the time until the first step."""
    if played.act.kind not in (ActKind.START, ActKind.KILL_ALL):
        return played.stalls_s
    first = [
        float(part.first["time"])
        for part in stretches(record.lines)
        if float(part.first["time"]) >= played.at_s
    ]
    return (first[0] - played.at_s,) if first else ()


def _play(player: Player, acts: tuple[Act, ...], writes: Writes, tell: Tell) -> Record:
    """Play the acts until one does not go as expected, and return the record of what happened."""
    played: list[Played] = []
    left: tuple[int, ...] = ()
    for act in acts:
        tell(str(act))
        if act.kind in LEAVES:
            writes.forget()
        done = player.play(act)
        played.append(done)
        if act.kind in LEAVES and done.outcome is TrialOutcome.OK:
            left = left or player.left()
        if done.outcome is not TrialOutcome.OK or _was_killed(player, done):
            break
    player.look()
    ranks = tuple(sorted(player.ranks, key=lambda line: line.at_s))
    return Record(
        acts,
        tuple(played),
        tuple(player.lines),
        tuple(player.events),
        saved=writes.saved(),
        left=left,
        ranks=ranks,
    )


def _was_killed(player: Player, played: Played) -> bool:
    """Whether workers ignored the stop request of an act, and were killed.

    Every further change would then take ``stop_s``, with the same result.
    """
    return played.act.kind in LEAVES and any(
        e.get("event") == DriverEvent.WORKER_EXITED
        and e.get("status") == -9
        and e.get("planned")
        and e["time"] >= played.at_s
        for e in player.events
    )


def _is_whole(record: Record) -> bool:
    last = record.played[-1]
    return len(record.played) == len(record.acts) and last.outcome is TrialOutcome.OK


def _alone(
    spec: TrainerSpec, options: Options, scratch: Path, record: Record, tell: Tell
) -> tuple[Line, ...]:
    """Return the lines of the reference run: the same work without a stop, up to the last step of
    the second start.
    """
    starts = record.of(ActKind.START)
    lines = [
        x for x in record.lines if is_whole(x.get("step")) and float(x["time"]) <= starts[1].until_s
    ]
    if not lines:
        return ()
    tell("the reference run, without a stop")
    player = Player(scratch / "trainers-alone", spec, options)
    try:
        player.play(Act(ActKind.START, record.acts[0].nodes))
        player.run_on(int(lines[-1]["step"]))
    finally:
        player.end()
    return tuple(player.lines)
