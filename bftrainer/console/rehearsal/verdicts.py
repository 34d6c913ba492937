"""The verdict of a rehearsal: what was observed, judged check by check. Pure."""

from __future__ import annotations

import itertools
import math
import re

from bftrainer.config.trainer_file import TrainerSpec
from bftrainer.console.rehearsal import (
    order,
    random_numbers,
    ranks,
    rates,
    resumed,
    samples,
    weight_digests,
)
from bftrainer.console.rehearsal.finding import CheckVerdict, RehearsalCheck, RehearsalFinding
from bftrainer.console.rehearsal.record import (
    Boundary,
    Played,
    Record,
    TrialOutcome,
    boundaries,
    is_whole,
    stretches,
    stride,
)
from bftrainer.console.rehearsal.scenario import LEAVES, Act, ActKind
from bftrainer.counted import counted
from bftrainer.pilot.trainers.remarks import COMPLETE, last_words
from bftrainer.plugin_traits import launcher_traits
from bftrainer.wires.driver_events import DriverEvent

_KILLS = (ActKind.KILL, ActKind.KILL_ALL)
_GROUP = re.compile(
    r"init_process_group|rendezvous|barrier|all_reduce|allreduce|all_gather|allgather|broadcast|_create_c10d_store"
)
"""Calls in which a worker waits for others."""
_PLANNED = (ActKind.GROW, ActKind.SHRINK, ActKind.MOVE)


def judge(record: Record, spec: TrainerSpec) -> list[RehearsalFinding]:
    """Run all checks, in the order of their output.

    A pool has no state of its own: only its processes are checked.
    """
    if spec.is_pool:
        return [
            _starts(record, spec),
            _stops(record, spec),
            _kill(record, is_pool=True),
            _left(record),
        ]
    return [
        _starts(record, spec),
        _stops(record, spec),
        _checkpoint(record),
        _changes(record),
        _contiguous(record),
        samples.judge(record, spec.scaling, spec.global_batch),
        _kill(record),
        _half(record),
        _state(record),
        ranks.judge(record),
        rates.judge(record, spec.scaling),
        order.judge(record),
        random_numbers.judge(record),
        _left(record),
    ]


def has_passed(findings: list[RehearsalFinding]) -> bool:
    """Whether no check failed and the scenario was played to its end; other checks may be
    undecided.
    """
    return findings[0].verdict is CheckVerdict.PASS and all(
        finding.verdict is not CheckVerdict.FAIL for finding in findings
    )


def _log_end(tail: tuple[str, ...]) -> str:
    return f"; its log ends: {words}" if (words := last_words(tail)) else ""


def _missing(record: Record) -> str:
    """Say what to do about files that the copy of the working directory lacks."""
    return (
        f"{', '.join(record.missing)}: outside the working directory, which the rehearsal "
        "copies. Name the data by an absolute "
        "path, put a link to them into the working directory, or use --in-place"
    )


def _no_step(record: Record, spec: TrainerSpec) -> str:
    """Say what to do about a script that reports no step."""
    if spec.is_pool:
        return (
            "rehearse a pool with bftrainer.progress.tasks: what workers of another engine "
            "do is not known here"
        )
    if hint := launcher_traits(spec.launcher).step_hint:
        return hint
    if record.lines:
        return "report.step(step=...) must have a number: lines came without one"
    return (
        "bftrainer.progress: report.step(step=..., samples=..., loss=..., world_size=...) "
        "after each step"
    )


def _hung(record: Record, spec: TrainerSpec, hung_at: str, *, has_steps: bool) -> str:
    """Say what to do about a worker that was at ``hung_at`` when the time of an act was over."""
    if _GROUP.search(hung_at):
        return (
            "that call waits for the other workers: every worker that was started must make "
            "it, with the number of workers, "
            "the address and the port that its environment has (WORLD_SIZE, MASTER_ADDR, "
            "MASTER_PORT)"
        )
    if has_steps:
        return "see why it waits there, or allow more time (--patience-s); --keep keeps the logs"
    return (
        "if it waits there, see why (--keep keeps the logs); if it trains, "
        f"{_no_step(record, spec)}"
    )


