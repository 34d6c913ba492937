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
    Trial,
    TrialOutcome,
    boundaries,
    is_whole,
    stretches,
    stride,
)
from bftrainer.console.rehearsal.scenario import ENDING_ACTS, Act, ActKind
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
            _start_finding(record, spec),
            _stop_finding(record, spec),
            _kill_finding(record, is_pool=True),
            _process_finding(record),
        ]
    scaling = spec.scaling or samples.scaling_of(record)
    return [
        _start_finding(record, spec),
        _stop_finding(record, spec),
        _checkpoint_finding(record),
        _change_finding(record),
        _contiguity_finding(record),
        samples.judge(record, scaling, spec.global_batch),
        _kill_finding(record),
        _truncation_finding(record),
        _state_finding(record),
        ranks.judge(record),
        rates.judge(record, scaling),
        order.judge(record),
        random_numbers.judge(record),
        _process_finding(record),
    ]


def has_passed(findings: list[RehearsalFinding]) -> bool:
    """Whether no check failed and the scenario was played to its end; other checks may be
    undecided.

    ``findings`` are those of :func:`judge`: the first check passes only if all acts were played.
    """
    return findings[0].verdict is CheckVerdict.PASS and all(
        finding.verdict is not CheckVerdict.FAIL for finding in findings
    )


def _log_end(tail: tuple[str, ...]) -> str:
    """Return the last words of a log, to be put behind an observation; empty if it has none."""
    words = last_words(tail)
    return f"; its log ends: {words}" if words else ""


def _missing_files_remedy(record: Record) -> str:
    """Say what to do about files that the copy of the working directory lacks."""
    return (
        f"{', '.join(record.missing)}: outside the working directory, which the rehearsal "
        "copies. Name the data by an absolute "
        "path, put a link to them into the working directory, or use --in-place"
    )


def _no_step_remedy(record: Record, spec: TrainerSpec) -> str:
    """Say what to do about a script that reports no step."""
    if spec.is_pool:
        return (
            "rehearse a pool with bftrainer.progress.tasks: what workers of another engine "
            "do is not known here"
        )
    hint = launcher_traits(spec.launcher).step_hint
    if hint:
        return hint
    if record.lines:
        return "report.step(step=...) must have a number: lines came without one"
    return (
        "bftrainer.progress: report.step(step=..., samples=..., loss=..., world_size=...) "
        "after each step"
    )


def _hang_remedy(record: Record, spec: TrainerSpec, hung_at: str, *, has_steps: bool) -> str:
    """Say what to do about a worker that was at ``hung_at``, a call, when the time of an act was
    over. ``has_steps``: whether any step was reported.
    """
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
        f"{_no_step_remedy(record, spec)}"
    )


def _early_end_finding(record: Record, act: Act, check: RehearsalCheck) -> RehearsalFinding:
    """Return the finding on a script that ended with status 0 during ``act``.

    It ended too early, which is a failure, or had nothing left to do.
    """
    parts = stretches(record.lines)
    step = f" at step {parts[-1].last_line['step']}" if parts else ""
    # Without a total, nothing shows that training was not complete.
    count, total = record.progress() or (0.0, math.inf)
    resume_remedy = (
        "a resumed run must go on where the checkpoint was written: a data loader that was saved "
        "at the end of its epoch gives no batch. Save and load its position (progress.Sampler, "
        "Training)"
    )
    is_complete = count >= COMPLETE * total
    if record.resumed_without_a_step() and not is_complete:
        return check.failed(
            f"{act}: ends with status 0 after a resume, without one "
            f"step{step and f' (it had stopped{step})'}",
            f"{resume_remedy}. If training was complete, give it more work (--set command=[...])",
        )
    if total < math.inf and not is_complete:
        return check.failed(
            f"{act}: ends with status 0{step}, after {count:,.0f} of {total:,.0f} samples",
            resume_remedy,
        )
    return check.undecided(
        f"training was complete{step}, in the act: {act}",
        "give it more work (--set command=[...]), and leave no checkpoint of a finished "
        "run in its directory",
    )


