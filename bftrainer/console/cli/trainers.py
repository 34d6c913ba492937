"""``bftrainer list`` and ``show``: the registry's trainers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from bftrainer.console.cli.logs import wait_for_pilot
from bftrainer.console.cli.output import (
    clock_time,
    hours,
    json_option,
    length,
    number,
    say,
    show_json,
)
from bftrainer.console.cli.state import state_option
from bftrainer.console.cli.tables import (
    hanging,
    name_column,
    number_column,
    remark_column,
    show_facts,
    show_table,
    wide_option,
)
from bftrainer.console.client.remarks import remark_of
from bftrainer.console.client.state_dir import (
    has_registry,
    opened_registry,
    pending_submissions,
    pilot_has_ended,
    registered_trainers,
)
from bftrainer.counted import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bftrainer.config.trainer_file import TrainerSpec
    from bftrainer.pilot.persistence.registry import Registry, TrainerRecord, TrainerStatus
    from bftrainer.pilot.persistence.spool import Request

PENDING = "submitted"
"""The status of a submission that no pilot has read yet."""
STARTING = "starting"
LEAVING = "leaving"
PENDING_REMARK = "not read by a pilot yet"
NO_PILOT = "waits for a pilot, and none runs here (bftrainer pilot)"
_OUTPUT_SHOWN = 200
_NOTES = 1000
_EXACT_BELOW = 1e7
_COLUMNS = (
    name_column("name"),
    name_column("status"),
    number_column("nodes"),
    name_column("min-max", 2),
    number_column("samples", 1),
    number_column("left"),
    number_column("node-hours", 3),
    name_column("submitted", 4),
    remark_column("remark"),
)


@click.command("list")
@click.option(
    "--all", "everything", is_flag=True, help="Include trainers that are done, failed or canceled."
)
@click.option("--group", metavar="NAME", help="Only the trainers of a group.")
@wide_option
@state_option
@json_option
def list_trainers(
    everything: bool, group: str | None, wide: bool, state: Path, as_json: bool
) -> None:
    """List trainers: status, nodes, progress.

    \b
    Example:
      bftrainer list --all
      bftrainer list --group digits
    """
    from bftrainer.pilot.persistence.spool import open_state_dir

    folder = open_state_dir(state)
    present = allocation(folder)
    # First: a pilot registers a submission before it takes its file away.
    submissions = pending_submissions(folder)
    registered = [
        record for record in registered_trainers(folder) if group in (None, record.spec.group)
    ]
    names = {record.name for record in registered}
    submissions = [
        submission
        for submission in submissions
        if submission.trainer not in names and _is_of_group(submission, group)
    ]
    records = [record for record in registered if everything or not record.status.is_final]
    pending_remark = PENDING_REMARK if present.runs else NO_PILOT
    if as_json:
        show_json([_json_row(record, present, folder) for record in records])
        show_json([_pending_json_row(submission, pending_remark) for submission in submissions])
        return
    rows = [_row(record, present, folder) for record in records]
    for submission in submissions:
        if submission.spec is not None:
            row = _pending_row(submission.trainer, submission.spec, pending_remark)
            rows.append(row)
    show_table(_COLUMNS, rows, wide=wide)
    if present.refusal:
        say(hanging("", present.refusal))
    ended = [record for record in registered if record.status.is_final]
    if ended and not everything:
        say(hanging("", _ended(ended)))
    if way := _way(folder):
        say(hanging("", f"main jobs: {way}"))


def _way(folder: Path) -> str:
    """Say who frees nodes for main jobs (``nodes.give_way``); empty if no pilot has noted it."""
    from bftrainer.pilot.nodes.holding_permission import WAY_KINDS, way_of

    if not has_registry(folder):
        return ""
    with opened_registry(folder) as registry:
        return way_of(registry.last_note(WAY_KINDS)).partition(" (")[0]


def _is_of_group(submission: Request, group: str | None) -> bool:
    """Whether a submission belongs to the selected group; all do if none is selected."""
    if group is None:
        return True
    return submission.spec is not None and submission.spec.group == group


def _row(record: TrainerRecord, present: PresentAllocation, folder: Path) -> tuple[str, ...]:
    """The row of a trainer in the table."""
    nodes = len(present.nodes.get(record.name, ()))
    left_h = present.left_h(record)
    return (
        record.name,
        status_text(record, nodes),
        str(nodes),
        _size_range(record.spec),
        _progress(record),
        "" if left_h is None else length(3600 * left_h),
        hours(record.held_node_s),
        clock_time(record.submitted_s),
        _remark(record, present.pool, folder),
    )


def _pending_row(name: str, spec: TrainerSpec, remark: str) -> tuple[str, ...]:
    """The row of a submission that no pilot has read yet."""
    return (name, PENDING, "0", _size_range(spec), "", "", "", "", remark)


def _json_row(record: TrainerRecord, present: PresentAllocation, folder: Path) -> dict[str, object]:
    """The JSON object of a trainer in the list."""
    row = as_dict(record, present.nodes.get(record.name, ()))
    remark = _remark(record, present.pool, folder)
    return row | {"left_h": present.left_h(record), "remark": remark}


def _pending_json_row(submission: Request, remark: str) -> dict[str, object]:
    """The JSON object of a submission that no pilot has read yet."""
    return {"name": submission.trainer, "status": PENDING, "remark": remark}


def _size_range(spec: TrainerSpec) -> str:
    """The smallest and the largest number of nodes."""
    return f"{spec.min_nodes}-{spec.max_nodes}"


def _ended(records: Sequence[TrainerRecord]) -> str:
    """Say how many trainers have ended, and which ones failed last."""
    latest_first = sorted(records, key=lambda record: record.finished_s or 0.0, reverse=True)
    names: dict[TrainerStatus, list[str]] = {}
    for record in latest_first:
        names.setdefault(record.status, []).append(record.name)
    counts = [
        _ended_count(status, names[status])
        for status in sorted(names, key=lambda status: status.value)
    ]
    return f"ended: {', '.join(counts)}; `bftrainer list --all` shows them"


def _ended_count(status: TrainerStatus, names: list[str]) -> str:
    """Count the trainers with a final status; name up to three that failed."""
    from bftrainer.pilot.persistence.registry import TrainerStatus

    count = f"{len(names)} {status.value}"
    if status is not TrainerStatus.FAILED:
        return count
    examples = names[:3]
    if len(names) > 3:
        examples.append("...")
    return f"{count} ({', '.join(examples)})"


@click.command()
@click.argument("trainer", metavar="NAME")
@state_option
@json_option
def show(trainer: str, state: Path, as_json: bool) -> None:
    """Show one trainer in detail, with the estimates of its speed and the node counts at which it
    was measured.

    \b
    Example:
      bftrainer show digits
    """
    from bftrainer.console.cli.estimates import estimate_rows, estimates
    from bftrainer.pilot.persistence.journal import last_state

    with opened_registry(state) as registry:
        wait_for_pilot(state, trainer, follow=False)
        record = registry.trainer(trainer)
        notes = registry.notes(10, trainer)
        estimated = estimates(record, last_state(registry.store))
    facts = _facts(record, state)
    if as_json:
        shown_notes = [{"time": n.at_s, "kind": n.kind, "text": n.text} for n in notes]
        show_json([facts | estimated | {"notes": shown_notes}])
        return
    rows = [(key, _cell(key, value)) for key, value in facts.items()]
    rows += estimate_rows(estimated)
    rows += [(f"note {clock_time(n.at_s)}", f"{n.kind}: {n.text}") for n in notes]
    show_facts(rows, trainer)


def facts_of(state: Path, trainer: str) -> dict[str, str]:
    """What ``bftrainer show`` prints of a trainer, but for estimates and notes."""
    with opened_registry(state) as registry:
        record = registry.trainer(trainer)
    facts = _facts(record, state)
    return {key: _cell(key, value) for key, value in facts.items()}


def _facts(record: TrainerRecord, state: Path) -> dict[str, object]:
    now = allocation(state)
    facts = as_dict(record, now.nodes.get(record.name, ())) | {"left_h": now.left_h(record)}
    return facts | _reported(state, record.name)


def _reported(state: Path, trainer: str) -> dict[str, object]:
    """Collect what the training script reported last, and the paths of its output."""
    from bftrainer.console.client.history import latest_progress
    from bftrainer.pilot.persistence.spool import open_state_dir
    from bftrainer.wires.gpu_use import gpu_uses
    from bftrainer.wires.paths import TrainerDirectory
    from bftrainer.wires.task_board import TaskCounts
    from bftrainer.wires.typed_json import read_json

    directory = TrainerDirectory.of(open_state_dir(state), trainer)
    tasks: dict[str, object] = {}
    if directory.tasks.exists():
        counts = read_json(TaskCounts, directory.tasks)
        tasks = {
            "tasks": counts.tasks,
            "tasks_done": counts.done,
            "tasks_running": counts.running,
            "tasks_failed": counts.failed,
            "tasks_per_hour": counts.per_hour,
            "left_h": None if counts.left_s is None else counts.left_s / 3600,
            "results": counts.results,
            "failures_log": counts.failures,
        }
    latest, logs = latest_progress(directory), directory.latest_logs()
    gpus: dict[str, object] = {}
    if uses := gpu_uses(directory, time.time()):
        gpus["gpu_memory_gb"] = {name: use.used_bytes / 1e9 for name, use in uses.items()}
        gpus["gpu_percent"] = {name: use.percent for name, use in uses.items()}
    return {
        "step": latest and latest.step,
        "loss": latest and latest.loss,
        "metrics": {} if latest is None else latest.metrics,
        "samples_per_s": latest and latest.samples_per_s,
        "reported_s": latest and latest.at_s,
        "checkpoint": latest and latest.checkpoint,
        "log": str(logs[0]) if logs else None,
        "driver_log": str(directory.driver_log) if directory.driver_log.exists() else None,
        **gpus,
        **tasks,
    }


def as_dict(record: TrainerRecord, nodes: tuple[str, ...]) -> dict[str, object]:
    """The JSON object of a trainer."""
    spec = record.spec
    return {
        "name": record.name,
        "status": record.status.value,
        "reason": record.reason,
        "owner": record.owner,
        "launcher": spec.launcher,
        "command": list(spec.command),
        "cwd": str(spec.cwd),
        "nodes": list(nodes),
        "group": spec.group,
        "parameters": spec.parameters,
        "model": spec.model,
        "min_nodes": spec.min_nodes,
        "max_nodes": spec.max_nodes,
        "samples_done": record.samples_done,
        "samples_total": record.samples_total,
        "priority": spec.priority,
        "failures": record.failures,
        "submitted_s": record.submitted_s,
        "admitted_s": record.admitted_s,
        "started_s": record.started_s,
        "finished_s": record.finished_s,
        "held_node_h": record.held_node_s / 3600,
        "trained_node_h": (record.trained_node_s - record.repeated_node_s) / 3600,
        "repeated_node_h": record.repeated_node_s / 3600,
        "stalled_node_h": record.stalled_node_s / 3600,
        "repeated_samples": record.repeated_samples,
    }


class PresentAllocation(NamedTuple):
    """Who has which nodes now: the fragments of each trainer and its samples per second there, as
    far as it is measured.

    ``pool`` is the number of nodes of the pool.
    """

    nodes: Mapping[str, tuple[str, ...]] = {}
    speeds: Mapping[str, float] = {}
    pool: int | None = None
    runs: bool = False
    """Whether a pilot does."""
    refusal: str = ""
    """Why the pilot holds no node, where it may hold none."""

    def left_h(self, record: TrainerRecord) -> float | None:
        """Hours until a trainer has its ``samples_total``, at its present speed; None: not
        known.
        """
        total, speed = record.samples_total, self.speeds.get(record.name)
        return max(total - record.samples_done, 0.0) / speed / 3600 if total and speed else None


def allocation(state: Path) -> PresentAllocation:
    """Read which trainer has which nodes after the last decision.

    None has any after the pilot's end.
    """
    from bftrainer.decide.allocation.placement import in_name_order
    from bftrainer.decide.estimation.update import known_rates
    from bftrainer.pilot.persistence.journal import last_state

    if not has_registry(state):
        return PresentAllocation()
    with opened_registry(state) as registry:
        runs = not pilot_has_ended(registry.store, time.time())
        latest = last_state(registry.store) if runs else None
        refusal = _site_refusal(registry) if runs else ""
    if latest is None:
        return PresentAllocation(runs=runs, refusal=refusal)
    nodes = {a.trainer.id: tuple(in_name_order(a.nodes)) for a in latest.active}
    return PresentAllocation(nodes, known_rates(latest), len(latest.pool), runs, refusal)


def _site_refusal(registry: Registry) -> str:
    """Return why the site's checks failed, as the pilot noted it last; empty if they pass."""
    from bftrainer.pilot.nodes.holding_permission import ALLOWED, REFUSED

    # Refusals of a single node have a subject.
    for note in reversed(registry.notes(_NOTES, subject="")):
        if note.kind == REFUSED:
            return note.text
        if note.kind == ALLOWED or (note.kind == "pilot" and note.text.startswith("started")):
            return ""
    return ""


