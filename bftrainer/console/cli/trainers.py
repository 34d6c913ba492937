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

    from bftrainer.pilot.persistence.registry import TrainerRecord

PENDING = "submitted"
"""The status of a submission that no pilot has read yet."""
STARTING = "starting"
PENDING_REMARK = "not read by a pilot yet"
NO_PILOT = "waits for a pilot, and none runs here (bftrainer pilot)"
_OUTPUT_SHOWN = 200
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
    now = allocation(folder)
    nodes = now.nodes
    unread = PENDING_REMARK if now.runs else NO_PILOT
    pending = pending_submissions(
        folder
    )  # first: a pilot registers a submission before it takes its file away
    found = [t for t in registered_trainers(folder) if group in (None, t.spec.group)]
    records = [t for t in found if everything or not t.status.is_final]
    known = {t.name for t in found}
    pending = [
        it
        for it in pending
        if it.trainer not in known and (group is None or (it.spec and it.spec.group == group))
    ]
    if as_json:
        show_json(
            [
                as_dict(t, nodes.get(t.name, ()))
                | {"left_h": now.left_h(t), "remark": _remark(t, now.pool, folder)}
                for t in records
            ]
        )
        show_json(
            [{"name": request.trainer, "status": PENDING, "remark": unread} for request in pending]
        )
        return
    rows = [
        (
            t.name,
            status_text(t, held := len(nodes.get(t.name, ()))),
            str(held),
            f"{t.spec.min_nodes}-{t.spec.max_nodes}",
            _progress(t),
            "" if (left_h := now.left_h(t)) is None else length(3600 * left_h),
            hours(t.held_node_s),
            clock_time(t.submitted_s),
            _remark(t, now.pool, folder),
        )
        for t in records
    ]
    rows += [
        (
            request.trainer,
            PENDING,
            "0",
            f"{spec.min_nodes}-{spec.max_nodes}",
            "",
            "",
            "",
            "",
            unread,
        )
        for request in pending
        if (spec := request.spec) is not None
    ]
    show_table(_COLUMNS, rows, wide=wide)
    if not everything and (ended := [t for t in found if t.status.is_final]):
        say(hanging("", _ended(ended)))


def _ended(records: Sequence[TrainerRecord]) -> str:
    """How many trainers have ended, and the names of those that failed last."""
    from bftrainer.pilot.persistence.registry import TrainerStatus

    latest = sorted(records, key=lambda t: t.finished_s or 0.0, reverse=True)
    names: dict[TrainerStatus, list[str]] = {}
    for record in latest:
        names.setdefault(record.status, []).append(record.name)
    counts = [
        f"{len(of)} {status.value}"
        + (
            f" ({', '.join([*of[:3], *(['...'] if len(of) > 3 else [])])})"
            if status is TrainerStatus.FAILED
            else ""
        )
        for status, of in sorted(names.items(), key=lambda it: it[0].value)
    ]
    return f"ended: {', '.join(counts)}; `bftrainer list --all` shows them"


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
        show_json(
            [
                facts
                | estimated
                | {"notes": [{"time": n.at_s, "kind": n.kind, "text": n.text} for n in notes]}
            ]
        )
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
    known = as_dict(record, now.nodes.get(record.name, ())) | {"left_h": now.left_h(record)}
    return known | _reported(state, record.name)


