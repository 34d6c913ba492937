"""A decision cannot end the pilot: an error keeps the present sizes, and a trainer that causes it
is paused.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from live import failing_policies
from support.live_house import House, configuration, house, spec

from bftrainer.decide.domain.state import State
from bftrainer.errors import SolverError, UserError
from bftrainer.pilot.decision_maker import check_decisions
from bftrainer.pilot.persistence.spool import RequestKind

OWN = tuple(f"live.failing_policies:{name}" for name in ("objective", "sometimes", "forgetful"))


@pytest.fixture(autouse=True)
def _works_again() -> Iterator[None]:
    yield
    failing_policies.fails[0] = False


def notes(home: House) -> list[str]:
    assert home.differences(OWN) == [], "the journal explains every decision"
    return home.notes()


def sizes(state: State) -> dict[str, int]:
    return {a.trainer.id: len(a.nodes) for a in state.active}


@pytest.mark.parametrize(
    ("objective", "lacks"),
    [("progress", "samples_total"), ("growth", "samples_total"), ("priority", "priority")],
)
def test_a_reload_that_a_trainer_cannot_be_served_under_changes_nothing(
    tmp_path: Path, objective: str, lacks: str
) -> None:
    home = house(tmp_path / "state")
    home.cluster.give("n1", "n2")
    home.submit(spec("a", max_nodes=2, priority=0), spec("b", max_nodes=2, priority=0))
    home.ask(RequestKind.PAUSE, "b")
    home.at(10, lambda: home.reload(decisions={"objective": objective}, nodes={"max_nodes": 1}))
    home.at(15, lambda: home.cluster.give("n3"))
    state = home.pilot(20)
    assert sizes(state) == {"a": 2}, "nothing of the file was applied"
    (rejected,) = [note for note in notes(home) if note.startswith("reload")]
    assert f"trainer a: objective {objective} requires" in rejected
    assert lacks in rejected
    assert "and 1 more trainer" in rejected, "one that is paused may resume"


def test_a_pilot_does_not_start_with_an_objective_that_its_trainers_lack(tmp_path: Path) -> None:
    config = configuration({"decisions": {"objective": "progress"}})
    check_decisions(config, [spec("a", samples_total=10.0).trainer()])
    with pytest.raises(
        UserError, match=r"trainer b: objective progress requires .*samples_total.*cancel"
    ):
        check_decisions(config, [spec("a", samples_total=10.0).trainer(), spec("b").trainer()])


def test_nor_with_a_solver_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "gurobipy", None)
    with pytest.raises(SolverError) as failed:
        check_decisions(configuration({"decisions": {"solver": "gurobi"}}), ())
    assert failed.value.exit_status == 2


def test_a_trainer_with_which_no_decision_can_be_made_is_paused_and_the_others_go_on(
    tmp_path: Path,
) -> None:
    home = house(tmp_path / "state", decisions={"objective": "live.failing_policies:objective"})
    home.cluster.give("n1", "n2", "n3")
    home.submit(spec("a", max_nodes=2))
    home.at(8, lambda: home.submit(spec("poison", max_nodes=2), spec("b", max_nodes=1)))
    state = home.pilot(20)
    assert sizes(state) == {"a": 2, "b": 1}
    assert home.status("poison") == "paused"
    assert any(
        note.startswith("quarantine poison paused") and "ZeroDivisionError" in note
        for note in notes(home)
    )
    home.ask(RequestKind.CANCEL, "poison")
    assert sizes(home.pilot(10)) == {"a": 2, "b": 1}
    assert home.status("poison") == "canceled"


def test_a_policy_that_fails_keeps_the_sizes_until_it_works_again(tmp_path: Path) -> None:
    home = house(tmp_path / "state", decisions={"policy": "live.failing_policies:sometimes"})
    home.cluster.give("n1", "n2")
    home.submit(spec("a", max_nodes=2), spec("b", max_nodes=2))
    home.at(8, lambda: failing_policies.fails.__setitem__(0, True))
    home.at(10, lambda: home.ask(RequestKind.CANCEL, "b"))
    home.at(12, lambda: home.cluster.take("n2"))
    during: list[str] = []
    home.at(20, lambda: during.append(home.status("a")))
    home.at(30, lambda: failing_policies.fails.__setitem__(0, False))
    home.at(32, lambda: home.cluster.give("n2"))
    state = home.pilot(120)
    assert sizes(state) == {"a": 2}
    assert during == ["running"], "it trains on with what is left"
    said = notes(home)
    assert [note for note in said if note.startswith("decision failed")] == [
        "decision failed  trainers keep their sizes: KeyError: 'nothing of the kind'"
    ]
    assert not any(note.startswith("quarantine") for note in said), "it is the policy that fails"
    kept = [entry for entry in home.entries() if entry.plan.decision.kept]
    assert kept
    assert all(entry.answers == () for entry in kept)
    assert "the policy failed" in home.explain("a", kept[-1].event.at_s + 0.01, OWN).why


def test_a_memory_that_cannot_be_journaled_is_an_error_of_the_policy(tmp_path: Path) -> None:
    home = house(tmp_path / "state", decisions={"policy": "live.failing_policies:forgetful"})
    home.cluster.give("n1")
    home.submit(spec("a", max_nodes=2))
    assert sizes(home.pilot(10)) == {"a": 0}
    assert any("cannot be journaled" in note for note in notes(home))


# --- A pilot that comes back with another objective, as after an update that changes the default

CHEAP = {"nodes": (1, 2, 8), "samples_per_s": (7100.0, 14000.0, 52000.0)}
COSTLY = {"nodes": (1, 2, 8), "samples_per_s": (1000.0, 2000.0, 8000.0)}


def test_a_pilot_that_comes_back_decides_by_the_new_default_and_keeps_its_trainers_and_journal(
    tmp_path: Path,
) -> None:
    home = house(tmp_path / "state", decisions={"objective": "throughput", "max_parallel": 2})
    home.cluster.give("n1", "n2", "n3", "n4")
    home.submit(
        spec("cheap", 8, samples_per_s=None, curve=CHEAP),
        spec("costly", 8, samples_per_s=None, curve=COSTLY),
    )
    state = home.pilot(30)
    assert [len(active.nodes) for active in state.active] == [4, 0]
    home.config = configuration({"decisions": {"max_parallel": 2}})
    state = home.pilot(60)
    assert home.differences() == []
    decided = home.entries()
    assert {entry.settings.objective for entry in decided} == {"throughput", "relative-speed"}
    assert decided[0].settings.objective == "throughput"
    assert all(decided[-1].plan.decision.counts), (
        "the trainer that throughput left at 0 nodes runs now"
    )
