"""A rehearsal's verdict: what was seen, judged check by check. Pure."""

from __future__ import annotations

import itertools

from bftrainer.config.trainer_file import TrainerSpec
from bftrainer.protocol.events import DriverEvent
from bftrainer.rehearsal import resumed, samples
from bftrainer.rehearsal.finding import CheckVerdict, RehearsalFinding
from bftrainer.rehearsal.record import Boundary, Played, Record, TrialOutcome, boundaries, is_whole, stretches, stride
from bftrainer.rehearsal.scenario import LEAVES, ActKind

_KILLS = (ActKind.KILL, ActKind.KILL_ALL)
_PLANNED = (ActKind.GROW, ActKind.SHRINK, ActKind.MOVE)


def judge(record: Record, spec: TrainerSpec) -> list[RehearsalFinding]:
    """Every check, in the order in which a reader asks."""
    return [
        _starts(record),
        _stops(record, spec),
        _checkpoint(record),
        _changes(record),
        _contiguous(record),
        samples.judge(record, spec.scaling, spec.global_batch),
        _kill(record),
        _half(record),
        _state(record),
        _left(record),
    ]


def has_passed(findings: list[RehearsalFinding]) -> bool:
    """Nothing failed, and the scenario was played to its end: the other checks need not be told."""
    return findings[0].verdict is CheckVerdict.PASS and all(
        finding.verdict is not CheckVerdict.FAIL for finding in findings
    )


def trouble(record: Record) -> Played | None:
    """The act that did not go as expected; nothing was played after it."""
    return next((played for played in record.played if played.outcome is not TrialOutcome.OK), None)


def _starts(record: Record) -> RehearsalFinding:
    name, title = "starts", "starts and reports its steps"
    parts, bad = stretches(record.lines), trouble(record)
    if bad is not None and bad.outcome is TrialOutcome.DONE:
        step = f" at step {parts[-1].last['step']}" if parts else ""
        return RehearsalFinding(
            name, title, CheckVerdict.CANNOT_TELL, f"training was complete{step}, in the act: {bad.act}",
            "give it more work (--set command=[...]), and leave no checkpoint of a finished run in its directory",
        )  # fmt: skip
    if bad is not None and bad.act.kind not in LEAVES:
        last = f"; its log ends: {bad.tail[-1]}" if bad.tail else ""
        if not parts and bad.outcome is TrialOutcome.TIMEOUT:
            remedy = "bftrainer.progress: report.step(step=..., samples=..., loss=..., world_size=...) after each step"
        else:
            remedy = "look into the logs (--keep); or more time (--patience-s)"
        return RehearsalFinding(
            name, title, CheckVerdict.FAIL, f"{bad.act}: {bad.reason or bad.outcome.value}{last}", remedy
        )
    if not parts:
        return RehearsalFinding(
            name, title, CheckVerdict.FAIL, "no step was reported", "report each step: bftrainer.progress"
        )
    first = record.played[0]
    took = float(parts[0].first["time"]) - first.at_s
    return RehearsalFinding(
        name, title, CheckVerdict.PASS, f"{len(parts)} times on; the first step {took:.1f} s after the first start"
    )


def _stops(record: Record, spec: TrainerSpec) -> RehearsalFinding:
    name, title = "stops", "leaves when it is asked to"
    leaves = [played for played in record.of(*LEAVES) if played.outcome is not TrialOutcome.DONE]
    if not leaves:
        return RehearsalFinding(name, title, CheckVerdict.CANNOT_TELL, "it was not asked", "")
    slowest = 0.0
    for played in leaves:
        if killed := _killed(record, played):
            how = f"or on {spec.stop_signal}" if spec.stop_signal else "(or name a stop_signal)"
            return RehearsalFinding(
                name, title, CheckVerdict.FAIL,
                f"{played.act}: {killed} worker(s) still there after stop_s = {spec.stop_s:g} s, and killed",
                f"leave when report.step(...) returns True {how}; or a longer stop_s, if it is the checkpoint that takes long",
            )  # fmt: skip
        if played.outcome is not TrialOutcome.OK:
            return RehearsalFinding(
                name, title, CheckVerdict.FAIL, f"{played.act}: {played.reason or played.outcome.value}", "see its log"
            )
        slowest = max(slowest, played.until_s - played.at_s)
    return RehearsalFinding(
        name,
        title,
        CheckVerdict.PASS,
        f"{len(leaves)} of {len(leaves)} times, within {slowest:.1f} s (stop_s = {spec.stop_s:g})",
    )


