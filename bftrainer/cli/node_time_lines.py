"""``bftrainer nodes --timeline``: the seconds of each stage between an idle node and its first training step, and back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bftrainer.cli.output import show_json, show_rows
from bftrainer.client.state_dir import opened_registry
from bftrainer.domain.node_stages import SUMMARIES, TO_RELEASE, TO_TRAINING, NodeStage, stage_seconds, whole_seconds

if TYPE_CHECKING:
    from bftrainer.persistence.time_lines import TimeLine

_HEADS = {
    NodeStage.JOB_STARTED: "job", NodeStage.PAYLOAD_READY: "payload", NodeStage.WORKER_STARTED: "worker",
    NodeStage.IMPORTS_DONE: "imports", NodeStage.GROUP_SWITCHED: "group", NodeStage.FIRST_STEP: "step",
    NodeStage.WORKERS_GONE: "gone", NodeStage.RELEASED: "seen over",
}  # fmt: skip
_CHAINS = ((TO_TRAINING, "idle to step"), (TO_RELEASE, "release"))


def show_time_lines(state: Path, everything: bool, as_json: bool) -> None:
    """Print the time lines of held nodes, or of all."""
    from bftrainer.persistence.time_lines import time_lines

    with opened_registry(state) as registry:
        lines = time_lines(registry, open_only=not everything)
    if as_json:
        show_json([_as_dict(line) for line in lines])
        return
    heads = [head for chain, whole in _CHAINS for head in (*map(_head, chain[1:]), whole)]
    cells = [(line, [value for chain, _ in _CHAINS for value in _values(line, chain)]) for line in lines]
    columns = list(zip(*(values for _, values in cells), strict=True)) or [()] * len(heads)
    rows = [(line.fragment, line.trainer, *map(_shown, values)) for line, values in cells]
    for name, of in SUMMARIES:
        found = [[value for value in values if value is not None] for values in columns]
        rows.append((name, "", *(_shown(of(values) if values else None) for values in found)))
    show_rows(("s", "trainer", *heads), rows, right=heads)


def _values(line: TimeLine, chain: tuple[NodeStage, ...]) -> list[float | None]:
    seconds = stage_seconds(line.instants, chain)
    return [*(seconds.get(stage) for stage in chain[1:]), whole_seconds(line.instants, chain)]


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _head(stage: NodeStage) -> str:
    return _HEADS.get(stage, stage.value)


def _as_dict(line: TimeLine) -> dict[str, object]:
    seconds = {
        stage.value: round(value, 4)
        for chain, _ in _CHAINS
        for stage, value in stage_seconds(line.instants, chain).items()
    }
    instants = {stage.value: line.instants[stage] for stage in NodeStage if stage in line.instants}
    return {
        "fragment": line.fragment, "node": line.node, "trainer": line.trainer or None, "instants_s": instants,
        "stage_s": seconds, "idle_to_step_s": whole_seconds(line.instants, TO_TRAINING),
        "release_s": whole_seconds(line.instants, TO_RELEASE),
    }  # fmt: skip