def _start_finding(record: Record, spec: TrainerSpec) -> RehearsalFinding:
    """Check that the trainer starts, reports steps, and that all acts but stops ended as
    expected.
    """
    check = RehearsalCheck("starts", "starts and reports its steps")
    parts = stretches(record.lines)
    # No act is played after one that did not end as expected.
    failure = next(
        (played for played in record.played if played.outcome is not TrialOutcome.OK), None
    )
    if failure is not None and failure.outcome is TrialOutcome.DONE:
        return _early_end_finding(record, failure.act, check)
    if failure is not None and failure.act.kind not in ENDING_ACTS:
        place = f"; a worker is at {failure.hung_at}" if failure.hung_at else ""
        reason = failure.reason or failure.outcome.value
        return check.failed(
            f"{failure.act}: {reason}{place}{_log_end(failure.tail)}",
            _act_remedy(record, spec, failure, has_steps=bool(parts)),
        )
    if not parts:
        return check.failed("no step was reported", _no_step_remedy(record, spec))
    first_step_s = float(parts[0].first_line["time"]) - record.played[0].at_s
    return check.passed(
        f"{counted(len(parts), 'time')}; the first step {first_step_s:.1f} s after the first start"
    )


def _act_remedy(record: Record, spec: TrainerSpec, played: Played, *, has_steps: bool) -> str:
    """Say what to do about an act, but for stops, that did not end as expected. ``has_steps``:
    whether any step was reported.
    """
    if record.missing:
        return _missing_files_remedy(record)
    if played.outcome is TrialOutcome.TIMEOUT and played.hung_at:
        return _hang_remedy(record, spec, played.hung_at, has_steps=has_steps)
    if played.outcome is TrialOutcome.TIMEOUT and not has_steps:
        return _no_step_remedy(record, spec)
    if played.reason.startswith(DriverEvent.HUNG.value):
        return (
            "call report.busy() in each batch of a long evaluation, or raise hang_s "
            "in the trainer file"
        )
    if played.outcome is TrialOutcome.TIMEOUT:
        return "allow more time (--patience-s), or read the logs (--keep)"
    return "read the logs (--keep)"


def _stop_finding(record: Record, spec: TrainerSpec) -> RehearsalFinding:
    """Check that workers leave by themselves when they are asked to, within ``stop_s``.

    A stop during which training was complete shows nothing.
    """
    check = RehearsalCheck("stops", "leaves when asked to stop")
    stops = [
        played
        for played in record.played_of_kinds(*ENDING_ACTS)
        if played.outcome is not TrialOutcome.DONE
    ]
    if not stops:
        return check.undecided("it was not asked to stop")
    longest_leaving_s = longest_stop_s = 0.0
    for played in stops:
        killed_count = _killed_count(record, played)
        if killed_count:
            how = f"or on {spec.stop_signal}" if spec.stop_signal else "(or set stop_signal)"
            return check.failed(
                f"{played.act}: {counted(killed_count, 'worker')} still running after stop_s = "
                f"{spec.stop_s:g} s, and killed",
                f"leave when report.step(...) returns True {how}; or raise stop_s, if the "
                "checkpoint takes that long",
            )
        if played.outcome is not TrialOutcome.OK:
            return check.failed(
                f"{played.act}: {played.reason or played.outcome.value}", "read its log (--keep)"
            )
        longest_leaving_s = max(longest_leaving_s, _leaving_s(record, played))
        longest_stop_s = max(longest_stop_s, played.until_s - played.at_s)
    count = len(stops)
    return check.passed(
        f"{count} of {count} times; the slowest worker left {longest_leaving_s:.1f} s after it was "
        f"asked to (after stop_s = {spec.stop_s:g} s it would have been killed); "
        f"{longest_stop_s:.1f} s until its driver had ended as well"
    )


def _leaving_s(record: Record, played: Played) -> float:
    """Return the seconds from the driver's request to the end of the last worker, which ``stop_s``
    limits. Where the driver has not reported them, the act's begin and end count.
    """
    events = [
        event for event in record.events if played.at_s <= float(event["time"]) <= played.until_s
    ]
    requests_s = [
        float(event["time"]) for event in events if event.get("event") == DriverEvent.STOPPING
    ]
    exits_s = [
        float(event["time"]) for event in events if event.get("event") == DriverEvent.WORKER_EXITED
    ]
    return max(exits_s, default=played.until_s) - min(requests_s, default=played.at_s)


def _killed_count(record: Record, played: Played) -> int:
    """Return the number of workers that the driver had to kill in a stop."""
    return sum(
        1
        for event in record.events
        if event.get("event") == DriverEvent.WORKER_EXITED
        and event.get("planned")
        and event.get("status") == -9
        and played.at_s <= float(event["time"]) <= played.until_s
    )


def _first_step(record: Record) -> int:
    """Return the first step of the rehearsal; it has one."""
    return int(stretches(record.lines)[0].first_line["step"])