def status_text(record: TrainerRecord, nodes: int) -> str:
    """Return the word for a trainer's status in the lists of trainers.

    A waiting trainer that has nodes is "starting": its workers start, or another trainer still has
    to leave these nodes. A running trainer that has none is "leaving": its workers save and exit.
    """
    if record.status.value == "waiting" and nodes:
        return STARTING
    if record.status.name == "RUNNING" and not nodes:
        return LEAVING
    return record.status.value


def _remark(record: TrainerRecord, pool: int | None, folder: Path) -> str:
    """Return the remark on a trainer for the list.

    For one that has never reported it includes its last output, for one that waits why it cannot
    start.
    """
    from bftrainer.pilot.trainers.remarks import NEVER_REPORTED

    remark = remark_of(record)
    least = record.spec.min_nodes
    if record.reason == NEVER_REPORTED:
        return remark + _last_output(folder, record.name)
    if remark or record.status.value != "waiting" or pool is None or least <= pool:
        return remark
    return f"needs {counted(least, 'node')}; the pilot has {pool} (bftrainer explain {record.name})"


def _last_output(folder: Path, trainer: str) -> str:
    """Return the last line that the workers have written, to be put behind a remark.

    It distinguishes a hang at the start from a script that does not report.
    """
    from bftrainer.pilot.trainers.remarks import last_words
    from bftrainer.wires.log_tail import last_lines
    from bftrainer.wires.paths import TrainerDirectory

    logs = TrainerDirectory.of(folder, trainer).latest_logs()
    words = last_words([line for log in logs[:1] for line in last_lines(log)])
    return f"; its last output: {words[:_OUTPUT_SHOWN]}" if words else "; it has written no output"


def _progress(record: TrainerRecord) -> str:
    """The samples that are done, and the total if it is known."""
    done = _amount(record.samples_done)
    if record.samples_total is None:
        return done
    return f"{done} of {_amount(record.samples_total)}"


def _amount(samples: float) -> str:
    """A count that is exact as long as it is short: 9,876,543, then 9.88G."""
    return f"{samples:,.0f}" if samples < _EXACT_BELOW else number(samples)


def _cell(key: str, value: object) -> str:
    """Return a value as text for the table of one trainer; "-" if there is none."""
    is_time = key.endswith("_s") and not key.endswith("per_s")
    if is_time and (value is None or isinstance(value, float)):
        return clock_time(value)
    if value in (None, ""):
        return "-"
    if isinstance(value, list):
        return " ".join(map(str, value)) or "-"
    if isinstance(value, dict):
        return " ".join(f"{name}={_short(item)}" for name, item in value.items()) or "-"
    if isinstance(value, float):
        return f"{value:,.3f}"
    return str(value)


def _short(value: object) -> str:
    """A number without trailing digits, or any other value as text."""
    return f"{value:g}" if isinstance(value, float) else str(value)