def _done(record: Record, act: Act, check: RehearsalCheck) -> RehearsalFinding:
    """Return the finding on a script that ended with status 0 during the rehearsal.

    It ended too early, or had nothing left to do.
    """
    parts = stretches(record.lines)
    step = f" at step {parts[-1].last['step']}" if parts else ""
    count, total = record.progress() or (0.0, math.inf)
    go_on = (
        "a resumed run must go on where the checkpoint was written: a data loader that was saved "
        "at the end of its epoch gives no batch. Save and load its position (progress.Sampler, "
        "Training)"
    )
    is_complete = count >= COMPLETE * total
    if record.resumed_without_a_step() and not is_complete:
        return check.failed(
            f"{act}: ends with status 0 after a resume, without one "
            f"step{step and f' (it had stopped{step})'}",
            f"{go_on}. If training was complete, give it more work (--set command=[...])",
        )
    if total < math.inf and not is_complete:
        return check.failed(
            f"{act}: ends with status 0{step}, after {count:,.0f} of {total:,.0f} samples", go_on
        )
    return check.undecided(
        f"training was complete{step}, in the act: {act}",
        "give it more work (--set command=[...]), and leave no checkpoint of a finished "
        "run in its directory",
    )


def _starts(record: Record, spec: TrainerSpec) -> RehearsalFinding:
    """Check that the trainer starts, reports steps, and that all acts but stops went well."""
    check = RehearsalCheck("starts", "starts and reports its steps")
    parts = stretches(record.lines)
    # No act is played after one that did not go as expected.
    bad = next((played for played in record.played if played.outcome is not TrialOutcome.OK), None)
    if bad is not None and bad.outcome is TrialOutcome.DONE:
        return _done(record, bad.act, check)
    if bad is not None and bad.act.kind not in LEAVES:
        if record.missing:
            remedy = _missing(record)
        elif bad.outcome is TrialOutcome.TIMEOUT and bad.hung_at:
            remedy = _hung(record, spec, bad.hung_at, has_steps=bool(parts))
        elif not parts and bad.outcome is TrialOutcome.TIMEOUT:
            remedy = _no_step(record, spec)
        elif bad.reason.startswith(DriverEvent.HUNG.value):
            remedy = (
                "call report.busy() in each batch of a long evaluation, or raise hang_s "
                "in the trainer file"
            )
        elif bad.outcome is TrialOutcome.TIMEOUT:
            remedy = "allow more time (--patience-s), or read the logs (--keep)"
        else:
            remedy = "read the logs (--keep)"
        where = f"; a worker is at {bad.hung_at}" if bad.hung_at else ""
        return check.failed(
            f"{bad.act}: {bad.reason or bad.outcome.value}{where}{_log_end(bad.tail)}", remedy
        )
    if not parts:
        return check.failed("no step was reported", _no_step(record, spec))
    took = float(parts[0].first["time"]) - record.played[0].at_s
    return check.passed(
        f"{counted(len(parts), 'time')}; the first step {took:.1f} s after the first start"
    )


def _stops(record: Record, spec: TrainerSpec) -> RehearsalFinding:
    """Check that workers leave by themselves when they are asked to, within ``stop_s``."""
    check = RehearsalCheck("stops", "leaves when asked to stop")
    leaves = [played for played in record.of(*LEAVES) if played.outcome is not TrialOutcome.DONE]
    if not leaves:
        return check.undecided("it was not asked to stop")
    slowest = ended = 0.0
    for played in leaves:
        if killed := _killed(record, played):
            how = f"or on {spec.stop_signal}" if spec.stop_signal else "(or set stop_signal)"
            return check.failed(
                f"{played.act}: {counted(killed, 'worker')} still running after stop_s = "
                f"{spec.stop_s:g} s, and killed",
                f"leave when report.step(...) returns True {how}; or raise stop_s, if the "
                "checkpoint takes that long",
            )
        if played.outcome is not TrialOutcome.OK:
            return check.failed(
                f"{played.act}: {played.reason or played.outcome.value}", "read its log (--keep)"
            )
        slowest = max(slowest, _leaving_s(record, played))
        ended = max(ended, played.until_s - played.at_s)
    count = len(leaves)
    return check.passed(
        f"{count} of {count} times; the slowest worker left {slowest:.1f} s after it was asked "
        "to (after stop_s = "
        f"{spec.stop_s:g} s it would have been killed); {ended:.1f} s until its driver had "
        "ended as well"
    )


def _leaving_s(record: Record, played: Played) -> float:
    """Return the time from the driver's request to the end of the last worker, which ``stop_s``
    limits.
    """
    events = [
        event for event in record.events if played.at_s <= float(event["time"]) <= played.until_s
    ]
    requests = [
        float(event["time"]) for event in events if event.get("event") == DriverEvent.STOPPING
    ]
    left = [
        float(event["time"]) for event in events if event.get("event") == DriverEvent.WORKER_EXITED
    ]
    return max(left, default=played.until_s) - min(requests, default=played.at_s)