def _checkpoint_finding(record: Record) -> RehearsalFinding:
    """Check that each further start goes on where the workers were stopped."""
    check = RehearsalCheck("checkpoint", "resumes from its checkpoint")
    starts = [change for change in boundaries(record) if change.act.kind is ActKind.START]
    if not starts:
        return check.undecided("it was not started a second time")
    gap, first_step = stride(record), _first_step(record)
    for change in starts:
        last_step, resumed_step = change.last_step, change.next_step
        if resumed_step <= first_step + gap and last_step > first_step + 2 * gap:
            return check.failed(
                f"stopped at step {last_step}, started again at step {resumed_step}: "
                "all work was lost",
                "save a checkpoint when asked to stop, and load it at the start",
            )
        problem = _lost_steps_text(change, gap)
        if problem is not None:
            return check.failed(
                problem, "save when asked to stop, before report.leave(); load it at the start"
            )
    steps = ", ".join(f"{change.last_step} -> {change.next_step}" for change in starts)
    return check.passed(f"last step before and first after: {steps}")


def _lost_steps_text(change: Boundary, gap: int) -> str | None:
    """Say how many steps were lost or skipped in a planned change; None if the next step follows
    the last one. ``gap`` is the usual number of steps between two lines.
    """
    last_step, next_step = change.last_step, change.next_step
    if next_step < last_step - gap:
        return f"{change.act}: {last_step - next_step} steps were lost ({last_step} -> {next_step})"
    if next_step > last_step + 2 * gap:
        skipped_count = next_step - last_step - 1
        return f"{change.act}: {skipped_count} steps were skipped ({last_step} -> {next_step})"
    return None


def _change_finding(record: Record) -> RehearsalFinding:
    """Check that growing, shrinking and moving lose no step."""
    check = RehearsalCheck("changes", "growing, shrinking, moving lose no step")
    changes = [change for change in boundaries(record) if change.act.kind in _PLANNED]
    if not changes:
        return check.undecided("its nodes were not changed")
    gap = stride(record)
    for change in changes:
        problem = _lost_steps_text(change, gap)
        if problem is not None:
            return check.failed(problem, "save when asked to stop, or commit more often")
    return check.passed(
        ", ".join(
            f"{change.act.kind.value} {change.last_step} -> {change.next_step}"
            for change in changes
        )
    )


def _contiguity_finding(record: Record) -> RehearsalFinding:
    """Check that no step is missing or repeated within a stretch.

    Undecided if the lines have different numbers of steps between them.
    """
    check = RehearsalCheck("contiguous", "steps are contiguous")
    parts = stretches(record.lines)
    if not parts:
        return check.undecided("no step was reported")
    usual_gap, widest_gap = stride(record), 0
    for part in parts:
        for old, new in itertools.pairwise(part.lines):
            widest_gap = max(widest_gap, new["step"] - old["step"])
            if new["step"] < old["step"] or (usual_gap == 1 and widest_gap > 1):
                return check.failed(
                    f"step {new['step']} follows step {old['step']} within one run",
                    "count every step once, on rank 0, and report it",
                )
    if widest_gap > usual_gap:
        return check.undecided(
            f"{usual_gap} to {widest_gap} steps between two lines, so a missing step would not be "
            "noticed",
            "call report.step(...) after every step",
        )
    line_count = sum(len(part.lines) for part in parts)
    interval = "" if usual_gap == 1 else f", one line per {usual_gap} steps"
    return check.passed(
        f"{counted(line_count, 'line')} in {counted(len(parts), 'stretch', 'stretches')}, none "
        f"missing or repeated{interval}"
    )


def _kill_finding(record: Record, *, is_pool: bool = False) -> RehearsalFinding:
    """Check that a kill of workers costs no more than the work since the last checkpoint.

    A pool has no checkpoint: its workers only have to go on.
    """
    check = RehearsalCheck("kill", "survives kill -9 of workers")
    kills = record.played_of_kinds(*_KILLS)
    if not kills:
        return check.undecided("no worker was killed")
    last_kill = kills[-1]  # the only one that may have failed
    if last_kill.outcome not in (TrialOutcome.OK, TrialOutcome.DONE):
        reason = last_kill.reason or last_kill.outcome.value
        return check.failed(
            f"{last_kill.act}: {reason}{_log_end(last_kill.tail)}",
            "resume from the last checkpoint, on the nodes that are left",
        )
    changes = [change for change in boundaries(record) if change.act.kind in _KILLS]
    if not changes:
        return check.undecided("no step was reported after it")
    if not is_pool:
        first_step, gap = _first_step(record), stride(record)
        for change in changes:
            loss = _excess_loss(change, first_step, gap)
            if loss is not None:
                observation, remedy = loss
                return check.failed(observation, remedy)
    return check.passed(
        "; ".join(f"{change.act}: {change.last_step} -> {change.next_step}" for change in changes)
    )


