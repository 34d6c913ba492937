"""Several users on the same idle nodes of a log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command_line import bftrainer, complaint

from bftrainer.decide.allocation.exact import Exact
from bftrainer.decide.allocation.objectives import OBJECTIVES
from bftrainer.decide.core.demand_cap import DemandCap
from bftrainer.decide.domain.model import Trainer
from bftrainer.decide.policies.bftrainer import BFTrainer
from bftrainer_papers.fixed_pool import fixed_window
from bftrainer_replay.simulation.by_user import ByUser, Unused, Users, outcomes_by_user
from bftrainer_replay.simulation.play import Scenario, play
from bftrainer_replay.simulation.replay_world import Arrival
from bftrainer_replay.workload.curves import TABLE_2

POLICY = BFTrainer(Exact(), OBJECTIVES["relative-speed"], 120.0)


def arrivals(late_s: float = 0.0) -> tuple[Arrival, ...]:
    """ann has one trainer, bea twenty, who may come later."""

    def one(name: str, at_s: float) -> Arrival:
        trainer = Trainer(name, TABLE_2["shufflenet"], 1, 64, 18.0, 12.0, None, model="shufflenet")
        return Arrival(at_s, trainer, user=name[:3])

    return one("ann-0", 0.0), *(one(f"bea-{i}", late_s) for i in range(20))


@pytest.mark.parametrize(
    ("how", "late_s", "ann"),
    [
        (Users.SHARE, 0.0, (0.99, 1.01)),
        (Users.SHARE, 1800.0, (1.2, 1.6)),  # all nodes until bea comes, then half of them
        (Users.EQUAL, 1800.0, (1.2, 1.6)),
        (Users.FIRST_COME, 1800.0, (1.7, 2.0)),  # all of them for ever
    ],
)
def test_a_user_with_one_trainer_does_as_on_half_of_the_nodes(
    how: Users, late_s: float, ann: tuple[float, float]
) -> None:
    scenario = Scenario(fixed_window(16, 0.0, 7200.0), arrivals(late_s), 100)
    shared = ByUser(POLICY, how, {a.trainer.id: a.user for a in scenario.arrivals})
    found = {it.user: it for it in outcomes_by_user(scenario, POLICY, play(scenario, shared))}
    assert ann[0] <= found["ann"].relative <= ann[1]
    if how is Users.FIRST_COME:
        assert found["bea"].one_node_h == 0
    else:
        assert found["bea"].relative > 0.95
        assert sum(shared.given_up) == (8 if late_s else 0)


def test_users_of_a_table(tmp_path: Path) -> None:
    log, table = tmp_path / "log.csv", tmp_path / "trainers.csv"
    bftrainer("replay", "generate", "--nodes", "32", "--days", "1", "--seed", "1", "--out", log)
    rows = [
        f"{u}{i},18,12,1,8,1e12,2021-01-01 00:00:00,shufflenet,{u}"
        for u in ("ann", "bea")
        for i in range(2)
    ]
    table.write_text("\n".join(["job,Tcup,Tcdw,Jmin,Jmax,Pmax,Tsub,model,user", *rows]) + "\n")
    words = (
        "replay",
        "run",
        log,
        "--trainers",
        table,
        "--hours",
        "6",
        "--out",
        tmp_path / "out",
    )
    told = json.loads(bftrainer(*words, "--users", "share", "--json").out)
    assert [it["user"] for it in told["users"]] == ["ann", "bea"]
    assert told["nodes_given_up_per_h"] >= 0
    assert "relative" in bftrainer(*words, "--users", "equal").out
    table.write_text(table.read_text().replace(",bea\n", ",ann\n"))
    assert "names fewer than two users" in complaint(bftrainer(*words, "--users", "share"))


def test_nodes_that_no_trainer_uses_go_after_a_while_and_come_back_when_another_is_lost() -> None:
    names = frozenset({"ann-0"})
    idle = Unused().after(3, 0.0)
    assert idle.now(names, 64, 12, 5, 29.0) == idle
    gone = idle.now(names, 64, 12, 5, 30.0)
    assert (gone.nodes, gone.cap) == (0, DemandCap("", names, 12, 15, 64))
    assert gone.now(names, 64, 12, 5, 31.0).cap == gone.cap
    assert gone.now(names, 64, 11, 5, 31.0).cap is None
    assert gone.now(names | {"ann-1"}, 64, 12, 5, 31.0).cap is None
