"""``bftrainer list`` and ``show``: the registry's trainers."""

from __future__ import annotations

import math
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
    hanging_indent,
    name_column,
    number_column,
    remark_column,
    show_facts,
    show_table,
    wide_option,
)
from bftrainer.console.cli.trainer_names import GroupName, TrainerName
from bftrainer.console.client.remarks import remark_of
from bftrainer.console.client.state_dir import (
    has_registry,
    opened_registry,
    pending_submissions,
    pilot_has_ended,
    registered_trainers,
)
from bftrainer.counted import counted
from bftrainer.errors import BFTrainerError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bftrainer.config.trainer_file import TrainerSpec
    from bftrainer.pilot.persistence.registry import Registry, TrainerRecord, TrainerStatus
    from bftrainer.pilot.persistence.spool import Request
    from bftrainer.wires.paths import TrainerDirectory

WAITING = "waiting"
"""What users see as the status of a trainer without nodes, and of a submission that no pilot has
read yet: the remark says what it waits for. JSON tells submitted, queued and waiting apart."""
_PENDING = "submitted"
"""In JSON, the status of a submission that no pilot has read yet."""
STARTING = "starting"
LEAVING = "leaving"
PENDING_REMARK = "not read by a pilot yet"
NO_PILOT = "waits for a pilot, and none runs here (bftrainer pilot)"
_OUTPUT_SHOWN = 200
_NOTES = 1000
_EXACT_BELOW = 1e7
_RECENT_S = 86400.0
"""A trainer is listed for so long after its end."""
_WATCH_S = 2.0
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
    "--all", "everything", is_flag=True, help="Include trainings that are done, failed or canceled."
)
@click.option("--group", type=GroupName(), metavar="NAME", help="Only the trainings of a group.")
@click.option("--watch", is_flag=True, help="Show the list again every 2 s, until Ctrl-C.")
@wide_option
@state_option
@json_option
def list_trainers(
    everything: bool, group: str | None, watch: bool, wide: bool, state: Path, as_json: bool
) -> None:
    """List what trains, waits or has ended within a day: status, nodes, time left, and a remark.

    What was reached (metrics, parameters): bftrainer results. What it cost (node-hours used and
    lost): bftrainer usage. All about one training: bftrainer show NAME.

    \b
    Example:
      bftrainer list
      bftrainer list --all
      bftrainer list --group digits --watch
    """
    if not watch:
        _show_list(everything, group, wide, state, as_json)
        return
    while True:
        click.clear()
        _show_list(everything, group, wide, state, as_json)
        time.sleep(_WATCH_S)


def _show_list(everything: bool, group: str | None, wide: bool, state: Path, as_json: bool) -> None:
    """Print the trainers as they are now."""
    from bftrainer.pilot.persistence.spool import open_state_dir

    folder = open_state_dir(state)
    allocation = read_allocation(folder)
    listing = _read_listing(folder, group, everything)
    pending_remark = PENDING_REMARK if allocation.is_pilot_running else NO_PILOT
    if as_json:
        show_json([_json_row(record, allocation, folder) for record in listing.records])
        show_json([_pending_json_row(entry, pending_remark) for entry in listing.submissions])
        return
    _show_rows(listing, allocation, folder, pending_remark, wide)
    for line in _lines_below(listing, allocation, folder):
        say(hanging_indent("", line))


class _Listing(NamedTuple):
    """The trainers of a state directory that ``bftrainer list`` shows, and those that it only
    counts.

    ``submissions``: requests that no pilot has read yet.
    ``records``: registered trainers that are shown.
    ``unlisted``: registered trainers that ended too long ago to be shown.
    """

    submissions: list[Request]
    records: list[TrainerRecord]
    unlisted: list[TrainerRecord]


def _read_listing(folder: Path, group: str | None, everything: bool) -> _Listing:
    """Read the trainers of a group (None: of all groups) from a state directory."""
    # Submissions are read before trainers: a pilot registers a trainer before it removes the
    # submission, so that none is missed in between.
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
    earliest_s = -math.inf if everything else time.time() - _RECENT_S
    return _Listing(
        submissions=submissions,
        records=[record for record in registered if _is_listed(record, earliest_s)],
        unlisted=[record for record in registered if not _is_listed(record, earliest_s)],
    )