def _excess_loss(change: Boundary, first_step: int, gap: int) -> tuple[str, str] | None:
    """Return an observation and a remedy, if a kill cost more than the work since the last
    checkpoint; else None.

    ``first_step`` is the first step of the rehearsal, ``gap`` the usual number of steps between two
    lines.
    """
    last_step, resumed_step = change.last_step, change.next_step
    observation = f"{change.act} at step {last_step}, resumed at step {resumed_step}"
    if change.saved is not None and resumed_step < change.saved - gap:
        return (
            f"{observation}: its last checkpoint was at step {change.saved}",
            "load the last checkpoint at the start",
        )
    if resumed_step <= first_step + gap < last_step - gap:
        return (
            f"{observation}: all work was lost",
            "save checkpoints regularly, not only when asked to stop",
        )
    if resumed_step > last_step + 2 * gap:
        return f"{observation}: steps were skipped", "save steps, samples and weights together"
    return None


def _truncation_finding(record: Record) -> RehearsalFinding:
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
        effect = _truncation_effect(record, trial)
        if effect is not None:
            return check.failed(
                f"{trial.file} is written in place; with half of it {effect}",
                "write the checkpoint under another name, then rename it (os.replace): a kill "
                "leaves the old one or the new",
            )
    observations = []
    if record.saved.renamed:
        observations.append(f"renamed into place: {', '.join(record.saved.renamed)}")
    observations += [
        f"with half of {trial.file} it resumed at step {trial.step}" for trial in record.trials
    ]
    return check.passed("; ".join(observations))


def _truncation_effect(record: Record, trial: Trial) -> str | None:
    """Say what went wrong in a start with half of a file; None if the script resumed from another
    checkpoint.
    """
    if trial.outcome is not TrialOutcome.OK:
        words = last_words(trial.tail)
        log_end = f": {words}" if words else ""
        return f"the script ends ({trial.reason or trial.outcome.value}){log_end}"
    if trial.step is None or trial.step <= _first_step(record) + stride(record):
        return f"the script starts from scratch at step {trial.step}"
    return None


def _state_finding(record: Record) -> RehearsalFinding:
    """Check that a start restores weights and optimizer
    (:mod:`~bftrainer.console.rehearsal.resumed`).

    The lines around the second start are compared with those of the reference run.
    """
    check = resumed.CHECK
    loss_problem = resumed.not_finite((*record.lines, *(record.reference or ())))
    if loss_problem:
        return check.failed(
            loss_problem,
            "training has diverged: lower the learning rate, clip gradients, check the data",
        )
    if _checkpoint_finding(record).verdict is not CheckVerdict.PASS:
        return check.undecided("it did not resume from a checkpoint")
    starts_s = [played.at_s for played in record.played_of_kinds(ActKind.START)]
    if len(starts_s) < 2:
        return check.undecided(record.no_reference_reason or "the rehearsal did not get that far")
    weights_problem = weight_digests.of_another_step(record)
    if weights_problem is not None:
        observation, remedy = weights_problem
        return check.failed(observation, remedy)
    if record.reference is None:
        return check.undecided(record.no_reference_reason or "the rehearsal did not get that far")
    begin_s = starts_s[1]
    end_s = min(
        (played.at_s for played in record.played if played.at_s > begin_s), default=math.inf
    )
    lines = [line for part in stretches(record.lines) for line in part.lines]
    return resumed.compare(
        reference=[line for line in record.reference if is_whole(line.get("step"))],
        before=[line for line in lines if float(line["time"]) < begin_s],
        after=[line for line in lines if begin_s <= float(line["time"]) < end_s],
    )


def _process_finding(record: Record) -> RehearsalFinding:
    """Check that no process of the trainer is left after it was stopped."""
    check = RehearsalCheck("left", "leaves no process behind")
    if not record.played_of_kinds(*ENDING_ACTS):
        return check.undecided("it was not asked to stop")
    if record.left:
        return check.failed(
            f"still running after it had left: {', '.join(map(str, record.left))}",
            "end all processes that the script starts",
        )
    return check.passed("none of its processes was running after it had left")
