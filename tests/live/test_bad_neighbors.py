"""Trainers that crash, need too much memory, or hang before their first step, beside healthy ones."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from support.live_house import House, house, spec

from bftrainer.config.trainer_file import TrainerSpec
from bftrainer.pilot.persistence.registry import TrainerStatus
from bftrainer.wires.hosts_file import HostSlots

GOOD = ("good0", "good1", "good2")
BAD = ("crash", "memory", "hang")
HANG_S = 30.0
"""Time after which the driver ends a start without a step. An hour with it stands for 30 hours with
``first_step_s`` = 15 minutes.
"""


HANG = f"no step within {HANG_S:g} s of its start (first_step_s)"
"""What the driver says then."""


def node_hours(path: Path, bad: tuple[str, ...]) -> list[float]:
    """Node-hours of three healthy trainers within an hour on twelve nodes."""
    home = house(path)
    home.cluster.give(*(f"n{number:02d}" for number in range(12)))
    home.submit(*(spec(name, 4, samples_total=1e9) for name in GOOD))
    home.launcher.behaviour |= dict.fromkeys(("crash", "hang"), "fails")
    home.launcher.fits["memory"] = 0
    home.launcher.reasons["hang"] = HANG
    hang_late(home)
    home.at(60, lambda: home.submit(*(spec(name, 4) for name in bad)))
    home.pilot(3600)
    assert all(home.trainer(name).status is TrainerStatus.FAILED for name in bad)
    return [home.trainer(name).trained_node_s / 3600 for name in GOOD]


def hang_late(home: House) -> None:
    """Let the trainer "hang" fail ``HANG_S`` after each start, as its driver would."""
    start = home.launcher.start

    def started(
        trainer: TrainerSpec, hosts: Iterable[HostSlots], interface: str | None = None
    ) -> None:
        usual_s = home.launcher.takes_s
        home.launcher.takes_s = HANG_S if trainer.name == "hang" else usual_s
        start(trainer, hosts, interface)
        home.launcher.takes_s = usual_s

    home.launcher.start = started  # type: ignore[method-assign]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """Node-hours without bad neighbors."""
    return node_hours(tmp_path_factory.mktemp("alone") / "pilot", ())


@pytest.mark.slow
@pytest.mark.parametrize("bad", [("hang",), BAD], ids=" ".join)
def test_broken_trainers_cost_each_healthy_one_less_than_two_percent(
    bad: tuple[str, ...], alone: list[float], tmp_path: Path
) -> None:
    beside = node_hours(tmp_path / "beside", bad)
    assert sum(alone) == pytest.approx(12.0, rel=0.01)
    for hours, hours_alone in zip(beside, alone, strict=True):
        assert hours > 0.98 * hours_alone, (alone, beside)
