"""``bftrainer nodes``: the held nodes and their audit trail."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer.console.cli.output import clock_time, json_option, show_json
from bftrainer.console.cli.state import state_option
from bftrainer.console.cli.tables import (
    TableColumn,
    name_column,
    number_column,
    remark_column,
    show_table,
    wide_option,
)
from bftrainer.console.client.state_dir import opened_registry
from bftrainer.decide.domain.node_stages import (
    SUMMARIES,
    TO_RELEASE,
    TO_TRAINING,
    NodeStage,
    stage_seconds,
    whole_seconds,
)
from bftrainer.slots import slot_of

if TYPE_CHECKING:
    from bftrainer.decide.domain.state import State
    from bftrainer.pilot.persistence.registry import FragmentRecord
    from bftrainer.pilot.persistence.time_lines import TimeLine

_COLUMNS = (
    name_column("fragment"),
    name_column("training"),
    name_column("taken", 2),
    name_column("release requested", 1),
    name_column("seen released", 3),
    number_column("took, s", 4),
    remark_column("why"),
)
_HEADS = {
    NodeStage.JOB_STARTED: "job",
    NodeStage.PAYLOAD_READY: "payload",
    NodeStage.WORKER_STARTED: "worker",
    NodeStage.IMPORTS_DONE: "imports",
    NodeStage.GROUP_SWITCHED: "group",
    NodeStage.FIRST_STEP: "step",
    NodeStage.WORKERS_GONE: "gone",
    NodeStage.RELEASED: "seen over",
}
_CHAINS = ((TO_TRAINING, "idle to step"), (TO_RELEASE, "release"))


@click.command()
@click.option("--all", "everything", is_flag=True, help="Include released nodes.")
@click.option(
    "--timeline",
    is_flag=True,
    help="Show the seconds from idle to the first training step, and of the release.",
)
@wide_option
@state_option
@json_option
def nodes(everything: bool, timeline: bool, wide: bool, state: Path, as_json: bool) -> None:
    """List the held nodes: when each was taken, and which training uses it. With --all, include
    released nodes.

    The columns "release requested" and "why" show when and why the scheduler (preemption) or the
    pilot requested a release. "seen released" is the pilot's view: it lists holder jobs every few
    seconds. A main-queue job gets the node earlier, when the payload has left: column "left" of
    --timeline.

    With --timeline, show the seconds of each stage between an idle node and the first training step
    there, with the median and the 95th percentile. A stage has the name of the instant that ends
    it: "seen" is the time until the pilot sees that the node is idle. A dash means that an instant
    is not known; its stage is then part of the next one.

    \b
    Example:
      bftrainer nodes --timeline --all
    """
    if timeline:
        _show_time_lines(state, everything, as_json, wide=wide)
        return
    from bftrainer.pilot.persistence.journal import last_state

    with opened_registry(state) as registry:
        fragments = registry.fragments(open_only=not everything)
        trainers = _trainers_by_fragment(last_state(registry.store))
    if as_json:
        show_json([_as_dict(fragment, trainers.get(fragment.name)) for fragment in fragments])
        return
    rows = [_fragment_row(fragment, trainers.get(fragment.name, "-")) for fragment in fragments]
    show_table(_COLUMNS, rows, wide=wide)


def _trainers_by_fragment(state: State | None) -> dict[str, str]:
    """Return the names of the trainers on each fragment that has some, joined by commas.

    ``state`` is that after the last decision, None before the first. A fragment whose GPUs are
    slots of their own has, besides, the trainers of all its slots: it is listed as a whole.
    """
    trainers: dict[str, str] = {}
    for active in () if state is None else state.active:
        for name in active.nodes | {slot_of(name).fragment for name in active.nodes}:
            if name in trainers:
                trainers[name] += f", {active.trainer.id}"
            else:
                trainers[name] = active.trainer.id
    return trainers


def _fragment_row(fragment: FragmentRecord, trainer: str) -> tuple[str, ...]:
    """Return the row of a fragment in the table."""
    return (
        fragment.name,
        trainer if fragment.released_s is None else "",
        clock_time(fragment.taken_s),
        clock_time(fragment.asked_back_s),
        clock_time(fragment.released_s),
        _release_s(fragment),
        fragment.reason,
    )


def _release_s(fragment: FragmentRecord) -> str:
    """Return the seconds from the request to the release; empty if there was none yet."""
    if fragment.asked_back_s is None or fragment.released_s is None:
        return ""
    return f"{fragment.released_s - fragment.asked_back_s:.2f}"


def _as_dict(fragment: FragmentRecord, trainer: str | None) -> dict[str, object]:
    """Return a fragment as an object for JSON."""
    return {
        "fragment": fragment.name,
        "node": fragment.node,
        "trainer": trainer if fragment.released_s is None else None,
        "asked_s": fragment.asked_s,
        "taken_s": fragment.taken_s,
        "asked_back_s": fragment.asked_back_s,
        "released_s": fragment.released_s,
        "reason": fragment.reason,
    }


def _show_time_lines(state: Path, everything: bool, as_json: bool, *, wide: bool) -> None:
    """Print the time lines of held nodes, with ``everything`` of released ones as well."""
    from bftrainer.pilot.persistence.time_lines import time_lines

    with opened_registry(state) as registry:
        lines = time_lines(registry, open_only=not everything)
    if as_json:
        show_json([_line_as_dict(line) for line in lines])
        return
    seconds_by_line = [_stage_values(line) for line in lines]
    rows = [
        (line.fragment, line.trainer, *map(_seconds_text, seconds))
        for line, seconds in zip(lines, seconds_by_line, strict=True)
    ]
    columns = _stage_columns()
    for name, summarize in SUMMARIES:
        summaries: list[float | None] = []
        for index in range(len(columns)):
            column = [seconds[index] for seconds in seconds_by_line]
            measurements = [value for value in column if value is not None]
            summaries.append(summarize(measurements) if measurements else None)
        rows.append((name, "", *map(_seconds_text, summaries)))
    show_table((name_column("s"), name_column("training", 1), *columns), rows, wide=wide)


def _stage_columns() -> list[TableColumn]:
    """Return the columns of both chains: each stage, then the whole chain.

    The first instant of a chain ends no stage of it.
    """
    columns = []
    for chain, whole in _CHAINS:
        columns += [number_column(_stage_head(stage), 2) for stage in chain[1:]]
        columns.append(number_column(whole))
    return columns


def _stage_values(line: TimeLine) -> list[float | None]:
    """Return the seconds of each stage of a time line, in the order of :func:`_stage_columns`;
    None for a stage that is not known.
    """
    values: list[float | None] = []
    for chain, _ in _CHAINS:
        seconds = stage_seconds(line.instants, chain)
        values += [seconds.get(stage) for stage in chain[1:]]
        values.append(whole_seconds(line.instants, chain))
    return values


def _seconds_text(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.2f}"


def _stage_head(stage: NodeStage) -> str:
    return _HEADS.get(stage, stage.value)


def _line_as_dict(line: TimeLine) -> dict[str, object]:
    """Return the time line of a node as an object for JSON."""
    seconds = {
        stage.value: round(value, 4)
        for chain, _ in _CHAINS
        for stage, value in stage_seconds(line.instants, chain).items()
    }
    instants = {stage.value: line.instants[stage] for stage in NodeStage if stage in line.instants}
    return {
        "fragment": line.fragment,
        "node": line.node,
        "trainer": line.trainer or None,
        "instants_s": instants,
        "stage_s": seconds,
        "idle_to_step_s": whole_seconds(line.instants, TO_TRAINING),
        "release_s": whole_seconds(line.instants, TO_RELEASE),
    }
