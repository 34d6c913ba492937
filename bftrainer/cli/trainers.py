"""``bftrainer list``, ``show`` and ``usage``: what the registry knows of trainers."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer.cli.state import clock_time, hours, json_option, opened_registry, show_json, show_rows, state_option

if TYPE_CHECKING:
    from bftrainer.persistence.registry import TrainerRecord
    from bftrainer.persistence.spool import Request


@click.command("list")
@click.option("--all", "everything", is_flag=True, help="Those that are done, failed or cancelled too.")
@state_option
@json_option
def list_trainers(everything: bool, state: Path, as_json: bool) -> None:
    """List trainers: status, nodes, progress.

    \b
    Example:
      bftrainer list --all
    """
    from bftrainer.persistence.spool import open_state_dir

    folder = open_state_dir(state)
    nodes = _nodes(folder)
    records = [t for t in _records(folder) if everything or not t.status.is_final]
    waiting = _not_read_yet(folder, {t.name for t in records})
    if as_json:
        show_json([as_dict(t, nodes.get(t.name, ())) for t in records])
        show_json([{"name": r.trainer, "status": "handed in"} for r in waiting])
        return
    rows = [
        (
            t.name, t.status.value, str(len(nodes.get(t.name, ()))), f"{t.spec.min_nodes}-{t.spec.max_nodes}",
            _progress(t), hours(t.held_node_s), clock_time(t.submitted_s), t.reason,
        )
        for t in records
    ]  # fmt: skip
    rows += [
        (
            r.trainer,
            "handed in",
            "0",
            f"{r.spec.min_nodes}-{r.spec.max_nodes}",
            "",
            "",
            "",
            "the pilot has not read it yet",
        )
        for r in waiting
        if r.spec is not None
    ]
    columns = ("name", "status", "nodes", "min-max", "samples", "node-hours", "submitted", "remark")
    show_rows(columns, rows, right=("nodes", "samples", "node-hours"))


@click.command()
@click.argument("trainer", metavar="NAME")
@state_option
@json_option
def show(trainer: str, state: Path, as_json: bool) -> None:
    """Show all about one trainer, with what is believed of its speed and which sizes were measured.

    \b
    Example:
      bftrainer show digits
    """
    from bftrainer.cli.learned import learned, learned_rows
    from bftrainer.persistence.journal import last_state

    with opened_registry(state) as registry:
        record = registry.trainer(trainer)
        notes = registry.notes(10, trainer)
        believed = learned(record, last_state(registry.store))
    facts = as_dict(record, _nodes(state).get(trainer, ()))
    if as_json:
        show_json([facts | believed | {"notes": [{"time": n.at_s, "kind": n.kind, "text": n.text} for n in notes]}])
        return
    rows = [(key, _cell(key, value)) for key, value in facts.items()]
    rows += learned_rows(believed)
    rows += [(f"note {clock_time(n.at_s)}", f"{n.kind}: {n.text}") for n in notes]
    show_rows(("", trainer), rows)


@click.command()
@click.option(
    "--by", type=click.Choice(["user", "trainer"]), default="trainer", show_default=True, help="What is added up."
)
@state_option
@json_option
def usage(by: str, state: Path, as_json: bool) -> None:
    """Node-hours: held for trainers, trained, and stalled (starting, rescaling, stopping).

    \b
    Example:
      bftrainer usage --by user
    """
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    with opened_registry(state) as registry:
        for t in registry.trainers():
            row = sums[t.owner if by == "user" else t.name]
            for i, node_s in enumerate((t.held_node_s, t.trained_node_s, t.stalled_node_s)):
                row[i] += node_s
    if as_json:
        names = ("held_node_h", "trained_node_h", "stalled_node_h")
        show_json([{by: k, **{n: v / 3600 for n, v in zip(names, row, strict=True)}} for k, row in sums.items()])
        return
    columns = (by, "held", "trained", "stalled")
    show_rows(columns, [(name, *map(hours, row)) for name, row in sums.items()], right=columns[1:])


def as_dict(record: TrainerRecord, nodes: tuple[str, ...]) -> dict[str, object]:
    """A trainer for programs."""
    spec = record.spec
    return {
        "name": record.name, "status": record.status.value, "reason": record.reason, "owner": record.owner,
        "launcher": spec.launcher, "command": list(spec.command), "cwd": str(spec.cwd), "nodes": list(nodes),
        "model": spec.model, "min_nodes": spec.min_nodes, "max_nodes": spec.max_nodes, "samples_done": record.samples_done,
        "samples_total": spec.samples_total, "priority": spec.priority, "failures": record.failures,
        "submitted_s": record.submitted_s, "admitted_s": record.admitted_s, "started_s": record.started_s,
        "finished_s": record.finished_s, "held_node_h": record.held_node_s / 3600,
        "trained_node_h": record.trained_node_s / 3600, "stalled_node_h": record.stalled_node_s / 3600,
    }  # fmt: skip


def _records(state: Path) -> tuple[TrainerRecord, ...]:
    from bftrainer.persistence.store import DB_NAME

    if not (state / DB_NAME).exists():
        return ()
    with opened_registry(state) as registry:
        return registry.trainers()


def _nodes(state: Path) -> dict[str, tuple[str, ...]]:
    """Who has which fragments, by the last decision."""
    from bftrainer.allocation.placement import in_name_order
    from bftrainer.persistence.journal import last_state
    from bftrainer.persistence.store import DB_NAME

    if not (state / DB_NAME).exists():
        return {}
    with opened_registry(state) as registry:
        found = last_state(registry.store)
    return {} if found is None else {a.trainer.id: tuple(in_name_order(a.nodes)) for a in found.active}


def _not_read_yet(state: Path, known: set[str]) -> list[Request]:
    from bftrainer.persistence.spool import RequestKind, Spool

    found = [r.request for r in Spool(state).pending() if r.request is not None]
    return [r for r in found if r.kind is RequestKind.SUBMIT and r.trainer not in known]


def _progress(record: TrainerRecord) -> str:
    total = record.spec.samples_total
    return f"{record.samples_done:,.0f}" + (f" of {total:,.0f}" if total is not None else "")


def _cell(key: str, value: object) -> str:
    if key.endswith("_s") and (value is None or isinstance(value, float)):
        return clock_time(value)
    if isinstance(value, list):
        return " ".join(map(str, value)) or "-"
    return "-" if value in (None, "") else f"{value:,.3f}" if isinstance(value, float) else str(value)