def _show_rows(
    listing: _Listing, allocation: PresentAllocation, folder: Path, pending_remark: str, wide: bool
) -> None:
    """Print the table: registered trainers first, then submissions that no pilot has read."""
    rows = [_trainer_row(record, allocation, folder) for record in listing.records]
    colors = [_row_color(record) for record in listing.records]
    for submission in listing.submissions:
        if submission.spec is not None:
            rows.append(_pending_row(submission.trainer, submission.spec, pending_remark))
            colors.append(None)
    show_table(_COLUMNS, rows, wide=wide, colors=colors)


def _lines_below(listing: _Listing, allocation: PresentAllocation, folder: Path) -> list[str]:
    """Return the lines below the table: why the pilot holds no nodes, which trainers have ended,
    and how main jobs get nodes.
    """
    lines = []
    if allocation.refusal:
        lines.append(allocation.refusal)
    if listing.unlisted:
        lines.append(_summary_of_ended(listing.unlisted))
    if give_way := _give_way_text(folder):
        lines.append(f"main jobs: {give_way}")
    return lines


def _is_listed(record: TrainerRecord, earliest_s: float) -> bool:
    """Whether a trainer has not ended, or has ended after ``earliest_s``."""
    if not record.status.is_final or record.finished_s is None:
        return True
    return record.finished_s >= earliest_s


def _row_color(record: TrainerRecord) -> str | None:
    """Return the color of a trainer's row: red if it has failed, gray if it has ended otherwise."""
    from bftrainer.pilot.persistence.registry import TrainerStatus

    if record.status is TrainerStatus.FAILED:
        return "red"
    return "bright_black" if record.status.is_final else None


def _give_way_text(folder: Path) -> str:
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


def _trainer_row(
    record: TrainerRecord, allocation: PresentAllocation, folder: Path
) -> tuple[str, ...]:
    """The row of a trainer in the table."""
    node_count = len(allocation.nodes.get(record.name, ()))
    left_h = allocation.left_h(record)
    return (
        record.name,
        status_text(record, node_count),
        str(node_count),
        _size_range(record.spec),
        _progress_text(record),
        "" if left_h is None else length(3600 * left_h),
        hours(record.held_node_s),
        clock_time(record.submitted_s),
        _trainer_remark(record, allocation.pool, folder),
    )


def _pending_row(name: str, spec: TrainerSpec, remark: str) -> tuple[str, ...]:
    """The row of a submission that no pilot has read yet."""
    return (name, WAITING, "0", _size_range(spec), "", "", "", "", remark)


def _json_row(
    record: TrainerRecord, allocation: PresentAllocation, folder: Path
) -> dict[str, object]:
    """The JSON object of a trainer in the list."""
    row = as_dict(record, allocation.nodes.get(record.name, ()))
    remark = _trainer_remark(record, allocation.pool, folder)
    return row | {"left_h": allocation.left_h(record), "remark": remark}


def _pending_json_row(submission: Request, remark: str) -> dict[str, object]:
    """The JSON object of a submission that no pilot has read yet."""
    return {"name": submission.trainer, "status": _PENDING, "remark": remark}


def _size_range(spec: TrainerSpec) -> str:
    """The smallest and the largest number of nodes."""
    return f"{spec.min_nodes}-{spec.max_nodes}"


