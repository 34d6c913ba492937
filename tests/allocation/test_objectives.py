"""What the objectives make of a curve, and a user's own function."""

from __future__ import annotations

from pathlib import Path

import pytest

from bftrainer.decide.allocation.objectives import OBJECTIVES, from_function
from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.errors import InvalidValueError, UnknownNameError, UserError
from bftrainer.plugins import find_objective


def trainer(priority: float = 1.0, min_nodes: int = 1) -> Trainer:
    return Trainer(
        "t", Curve((1, 2, 4), (10.0, 18.0, 30.0)), min_nodes, 4, 18.0, 12.0, 1e6, priority
    )


def test_throughput_is_the_curve() -> None:
    assert OBJECTIVES["throughput"].value(trainer(), None) == trainer().curve


def test_scaling_efficiency_is_the_speed_up_over_one_node() -> None:
    assert OBJECTIVES["scaling-efficiency"].value(trainer(), None).per_s == pytest.approx(
        (1.0, 1.8, 3.0)
    )


def test_scaling_efficiency_where_one_node_is_too_few_is_per_node_at_the_minimum() -> None:
    assert OBJECTIVES["scaling-efficiency"].value(
        trainer(min_nodes=2), None
    ).per_s == pytest.approx((10 / 9, 2.0, 30 / 9))


def test_priority_weighs_the_relative_speed() -> None:
    assert OBJECTIVES["priority"].value(trainer(priority=2.0), None).per_s == pytest.approx(
        (20.0, 36.0, 60.0)
    )
    with pytest.raises(InvalidValueError, match="priority above 0"):
        OBJECTIVES["priority"].value(trainer(priority=0.0), None)


def test_progress_is_per_remaining_work_of_at_least_a_minute() -> None:
    value = OBJECTIVES["progress"].value
    assert value(trainer(), 6000.0).per_s == pytest.approx((10 / 6000, 18 / 6000, 30 / 6000))
    assert value(trainer(), 0.0).per_s == pytest.approx((10 / 1800, 18 / 1800, 30 / 1800))
    with pytest.raises(InvalidValueError, match="requires samples_total"):
        value(trainer(), None)


def test_a_users_function_is_asked_at_every_legal_size() -> None:
    asked: list[int] = []

    def squares(asking: Trainer, n: int) -> float:
        asked.append(n)
        return float(n * n)

    objective = from_function("mine:squares", squares)
    assert objective.value(trainer(min_nodes=2), None) == Curve((2, 3, 4), (4.0, 9.0, 16.0))
    objective.value(trainer(min_nodes=2), None)
    assert asked == [2, 3, 4]
    with pytest.raises(InvalidValueError, match="gave nan for trainer t on 1 nodes"):
        from_function("mine:nan", lambda _trainer, _n: float("nan")).value(trainer(), None)


def test_objectives_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_objective("progress").name == "progress"
    assert find_objective("math:fsum").name == "math:fsum"
    with pytest.raises(UnknownNameError, match="did you mean 'throughput'"):
        find_objective("troughput")
    with pytest.raises(UserError, match="cannot import 'no_such_module'"):
        find_objective("no_such_module:f")
    (tmp_path / "divides_by_zero.py").write_text("import math\nmath.nan // 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    place = r"\(ZeroDivisionError: .*, at .*/divides_by_zero.py:2\)$"
    with pytest.raises(UserError, match=f"^objective .* cannot import .*{place}"):
        find_objective("divides_by_zero:f")
    with pytest.raises(UserError, match="has no function 'nope'"):
        find_objective("math:nope")
