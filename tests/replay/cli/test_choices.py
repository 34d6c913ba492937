"""The values that options list are those that the code has."""

from __future__ import annotations

from typing import get_args

from bftrainer_replay.cli import choices
from bftrainer_replay.logs.open import EVENTS, FORMATS, PICKLE
from bftrainer_replay.logs.source import FORMAT_NAMES
from bftrainer_replay.simulation.progress import CostModel
from bftrainer_replay.simulation.world import DecideOn
from bftrainer_replay.sweep.grid import WorkloadKind
from bftrainer_replay.workload.traces.scaling import CurveShape


def test_options_list_what_there_is() -> None:
    for choice, enum in ((choices.COST_MODEL, CostModel), (choices.DECIDE_ON, DecideOn), (choices.SHAPE, CurveShape)):
        assert list(choice.choices) == [member.value for member in enum]  # type: ignore[attr-defined]
    assert tuple(choices.WORKLOAD.choices) == get_args(WorkloadKind)


def test_every_format_has_a_reader() -> None:
    assert set(FORMAT_NAMES) == {EVENTS, PICKLE, *(form.name for form in FORMATS)}
