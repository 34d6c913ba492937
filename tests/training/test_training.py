"""The shipped examples under a random schedule of rescales and kills: the short form of ``make
training``.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.needs import need_package
from support.training_schedules import KINDS, train

SEEDS = {"horovod": 15, "torchrun": 1, "torchft": 1, "lightning": 3, "restart": 79}
"""Schedules that begin with two workers and, before an epoch is over, with the SIGKILL of one."""
NEEDS = {
    "horovod": "horovod",
    "torchrun": "torch",
    "torchft": "torchft",
    "lightning": "lightning",
    "restart": "numpy",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_all_ranks_train_one_model_on_each_sample_once(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """``train`` raises where ranks disagree at a step, or a sample of an epoch is used twice or
    never.
    """
    if name == "horovod":
        request.getfixturevalue("elastic_horovod")
    need_package(NEEDS[name])
    run = train(name, tmp_path / "trainer", seed=SEEDS[name], size=None, epochs=2)
    assert run.sizes[0] == 2
    assert run.kills >= 1
    assert run.compared >= 10
    assert run.curve[-1] < 0.1 * run.curve[0], "it has learned the digits"


@pytest.mark.slow
def test_the_loss_is_that_of_training_at_a_constant_size(tmp_path: Path) -> None:
    """At equal numbers of samples; the figures are in docs/training.md."""
    constant = [
        train("restart", tmp_path / f"{size}", seed=1, size=size, epochs=2).curve for size in (1, 3)
    ]
    found = train("restart", tmp_path / "random", seed=2, size=None, epochs=2).curve
    for window in range(2, len(found)):
        values = [one[window] for one in constant]
        assert min(values) / 2 < found[window] < 2 * max(values), (window, found, constant)