def _killed(record: Record, played: Played) -> int:
    """Return the number of workers that the driver had to kill in a stop."""
    return sum(
        1
        for event in record.events
        if event.get("event") == DriverEvent.WORKER_EXITED
        and event.get("planned")
        and event.get("status") == -9
        and played.at_s <= float(event["time"]) <= played.until_s
    )


def _checkpoint(record: Record) -> RehearsalFinding:
    """Check that each further start goes on where the last one stopped."""
    check = RehearsalCheck("checkpoint", "resumes from its checkpoint")
    starts = [b for b in boundaries(record) if b.act.kind is ActKind.START]
    if not starts:
        return check.undecided("it was not started a second time")
    gap = stride(record)
    begin = int(stretches(record.lines)[0].first["step"])
    for b in starts:
        step, last = int(b.after["step"]), int(b.before["step"])
        if step <= begin + gap and last > begin + 2 * gap:
            return check.failed(
                f"stopped at step {last}, started again at step {step}: all work was lost",
                "save a checkpoint when asked to stop, and load it at the start",
            )
        if (wrong := _discontinuity(b, gap)) is not None:
            return check.failed(
                wrong, "save when asked to stop, before report.leave(); load it at the start"
            )
    steps = ", ".join(f"{b.before['step']} -> {b.after['step']}" for b in starts)
    return check.passed(f"last step before and first after: {steps}")


def _discontinuity(b: Boundary, gap: int) -> str | None:
    """Return what is wrong if the next step after a planned change does not follow the last one;
    None if it does.
    """
    step, last = int(b.after["step"]), int(b.before["step"])
    if step < last - gap:
        return f"{b.act}: {last - step} steps were lost ({last} -> {step})"
    if step > last + 2 * gap:
        return f"{b.act}: {step - last - 1} steps were skipped ({last} -> {step})"
    return None


def _changes(record: Record) -> RehearsalFinding:
    """Check that growing, shrinking and moving lose no step."""
    check = RehearsalCheck("changes", "growing, shrinking, moving lose no step")
    changes = [b for b in boundaries(record) if b.act.kind in _PLANNED]
    if not changes:
        return check.undecided("its nodes were not changed")
    gap = stride(record)
    wrong = [text for b in changes if (text := _discontinuity(b, gap)) is not None]
    if wrong:
        return check.failed(wrong[0], "save when asked to stop, or commit more often")
    return check.passed(
        ", ".join(f"{b.act.kind.value} {b.before['step']} -> {b.after['step']}" for b in changes)
    )


def _contiguous(record: Record) -> RehearsalFinding:
    """Check that no step is missing or repeated within a stretch."""
    check = RehearsalCheck("contiguous", "steps are contiguous")
    parts = stretches(record.lines)
    if not parts:
        return check.undecided("no step was reported")
    gap, widest = stride(record), 0
    for part in parts:
        for old, new in itertools.pairwise(part.lines):
            widest = max(widest, new["step"] - old["step"])
            if new["step"] < old["step"] or (gap == 1 and widest > 1):
                return check.failed(
                    f"step {new['step']} follows step {old['step']} within one run",
                    "count every step once, on rank 0, and report it",
                )
    if widest > gap:
        return check.undecided(
            f"{gap} to {widest} steps between two lines, so a missing step would not be noticed",
            "call report.step(...) after every step",
        )
    total = sum(len(part.lines) for part in parts)
    every = "" if gap == 1 else f", one line per {gap} steps"
    return check.passed(
        f"{counted(total, 'line')} in {counted(len(parts), 'stretch', 'stretches')}, none missing "
        f"or repeated{every}"
    )


def _kill(record: Record, *, is_pool: bool = False) -> RehearsalFinding:
    """Check that a kill of workers costs no more than the work since the last checkpoint."""
    check = RehearsalCheck("kill", "survives kill -9 of workers")
    killed = record.of(*_KILLS)
    if not killed:
        return check.undecided("no worker was killed")
    if (last := killed[-1]).outcome not in (TrialOutcome.OK, TrialOutcome.DONE):
        return check.failed(
            f"{last.act}: {last.reason or last.outcome.value}{_log_end(last.tail)}",
            "resume from the last checkpoint, on the nodes that are left",
        )
    changes = [b for b in boundaries(record) if b.act.kind in _KILLS]
    if not changes:
        return check.undecided("no step was reported after it")
    begin, gap = int(stretches(record.lines)[0].first["step"]), stride(record)
    for b in changes:
        if not is_pool and (wrong := _excess_loss(b, begin, gap)) is not None:
            return check.failed(*wrong)
    return check.passed(
        "; ".join(f"{b.act}: {b.before['step']} -> {b.after['step']}" for b in changes)
    )