def _reported(state: Path, trainer: str) -> dict[str, object]:
    """What the training script has reported last, and where its output is."""
    from bftrainer.console.client.history import latest_progress
    from bftrainer.pilot.persistence.spool import open_state_dir
    from bftrainer.wires.gpu_use import gpu_uses
    from bftrainer.wires.paths import TrainerDirectory
    from bftrainer.wires.task_board import TaskCounts
    from bftrainer.wires.typed_json import read_json

    directory = TrainerDirectory.of(open_state_dir(state), trainer)
    tasks: dict[str, object] = {}
    if directory.tasks.exists():
        it = read_json(TaskCounts, directory.tasks)
        tasks = {
            "tasks": it.tasks,
            "tasks_done": it.done,
            "tasks_running": it.running,
            "tasks_failed": it.failed,
            "tasks_per_hour": it.per_hour,
            "left_h": None if it.left_s is None else it.left_s / 3600,
            "results": it.results,
            "failures_log": it.failures,
        }
    latest, logs = latest_progress(directory), directory.latest_logs()
    gpus: dict[str, object] = {}
    if found := gpu_uses(directory, time.time()):
        gpus["gpu_memory_gb"] = {name: use.used_bytes / 1e9 for name, use in found.items()}
        gpus["gpu_percent"] = {name: use.percent for name, use in found.items()}
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
    """The fragments of each trainer and its samples per second there, as far as it is measured, and
    the size of the pool.
    """

    nodes: Mapping[str, tuple[str, ...]] = {}
    speeds: Mapping[str, float] = {}
    pool: int | None = None
    runs: bool = False
    """Whether a pilot does."""

    def left_h(self, record: TrainerRecord) -> float | None:
        """Hours until a trainer has its ``samples_total``, at its present speed; None: not
        known.
        """
        total, speed = record.samples_total, self.speeds.get(record.name)
        return max(total - record.samples_done, 0.0) / speed / 3600 if total and speed else None


def allocation(state: Path) -> PresentAllocation:
    """After the last decision; nothing after the pilot's end."""
    from bftrainer.decide.allocation.placement import in_name_order
    from bftrainer.decide.estimation.update import known_rates
    from bftrainer.pilot.persistence.journal import last_state

    if not has_registry(state):
        return PresentAllocation()
    with opened_registry(state) as registry:
        runs = not pilot_has_ended(registry.store, time.time())
        found = last_state(registry.store) if runs else None
    if found is None:
        return PresentAllocation(runs=runs)
    nodes = {a.trainer.id: tuple(in_name_order(a.nodes)) for a in found.active}
    return PresentAllocation(nodes, known_rates(found), len(found.pool), runs)


def status_text(record: TrainerRecord, nodes: int) -> str:
    """A trainer that has nodes waits for its workers to start, or for another trainer to leave
    these nodes.
    """
    starts = record.status.value == "waiting" and nodes
    return STARTING if starts else record.status.value


def _remark(record: TrainerRecord, pool: int | None, folder: Path) -> str:
    from bftrainer.pilot.trainers.remarks import NEVER_REPORTED

    least = record.spec.min_nodes
    if record.reason == NEVER_REPORTED:
        return f"{remark_of(record)}{_last_output(folder, record.name)}"
    if (
        (text := remark_of(record))
        or record.status.value != "waiting"
        or pool is None
        or least <= pool
    ):
        return text
    return f"needs {counted(least, 'node')}; the pilot has {pool} (bftrainer explain {record.name})"


def _last_output(folder: Path, trainer: str) -> str:
    """The last line that its workers have written: it tells a hang at the start from a script that
    does not report.
    """
    from bftrainer.pilot.trainers.remarks import last_words
    from bftrainer.wires.log_tail import last_lines
    from bftrainer.wires.paths import TrainerDirectory

    logs = TrainerDirectory.of(folder, trainer).latest_logs()
    words = last_words([line for log in logs[:1] for line in last_lines(log)])
    return f"; its last output: {words[:_OUTPUT_SHOWN]}" if words else "; it has written no output"


def _progress(record: TrainerRecord) -> str:
    total = record.samples_total
    return _amount(record.samples_done) + (f" of {_amount(total)}" if total is not None else "")


def _amount(samples: float) -> str:
    """A count that is exact as long as it is short: 9,876,543, then 9.88G."""
    return f"{samples:,.0f}" if samples < _EXACT_BELOW else number(samples)


def _cell(key: str, value: object) -> str:
    if (
        key.endswith("_s")
        and not key.endswith("per_s")
        and (value is None or isinstance(value, float))
    ):
        return clock_time(value)
    if isinstance(value, list):
        return " ".join(map(str, value)) or "-"
    if isinstance(value, dict):
        return (
            " ".join(
                f"{name}={one:g}" if isinstance(one, float) else f"{name}={one}"
                for name, one in value.items()
            )
            or "-"
        )
    return (
        "-" if value in (None, "") else f"{value:,.3f}" if isinstance(value, float) else str(value)
    )