def _killed(record: Record, played: Played) -> int:
    """Workers that the driver had to kill."""
    return sum(
        1
        for event in record.events
        if event.get("event") == DriverEvent.WORKER_EXITED
        and event.get("planned")
        and event.get("status") == -9
        and played.at_s <= float(event["time"]) <= played.until_s
    )


def _checkpoint(record: Record) -> RehearsalFinding:
    name, title = "checkpoint", "goes on from its checkpoint"
    starts = [b for b in boundaries(record) if b.act.kind is ActKind.START]
    if not starts:
        return RehearsalFinding(name, title, CheckVerdict.CANNOT_TELL, "it was not started a second time", "")
    gap = stride(record)
    begin = int(stretches(record.lines)[0].first["step"])
    for b in starts:
        step, last = int(b.after["step"]), int(b.before["step"])
        if step <= begin + gap and last > begin + 2 * gap:
            return RehearsalFinding(
                name, title, CheckVerdict.FAIL, f"stopped at step {last}, started again at step {step}: all was lost",
                "save a checkpoint when a stop is asked for, and load it at the start",
            )  # fmt: skip
        if (wrong := _wrong(b, gap)) is not None:
            return RehearsalFinding(
                name,
                title,
                CheckVerdict.FAIL,
                wrong,
                "save at the stop request, before report.leave(); load it at the start",
            )
    told = ", ".join(f"{b.before['step']} -> {b.after['step']}" for b in starts)
    return RehearsalFinding(name, title, CheckVerdict.PASS, f"last step before and first after: {told}")


def _wrong(b: Boundary, gap: int) -> str | None:
    """A planned change: the next step follows."""
    step, last = int(b.after["step"]), int(b.before["step"])
    if step < last - gap:
        return f"{b.act}: {last - step} steps were lost ({last} -> {step})"
    if step > last + 2 * gap:
        return f"{b.act}: {step - last - 1} steps were left out ({last} -> {step})"
    return None


def _changes(record: Record) -> RehearsalFinding:
    name, title = "changes", "growing, shrinking, moving lose no step"
    changes = [b for b in boundaries(record) if b.act.kind in _PLANNED]
    if not changes:
        return RehearsalFinding(name, title, CheckVerdict.CANNOT_TELL, "its nodes were not changed", "")
    gap = stride(record)
    wrong = [text for b in changes if (text := _wrong(b, gap)) is not None]
    if wrong:
        return RehearsalFinding(
            name, title, CheckVerdict.FAIL, wrong[0], "save at the stop request, or commit more often"
        )
    told = ", ".join(f"{b.act.kind.value} {b.before['step']} -> {b.after['step']}" for b in changes)
    return RehearsalFinding(name, title, CheckVerdict.PASS, told)


def _contiguous(record: Record) -> RehearsalFinding:
    name, title = "contiguous", "steps are contiguous"
    parts = stretches(record.lines)
    if not parts:
        return RehearsalFinding(name, title, CheckVerdict.CANNOT_TELL, "no step was reported", "")
    gap, widest = stride(record), 0
    for part in parts:
        for old, new in itertools.pairwise(part.lines):
            widest = max(widest, new["step"] - old["step"])
            if new["step"] < old["step"] or (gap == 1 and widest > 1):
                return RehearsalFinding(
                    name, title, CheckVerdict.FAIL, f"step {new['step']} follows step {old['step']} within one run",
                    "count every step once, on rank 0, and report it",
                )  # fmt: skip
    if widest > gap:
        seen = f"{gap} to {widest} steps from one line to the next, so a missing one is not seen"
        return RehearsalFinding(name, title, CheckVerdict.CANNOT_TELL, seen, "call report.step(...) after every step")
    total = sum(len(part.lines) for part in parts)
    lines = "line" if total == 1 else "lines"
    every = "" if gap == 1 else f", one line for {gap} steps"
    return RehearsalFinding(
        name,
        title,
        CheckVerdict.PASS,
        f"{total} {lines} in {len(parts)} stretch{'es' * (len(parts) > 1)}, none missing or twice{every}",
    )


