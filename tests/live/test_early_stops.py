"""Trainers that a rule ends early, under two pilots in succession."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.live_house import House, house

import bftrainer as api


def reports(home: House, name: str, samples: float, loss: float) -> None:
    home.launcher.progress(name, samples, loss=loss)


def test_asha_ends_the_trials_that_are_not_among_the_best_and_remembers_the_others_over_a_restart(
    tmp_path: Path,
) -> None:
    home = house(tmp_path / "state")
    handles = api.sweep(
        state=home.path,
        name="t",
        command=["true", "{lr}"],
        max_nodes=1,
        samples_per_s=10.0,
        grid={"lr": [0.1, 0.2, 0.3, 0.4]},
        stop=api.ASHA("loss", first=100, most=900, factor=2),
    )
    home.cluster.give("n1", "n2", "n3", "n4")
    home.at(10, lambda: reports(home, "t-lr0.1", 100, 5.0))
    home.at(11, lambda: reports(home, "t-lr0.2", 99, 9.0))
    home.at(12, lambda: reports(home, "t-lr0.3", 150, 4.0))
    home.pilot(20)
    assert not any(handle.done() for handle in handles)
    home.at(15, lambda: reports(home, "t-lr0.2", 120, 5.5))
    home.at(20, lambda: reports(home, "t-lr0.1", 190, 50.0))
    home.pilot(40)
    assert handles[1].view().reason == (
        "stopped early by asha(min loss, 100, 900, 2): loss 7.25 (median of 2 reports) at 120 samples"
    )
    assert [handle.done() for handle in handles] == [False, True, False, False], (
        "a rung is looked at once"
    )
    assert api.results(state=home.path)[0].parameters == {"lr": 0.1}


def test_asha_does_not_judge_by_the_loss_of_one_batch(tmp_path: Path) -> None:
    """A good trial with one bad batch at the rung goes on; a bad one with one good batch ends."""
    home = house(tmp_path / "state")
    good, bad = api.sweep(
        state=home.path,
        name="t",
        command=["true", "{lr}"],
        max_nodes=1,
        samples_per_s=10.0,
        grid={"lr": [0.1, 0.2]},
        stop=api.ASHA("loss", first=100, most=900, factor=2),
    )
    home.cluster.give("n1", "n2")
    for number, losses in enumerate([(2.0, 2.0), (1.1, 5.1), (1.2, 5.2), (1.3, 5.3), (9.0, 0.5)]):
        samples = (10, 82, 88, 94, 100)[number]

        def report(samples: int = samples, losses: tuple[float, float] = losses) -> None:
            reports(home, "t-lr0.1", samples, losses[0])
            reports(home, "t-lr0.2", samples, losses[1])

        home.at(10 + 2 * number, report)
    home.pilot(40)
    assert not good.done()
    assert "loss 5.15 (median of 4 reports) at 100 samples" in bad.view().reason


def test_a_limit_ends_a_trainer_at_its_samples_and_a_wrong_rule_is_refused(tmp_path: Path) -> None:
    home = house(tmp_path / "state")
    keys = {"command": ["true"], "max_nodes": 1, "samples_per_s": 10.0, "state": home.path}
    with pytest.raises(api.UserError, match="stop_when"):
        api.submit(name="wrong", stop_when=["loss>2"], **keys)
    handle = api.submit(name="a", stop_when=["loss>2@1000"], **keys)
    home.cluster.give("n1")
    home.at(10, lambda: reports(home, "a", 900, 3.0))
    home.at(12, lambda: reports(home, "a", 1010, 2.5))
    home.pilot(11)
    assert not handle.done()
    home.pilot(20)
    assert handle.view().reason == "stopped early by loss>2@1000: loss 2.5 at 1,010 samples"