def _excess_loss(b: Boundary, begin: int, gap: int) -> tuple[str, str] | None:
    """Return an observation and a remedy, if a kill cost more than the work since the last
    checkpoint; else None.
    """
    step, last = int(b.after["step"]), int(b.before["step"])
    seen = f"{b.act} at step {last}, resumed at step {step}"
    if b.saved is not None and step < b.saved - gap:
        return (
            f"{seen}: its last checkpoint was at step {b.saved}",
            "load the last checkpoint at the start",
        )
    if step <= begin + gap < last - gap:
        return (
            f"{seen}: all work was lost",
            "save checkpoints regularly, not only when asked to stop",
        )
    if step > last + 2 * gap:
        return f"{seen}: steps were skipped", "save steps, samples and weights together"
    return None


def _half(record: Record) -> RehearsalFinding:
    """Check that a kill during a save does no harm: files are renamed into place, or half of one is
    tolerated.
    """
    check = RehearsalCheck("atomic", "a kill during a save does no harm")
    if record.trials is None:
        return check.undecided("the rehearsal did not get that far")
    if not record.trials and not record.saved.renamed:
        return check.undecided(
            "it saved nothing below its working directory",
            "use a relative checkpoint path for the rehearsal",
        )
    for trial in record.trials:
        begin = int(stretches(record.lines)[0].first["step"])
        if trial.outcome is not TrialOutcome.OK:
            last = f": {words}" if (words := last_words(trial.tail)) else ""
            effect = f"the script ends ({trial.reason or trial.outcome.value}){last}"
        elif trial.step is None or trial.step <= begin + stride(record):
            effect = f"the script starts from scratch at step {trial.step}"
        else:
            continue
        return check.failed(
            f"{trial.file} is written in place; with half of it {effect}",
            "write the checkpoint under another name, then rename it (os.replace): a kill "
            "leaves the old one or the new",
        )
    seen = (
        [f"renamed into place: {', '.join(record.saved.renamed)}"] if record.saved.renamed else []
    )
    seen += [
        f"with half of {trial.file} it resumed at step {trial.step}" for trial in record.trials
    ]
    return check.passed("; ".join(seen))


def _state(record: Record) -> RehearsalFinding:
    """Check that a start restores weights and optimizer
    (:mod:`~bftrainer.console.rehearsal.resumed`).
    """
    check = resumed.CHECK
    starts = [p.at_s for p in record.of(ActKind.START)]
    if wrong_loss := resumed.not_finite((*record.lines, *(record.reference or ()))):
        return check.failed(
            wrong_loss,
            "training has diverged: lower the learning rate, clip gradients, check the data",
        )
    if _checkpoint(record).verdict is not CheckVerdict.PASS:
        return check.undecided("it did not resume from a checkpoint")
    if len(starts) >= 2 and (wrong := weight_digests.of_another_step(record)) is not None:
        return check.failed(*wrong)
    if record.reference is None or len(starts) < 2:
        return check.undecided(record.why_no_reference or "the rehearsal did not get that far")
    ends = [p.at_s for p in record.played if p.at_s > starts[1]]
    end_s = ends[0] if ends else math.inf
    lines = [line for part in stretches(record.lines) for line in part.lines]
    before = [line for line in lines if float(line["time"]) < starts[1]]
    after = [line for line in lines if starts[1] <= float(line["time"]) < end_s]
    return resumed.compare(
        [line for line in record.reference if is_whole(line.get("step"))], before, after
    )


def _left(record: Record) -> RehearsalFinding:
    """Check that no process of the trainer is left after it was stopped."""
    check = RehearsalCheck("left", "leaves no process behind")
    if not record.of(*LEAVES):
        return check.undecided("it was not asked to stop")
    if record.left:
        return check.failed(
            f"still running after it had left: {', '.join(map(str, record.left))}",
            "end all processes that the script starts",
        )
    return check.passed("none of its processes was running after it had left")