def _kill(record: Record) -> RehearsalFinding:
    name, title = "kill", "survives kill -9 of workers"
    killed = record.of(*_KILLS)
    if not killed:
        return RehearsalFinding(name, title, CheckVerdict.CANNOT_TELL, "no worker was killed", "")
    if killed[-1].outcome not in (TrialOutcome.OK, TrialOutcome.DONE):
        last = f"; its log ends: {killed[-1].tail[-1]}" if killed[-1].tail else ""
        seen = f"{killed[-1].act}: {killed[-1].reason or killed[-1].outcome.value}{last}"
        return RehearsalFinding(
            name, title, CheckVerdict.FAIL, seen, "it must go on from its last checkpoint, on the nodes that are left"
        )
    found = [b for b in boundaries(record) if b.act.kind in _KILLS]
    if not found:
        return RehearsalFinding(name, title, CheckVerdict.CANNOT_TELL, "no step was reported after it", "")
    begin, gap = int(stretches(record.lines)[0].first["step"]), stride(record)
    for b in found:
        if (wrong := _fell_too_far(b, begin, gap)) is not None:
            return RehearsalFinding(name, title, CheckVerdict.FAIL, *wrong)
    return RehearsalFinding(
        name, title, CheckVerdict.PASS, "; ".join(f"{b.act}: {b.before['step']} -> {b.after['step']}" for b in found)
    )


def _fell_too_far(b: Boundary, begin: int, gap: int) -> tuple[str, str] | None:
    """What was seen and what to do, if a kill cost more than the work since the last checkpoint."""
    step, last = int(b.after["step"]), int(b.before["step"])
    seen = f"{b.act} at step {last}, went on at step {step}"
    if b.saved is not None and step < b.saved - gap:
        return f"{seen}: its last checkpoint was that of step {b.saved}", "load the last checkpoint at the start"
    if step <= begin + gap < last - gap:
        return f"{seen}: all was lost", "save checkpoints, not only when a stop is asked for"
    if step > last + 2 * gap:
        return f"{seen}: steps were left out", "save steps, samples and weights together"
    return None


def _half(record: Record) -> RehearsalFinding:
    name, title = "atomic", "a kill while it saves does no harm"
    if record.trials is None:
        return RehearsalFinding(name, title, CheckVerdict.CANNOT_TELL, "the rehearsal did not get there", "")
    if not record.trials and not record.saved.renamed:
        return RehearsalFinding(
            name, title, CheckVerdict.CANNOT_TELL, "it saved nothing below its working directory",
            "give the checkpoint a relative path for the rehearsal",
        )  # fmt: skip
    for trial in record.trials:
        begin = int(stretches(record.lines)[0].first["step"])
        if trial.outcome is not TrialOutcome.OK:
            last = f": {trial.tail[-1]}" if trial.tail else ""
            how = trial.reason or trial.outcome.value
            seen = f"{trial.file} is written in place; with half of it the script ends ({how}){last}"
        elif trial.step is None or trial.step <= begin + stride(record):
            seen = f"{trial.file} is written in place; with half of it the script begins anew at step {trial.step}"
        else:
            continue
        remedy = (
            "write the checkpoint under another name, then rename it (os.replace): a kill leaves the old one or the new"
        )
        return RehearsalFinding(name, title, CheckVerdict.FAIL, seen, remedy)
    told = [f"renamed into place: {', '.join(record.saved.renamed)}"] if record.saved.renamed else []
    told += [f"with half of {trial.file} it went on at step {trial.step}" for trial in record.trials]
    return RehearsalFinding(name, title, CheckVerdict.PASS, "; ".join(told))


def _state(record: Record) -> RehearsalFinding:
    name, title = "state", "weights and optimizer come back"
    starts = [p.at_s for p in record.of(ActKind.START)]
    if _checkpoint(record).verdict is not CheckVerdict.PASS:
        return RehearsalFinding(name, title, CheckVerdict.CANNOT_TELL, "it did not go on from a checkpoint", "")
    if record.reference is None or len(starts) < 2:
        return RehearsalFinding(
            name, title, CheckVerdict.CANNOT_TELL, record.why_no_reference or "the rehearsal did not get there", ""
        )
    ends = [p.at_s for p in record.played if p.at_s > starts[1]]
    lines = [line for part in stretches(record.lines) for line in part.lines]
    before = [line for line in lines if float(line["time"]) < starts[1]]
    after = [line for line in lines if starts[1] <= float(line["time"]) < (ends[0] if ends else float("inf"))]
    found = resumed.compare([line for line in record.reference if is_whole(line.get("step"))], before, after)
    return RehearsalFinding(name, title, found.verdict, found.seen, found.remedy)


def _left(record: Record) -> RehearsalFinding:
    name, title = "left", "leaves no process behind"
    if not record.of(*LEAVES):
        return RehearsalFinding(name, title, CheckVerdict.CANNOT_TELL, "it was not asked to leave", "")
    if record.left:
        pids = ", ".join(map(str, record.left))
        return RehearsalFinding(
            name, title, CheckVerdict.FAIL, f"still there after it had left: {pids}", "end what the script starts"
        )
    return RehearsalFinding(name, title, CheckVerdict.PASS, "none of its processes was there when it had left")
