"""Policies of other papers in the live world: refused with the reason where a trainer does not say
enough, else at work.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.live_house import house, spec


@pytest.mark.parametrize(
    ("kind", "name", "lacks"),
    [
        ("policy", "afs-l", "samples_total"),
        ("policy", "modelarts-optimal", "samples_total"),
        ("policy", "flowcon", "reports_loss"),
        ("objective", "progress", "samples_total"),
    ],
)
def test_a_trainer_that_does_not_say_enough_is_refused_and_the_others_run(
    tmp_path: Path, kind: str, name: str, lacks: str
) -> None:
    home = house(tmp_path / "state", decisions={kind: name})
    home.cluster.give("n1", "n2", "n3")
    home.submit(spec("silent", max_nodes=2))
    home.submit(spec("telling", max_nodes=2, samples_total=1e6, reports_loss=True))
    state = home.pilot(20)
    assert [a.trainer.id for a in state.active] == ["telling"]
    assert [len(a.nodes) for a in state.active] == [2]
    said = "\n".join(home.notes())
    assert f"submission of 'silent' rejected: trainer silent: {kind} {name} requires" in said
    assert lacks in said


@pytest.mark.parametrize(
    "policy",
    [
        "modelarts-greedy",
        "modelarts-optimal",
        "afs-l",
        "afs-p",
        "srtf",
        "fcfs-rigid",
        "plain?nodes=2",
        "loss-phase",
        "flowcon",
        "cohort",
    ],
)
def test_each_runs_live_and_its_journal_repeats_its_decisions(tmp_path: Path, policy: str) -> None:
    home = house(tmp_path / "state", decisions={"policy": policy})
    home.cluster.give("n1", "n2", "n3", "n4")
    for name in "ab":
        home.submit(
            spec(name, max_nodes=2, samples_total=1e6, reports_loss=True, requested_nodes=2)
        )
    state = home.pilot(20)
    assert sum(len(a.nodes) for a in state.active) == 4
    home.pilot(20)  # one that comes back finds the policy's memory
    assert home.entries()
    assert not home.differences()
