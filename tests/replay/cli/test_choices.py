"""The values that options list are those that the code has."""

from __future__ import annotations

from typing import get_args

from bftrainer_replay.cli import choices
from bftrainer_replay.comparison.advise import cells_to_try
from bftrainer_replay.logs.open import EVENTS, FORMATS
from bftrainer_replay.logs.source import FORMAT_NAMES
from bftrainer_replay.report.plan import plan_of
from bftrainer_replay.simulation.progress import CostModel
from bftrainer_replay.simulation.replay_world import DecideOn
from bftrainer_replay.sweep.cell import Cell
from bftrainer_replay.sweep.inputs import WorkloadKind


def test_options_list_what_there_is() -> None:
    for choice, enum in ((choices.COST_MODEL, CostModel), (choices.DECIDE_ON, DecideOn)):
        assert list(choice.choices) == [member.value for member in enum]  # type: ignore[attr-defined]
    assert tuple(choices.WORKLOAD.choices) == get_args(WorkloadKind)


def test_every_format_has_a_reader() -> None:
    assert set(FORMAT_NAMES) == {EVENTS, *(form.name for form in FORMATS)}


def test_no_grid_of_ours_has_a_t_fwd_within_which_growth_never_pays() -> None:
    base = Cell("log", "workload", cost_model=CostModel.OVERLAP)
    assert all(cell.forward_s > 130.0 for cell in cells_to_try(base, 130.0))
    assert all(cell.forward_s > 700.0 for cell in cells_to_try(base, 700.0))
    plan = plan_of(base).beyond(100.0)
    assert plan.base.forward_s == 120.0
    assert [cell.forward_s for cell in plan.forward] == [120.0, 300.0, 900.0]
    assert [cell.cost_factor for cell in plan.costs] == [1.0]
    assert plan_of(base).beyond(-1.0) == plan_of(base)