def _summary_of_ended(records: Sequence[TrainerRecord]) -> str:
    """Say how many trainers have ended with each final status, and which ones failed last."""
    latest_first = sorted(records, key=lambda record: record.finished_s or 0.0, reverse=True)
    names: dict[TrainerStatus, list[str]] = {}
    for record in latest_first:
        names.setdefault(record.status, []).append(record.name)
    counts = [
        _ended_count(status, names[status])
        for status in sorted(names, key=lambda status: status.value)
    ]
    return f"ended more than a day ago: {', '.join(counts)}; `bftrainer list --all` shows them"


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
@click.argument("trainer", type=TrainerName(), metavar="NAME")
@state_option
@json_option
def show(trainer: str, state: Path, as_json: bool) -> None:
    """Show one training in detail, with the estimates of its speed and the node counts at which it
    was measured. The last line says why it has its nodes; `bftrainer explain` says more.

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
    facts = _trainer_facts(record, state)
    if as_json:
        shown_notes = [{"time": note.at_s, "kind": note.kind, "text": note.text} for note in notes]
        show_json([facts | estimated | {"notes": shown_notes}])
        return
    rows = [(key, _cell_text(key, value)) for key, value in facts.items()]
    rows += estimate_rows(estimated)
    rows += [(f"note {clock_time(note.at_s)}", f"{note.kind}: {note.text}") for note in notes]
    show_facts(rows, trainer)
    say(hanging_indent("", _why(state, trainer)))


def _why(state: Path, trainer: str) -> str:
    """Return why a trainer has its nodes, in the first sentence of ``bftrainer explain``."""
    from bftrainer.console.cli.explain import first_sentence

    try:
        return f"why: {first_sentence(state, trainer)}"
    except BFTrainerError as error:  # such as before the first decision, or of a damaged journal
        return f"why: {error}"


def facts_of(state: Path, trainer: str) -> dict[str, str]:
    """What ``bftrainer show`` prints of a trainer, but for estimates and notes."""
    with opened_registry(state) as registry:
        record = registry.trainer(trainer)
    facts = _trainer_facts(record, state)
    return {key: _cell_text(key, value) for key, value in facts.items()}


def _trainer_facts(record: TrainerRecord, state: Path) -> dict[str, object]:
    """Collect the facts about one trainer: its record, its nodes, its reports and its files."""
    from bftrainer.pilot.persistence.spool import open_state_dir
    from bftrainer.wires.paths import TrainerDirectory

    allocation = read_allocation(state)
    facts = as_dict(record, allocation.nodes.get(record.name, ()))
    facts |= {"left_h": allocation.left_h(record)}
    directory = TrainerDirectory.of(open_state_dir(state), record.name)
    # A pool trainer's left_h is that of its tasks, so tasks come last.
    return facts | _progress_facts(directory) | _gpu_facts(directory) | _task_facts(directory)


def _progress_facts(directory: TrainerDirectory) -> dict[str, object]:
    """Collect what the training script reported last, and the paths of the logs.

    Values are None before the first report.
    """
    from bftrainer.console.client.history import latest_progress

    progress, logs = latest_progress(directory), directory.latest_logs()
    return {
        "step": progress and progress.step,
        "loss": progress and progress.loss,
        "metrics": {} if progress is None else progress.metrics,
        "samples_per_s": progress and progress.samples_per_s,
        "reported_s": progress and progress.at_s,
        "checkpoint": progress and progress.checkpoint,
        "log": str(logs[0]) if logs else None,
        "driver_log": str(directory.driver_log) if directory.driver_log.exists() else None,
    }


def _gpu_facts(directory: TrainerDirectory) -> dict[str, object]:
    """Return the use of each GPU that workers have reported lately; empty without any."""
    from bftrainer.wires.gpu_use import gpu_uses

    uses = gpu_uses(directory, time.time())
    if not uses:
        return {}
    return {
        "gpu_memory_gb": {name: use.used_bytes / 1e9 for name, use in uses.items()},
        "gpu_percent": {name: use.percent for name, use in uses.items()},
    }


def _task_facts(directory: TrainerDirectory) -> dict[str, object]:
    """Return the counts of a trainer's tasks; empty for a trainer without tasks."""
    from bftrainer.wires.task_board import TaskCounts
    from bftrainer.wires.typed_json import read_json

    if not directory.tasks.exists():
        return {}
    counts = read_json(TaskCounts, directory.tasks)
    return {
        "tasks": counts.tasks,
        "tasks_done": counts.done,
        "tasks_running": counts.running,
        "tasks_failed": counts.failed,
        "tasks_per_hour": counts.per_hour,
        "left_h": None if counts.left_s is None else counts.left_s / 3600,
        "results": counts.results,
        "failures_log": counts.failures,
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
    """The nodes of each trainer after the last decision of a pilot that runs; empty without one.

    ``nodes``: the fragments of each trainer.
    ``speeds``: samples per second of each trainer there, as far as they are measured.
    ``pool``: the number of nodes of the pool; None without a pilot, or before its first decision.
    ``is_pilot_running``: whether a pilot runs.
    ``refusal``: why the site's checks do not let the pilot hold nodes; empty if they pass.
    """

    nodes: Mapping[str, tuple[str, ...]] = {}
    speeds: Mapping[str, float] = {}
    pool: int | None = None
    is_pilot_running: bool = False
    refusal: str = ""

    def left_h(self, record: TrainerRecord) -> float | None:
        """Hours until a trainer has its ``samples_total``, at its present speed; None: not
        known.
        """
        total, speed = record.samples_total, self.speeds.get(record.name)
        if not total or not speed:
            return None
        return max(total - record.samples_done, 0.0) / speed / 3600


def read_allocation(state: Path) -> PresentAllocation:
    """Read which trainer has which nodes after the last decision, from the database of the state
    directory.

    After the pilot's end, no trainer has any.
    """
    from bftrainer.decide.allocation.placement import in_name_order
    from bftrainer.decide.estimation.update import known_rates
    from bftrainer.pilot.persistence.journal import last_state

    if not has_registry(state):
        return PresentAllocation()
    with opened_registry(state) as registry:
        if pilot_has_ended(registry.store, time.time()):
            return PresentAllocation()
        latest_state = last_state(registry.store)
        refusal = _site_refusal(registry)
    if latest_state is None:  # before the first decision
        return PresentAllocation(is_pilot_running=True, refusal=refusal)
    return PresentAllocation(
        nodes={
            active.trainer.id: tuple(in_name_order(active.nodes)) for active in latest_state.active
        },
        speeds=known_rates(latest_state),
        pool=len(latest_state.pool),
        is_pilot_running=True,
        refusal=refusal,
    )


def _site_refusal(registry: Registry) -> str:
    """Return why the site's checks failed, as the pilot noted it last; empty if they pass."""
    from bftrainer.pilot.nodes.holding_permission import ALLOWED, REFUSED

    # Refusals of a single node have a subject.
    for note in reversed(registry.notes(_NOTES, subject="")):
        if note.kind == REFUSED:
            return note.text
        # Earlier refusals are outdated, those of an earlier pilot as well.
        if note.kind == ALLOWED or (note.kind == "pilot" and note.text.startswith("started")):
            return ""
    return ""


def status_text(record: TrainerRecord, node_count: int) -> str:
    """Return the word for a trainer's status in the lists of trainers.

    A waiting trainer that has nodes is "starting": its workers start, or another trainer still has
    to leave these nodes. A running trainer that has none is "leaving": its workers save and exit.
    """
    if record.status.name == "QUEUED":
        return WAITING
    if record.status.value == "waiting" and node_count:
        return STARTING
    if record.status.name == "RUNNING" and not node_count:
        return LEAVING
    return record.status.value


def _trainer_remark(record: TrainerRecord, pool: int | None, folder: Path) -> str:
    """Return the remark on a trainer for the list; empty if there is none.

    The remark on a trainer that has never reported includes its last output. A waiting trainer
    without a remark of its own gets one if the ``pool`` is smaller than its smallest size.
    """
    from bftrainer.pilot.trainers.remarks import NEVER_REPORTED

    remark = remark_of(record)
    if record.reason == NEVER_REPORTED:
        return remark + _last_output(folder, record.name)
    if remark:
        return remark
    if record.status.name == "QUEUED":
        return f"not admitted yet: others are before it (bftrainer explain {record.name})"
    if record.status.name != "WAITING":
        return ""
    min_nodes = record.spec.min_nodes
    if pool is None or min_nodes <= pool:
        return ""
    return (
        f"needs {counted(min_nodes, 'node')}; the pilot has {pool} "
        f"(bftrainer explain {record.name})"
    )


def _last_output(folder: Path, trainer: str) -> str:
    """Return the last line that the workers have written, to be put behind a remark.

    The line shows whether the script hangs at its start, or trains without reporting.
    """
    from bftrainer.pilot.trainers.remarks import last_words
    from bftrainer.wires.log_tail import last_lines
    from bftrainer.wires.paths import TrainerDirectory

    logs = TrainerDirectory.of(folder, trainer).latest_logs()
    words = last_words([line for log in logs[:1] for line in last_lines(log)])
    return f"; its last output: {words[:_OUTPUT_SHOWN]}" if words else "; it has written no output"


def _progress_text(record: TrainerRecord) -> str:
    """The samples that are done, and the total if it is known."""
    done = _samples_text(record.samples_done)
    if record.samples_total is None:
        return done
    return f"{done} of {_samples_text(record.samples_total)}"


def _samples_text(samples: float) -> str:
    """A count that is exact as long as it is short: 9,876,543, then 9.88G."""
    return f"{samples:,.0f}" if samples < _EXACT_BELOW else number(samples)


def _cell_text(key: str, value: object) -> str:
    """Return a value as text for the table of one trainer; "-" if there is none.

    A value whose ``key`` ends in ``_s``, but not in ``per_s``, is a time.
    """
    is_time = key.endswith("_s") and not key.endswith("per_s")
    if is_time and (value is None or isinstance(value, float)):
        return clock_time(value)
    if value in (None, ""):
        return "-"
    if isinstance(value, list):
        return " ".join(map(str, value)) or "-"
    if isinstance(value, dict):
        return " ".join(f"{name}={_short_text(item)}" for name, item in value.items()) or "-"
    if isinstance(value, float):
        return f"{value:,.3f}"
    return str(value)


def _short_text(value: object) -> str:
    """A number without trailing digits, or any other value as text."""
    return f"{value:g}" if isinstance(value, float) else str(value)
