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
from bftrainer.console.rehearsal.scenario import ENDING_ACTS, Act, ActKind, scenario, sizes_of
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

    All files are written below ``scratch``; with ``options.in_place``, the script writes in the
    trainer's own working directory. ``tell`` is called with each act, as text. ``where`` names the
    trainer file in errors: raises ``InputFileError`` if the working directory is too large to copy.
    """
    home = spec.cwd
    # Report every step, not one line per second; a worker that hangs can say where.
    spec = spec.model_copy(update={"env": {VARIABLE: "1", **spec.env, REPORT_EVERY_S: "0"}})
    played_spec = spec
    if not options.in_place:
        # The reference run needs a copy from before the rehearsal.
        copy_folder(home, scratch / "work", options.copy_bytes, where)
        copy_folder(home, scratch / "work-alone", options.copy_bytes, where)
        played_spec = moved(spec, home, scratch / "work")
    acts = scenario(*sizes_of(spec), options.quick)
    player = Player(scratch / "trainers", played_spec, options)
    with Writes(played_spec.cwd) as writes:
        try:
            record = _play_acts(player, acts, writes, tell)
            if _is_whole(record) and not spec.is_pool:
                trials = try_halves(
                    player,
                    record,
                    played_spec.cwd,
                    scratch / "saved",
                    tell,
                    in_place=options.in_place,
                )
                record = replace(record, trials=trials)
        finally:
            player.end()
    if options.in_place:
        return replace(
            record,
            no_reference_reason=(
                "requires a second run from the same start, which --in-place rules out"
            ),
        )
    tails = [line for played in record.played for line in played.tail]
    record = replace(record, missing=missing(tails, home, played_spec.cwd))
    if len(record.played_of_kinds(ActKind.START)) < 2 or spec.is_pool:
        return record
    reference_spec = moved(spec, home, scratch / "work-alone")
    return replace(
        record, reference=_reference_lines(reference_spec, options, scratch, record, tell)
    )


def costs(record: Record) -> Costs:
    """Return R_up, R_dw and all stalls of a rehearsal."""

    def median_s(kind: ActKind) -> float | None:
        """Return the median stall in acts of a kind; None if none was measured."""
        acts = record.played_of_kinds(kind)
        stalls_s = [stall_s for played in acts for stall_s in played.stalls_s]
        return statistics.median(stalls_s) if stalls_s else None

    stalls = tuple(
        (str(played.act), stall_s)
        for played in record.played
        for stall_s in _stalls_s(record, played)
    )
    return Costs(
        up_s=median_s(ActKind.GROW),
        down_s=median_s(ActKind.SHRINK),
        stalls=stalls,
    )


def _stalls_s(record: Record, played: Played) -> tuple[float, ...]:
    """Return the stalls of an act; after a start of the driver, the time until the first step."""
    if played.act.kind not in (ActKind.START, ActKind.KILL_ALL):
        return played.stalls_s
    first_steps_s = [float(part.first_line["time"]) for part in stretches(record.lines)]
    later_steps_s = [at_s for at_s in first_steps_s if at_s >= played.at_s]
    return (later_steps_s[0] - played.at_s,) if later_steps_s else ()


def _play_acts(player: Player, acts: tuple[Act, ...], writes: Writes, tell: Tell) -> Record:
    """Play the acts until one does not end as expected, and return the record so far.

    ``writes`` collects the files that are written; those of the last save stay in it.
    """
    played_acts: list[Played] = []
    remaining_pids: tuple[int, ...] = ()
    for act in acts:
        tell(str(act))
        if act.kind in ENDING_ACTS:
            writes.forget()
        played = player.play(act)
        played_acts.append(played)
        if act.kind in ENDING_ACTS and played.outcome is TrialOutcome.OK and not remaining_pids:
            remaining_pids = player.remaining_pids()
        if played.outcome is not TrialOutcome.OK or _has_killed_workers(player, played):
            break
    player.read_view()
    return Record(
        acts=acts,
        played=tuple(played_acts),
        lines=tuple(player.lines),
        events=tuple(player.events),
        saved=writes.saved(),
        left=remaining_pids,
        ranks=tuple(sorted(player.ranks, key=lambda line: line.at_s)),
    )


def _has_killed_workers(player: Player, played: Played) -> bool:
    """Whether workers ignored the stop request of an act, and the driver killed them.

    Every further change would then take ``stop_s``, with the same result.
    """
    return played.act.kind in ENDING_ACTS and any(
        event.get("event") == DriverEvent.WORKER_EXITED
        and event.get("status") == -9
        and event.get("planned")
        and event["time"] >= played.at_s
        for event in player.events
    )


def _is_whole(record: Record) -> bool:
    """Whether all acts were played, and the last one ended as expected."""
    last = record.played[-1]
    return len(record.played) == len(record.acts) and last.outcome is TrialOutcome.OK


def _reference_lines(
    spec: TrainerSpec, options: Options, scratch: Path, record: Record, tell: Tell
) -> tuple[Line, ...]:
    """Play the reference run, and return its lines: the same work without a stop, up to the last
    step of the second start. Empty if the rehearsal has no step until then.

    ``record`` has at least two starts.
    """
    end_s = record.played_of_kinds(ActKind.START)[1].until_s
    lines = [
        line for line in record.lines if is_whole(line.get("step")) and float(line["time"]) <= end_s
    ]
    if not lines:
        return ()
    tell("the reference run, without a stop")
    player = Player(scratch / "trainers-alone", spec, options)
    try:
        player.play(Act(ActKind.START, record.acts[0].nodes))
        player.run_to(int(lines[-1]["step"]))
    finally:
        player.end()
    return tuple(player.lines)
