"""``bftrainer explain`` over journals of a pilot on fakes."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from support.fakes_live import START_S
from support.live_house import House, house, spec

from bftrainer.console.cli.explanation import as_dict, rows
from bftrainer.console.cli.main import run
from bftrainer.errors import UserError
from bftrainer.fragment_names import node_of
from bftrainer.pilot.explain import Explanation
from bftrainer.pilot.persistence.spool import RequestKind
from bftrainer.pilot.rerun import decisions_with_states


@pytest.fixture
def home(tmp_path: Path) -> House:
    return house(
        tmp_path / "state",
        decisions={"solver": "exact", "objective": "throughput", "max_parallel": 2},
    )


def curve(*per_s: float) -> dict[str, object]:
    return {
        "samples_per_s": None,
        "curve": {"nodes": list(range(1, len(per_s) + 1)), "samples_per_s": list(per_s)},
    }


def about(home: House, name: str, at_s: float = float("inf")) -> Explanation:
    return home.explain(name, at_s)


def two_of_different_worth(home: House) -> None:
    """Three nodes: the rich one takes two, the poor one the third; a fourth comes later for the
    rich one's third.
    """
    home.cluster.give("n1", "n2", "n3")
    home.submit(
        spec("rich", 3, **curve(100.0, 190.0, 270.0)), spec("poor", 3, **curve(90.0, 120.0, 140.0))
    )


def test_the_outbid_one_hears_by_whom(home: House) -> None:
    two_of_different_worth(home)
    home.pilot(20)
    found = about(home, "poor")
    assert (found.share.after, found.pool, found.free) == (1, 3, 0)
    assert found.why.startswith("it is outbid: 2 nodes would bring it ")
    assert "rich (2 -> 1)" in found.why
    assert found.stake is not None
    assert found.stake.more is not None
    assert found.stake.less is not None
    assert max(found.stake.more.change, found.stake.less.change) < 0
    assert [(s.id, s.before, s.after) for s in found.stake.more.others] == [("rich", 2, 1)]
    assert [(s.id, s.before, s.after) for s in found.stake.less.others] == [("rich", 2, 3)]


def test_a_past_moment_is_explained_as_it_was(home: House) -> None:
    two_of_different_worth(home)
    home.at(20, lambda: home.cluster.give("n4"))
    home.pilot(30)
    assert about(home, "rich").share.after == 3
    assert about(home, "rich").why == "it has as many nodes as it can use (max_nodes)"
    assert about(home, "rich", START_S + 19).share.after == 2
    with pytest.raises(UserError, match="no decision had been made by then"):
        about(home, "rich", START_S - 1)


def test_rescaling_that_does_not_pay(home: House) -> None:
    home.cluster.give("n1")
    home.at(20, lambda: home.cluster.give("n2"))
    home.submit(spec("slow", 2, **curve(100.0, 110.0), scale_up_s=50.0))
    home.pilot(40)
    found = about(home, "slow", START_S + 24)
    assert (found.share.after, found.pool) == (1, 2)
    assert found.why.startswith(
        "growing does not pay off within the forward-looking time: 2 nodes would bring it -"
    )


def test_a_pool_takes_what_no_training_gains_from(home: House) -> None:
    home.cluster.give("n1", "n2", "n3")
    home.submit(spec("a", 1), spec("rest", 3, launcher="pool"))
    home.pilot(20)
    found = about(home, "rest")
    assert found.share.after == 2
    assert found.why.startswith(
        "it takes what no training gains from: of 3 nodes, trainings have 1, and pools"
    )


def test_the_queue_and_the_pause(home: House, capsys: pytest.CaptureFixture[str]) -> None:
    home.cluster.give("n1", "n2", "n3")
    home.submit(spec("a"), spec("b"), spec("c"))
    home.at(12, lambda: home.ask(RequestKind.PAUSE, "a"))
    home.pilot(11)
    assert about(home, "c").place == 1
    assert "number 1 in the queue: 2 trainers were admitted before it" in about(home, "c").why
    home.pilot(15)
    assert run(["explain", "a", "--state", str(home.path)]) == 0
    assert (
        "a has no nodes: it is paused; resume it with `bftrainer resume a`"
        in capsys.readouterr().out
    )
    assert about(home, "c").place is None, "it has moved up"


def test_without_a_node_the_obstacle_is_told_in_its_own_words(home: House) -> None:
    home.at(5, lambda: home.cluster.give("n1"))
    home.cluster.refuses.add("n1")
    home.submit(spec("a"))
    home.pilot(20)
    why = about(home, "a").why
    assert (
        why
        == "there are no idle nodes that the batch scheduler cannot fill; latest refusal: n1: no"
    )
    assert "refusal" not in about(home, "a", START_S).why


def test_a_rule_without_a_problem_says_so(tmp_path: Path) -> None:
    home = house(tmp_path / "state", decisions={"policy": "equal-share"})
    home.cluster.give("n1", "n2")
    home.submit(spec("a", 1), spec("b", 1))
    home.pilot(10)
    assert "policy equal-share follows its own rule" in about(home, "a").why


def test_nodes_that_a_policy_has_named_are_shown(tmp_path: Path) -> None:
    home = house(tmp_path / "state", decisions={"policy": "cohort"})
    home.cluster.give("n1", "n2")
    home.submit(spec("a", max_nodes=2, samples_total=1e6))
    home.pilot(20)
    found = about(home, "a")
    named = dict(rows(found))["nodes named"]
    assert sorted(node_of(name) for name in named.split(", ")) == ["n1", "n2"]
    assert as_dict(found)["nodes_named"] == named.split(", ")


def test_the_command(home: House, capsys: pytest.CaptureFixture[str]) -> None:
    two_of_different_worth(home)
    home.pilot(20)
    state = ["--state", str(home.path)]
    assert run(["explain", "poor", *state]) == 0
    text = capsys.readouterr().out
    for words in (
        "poor has had 1 node since",
        "it is outbid",
        "over all trainings (rich 2 -> 1)",
        "T_fwd 120 s",
        "exact, optimal",
    ):
        assert words in text, text
    assert run(["explain", "poor", "--json", *state]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["counts"] == {"rich": 2, "poor": 1}
    assert facts["stake"]["more"]["nodes"] == 2
    assert facts["stake"]["more"]["others"]["rich"]["after"] == 1
    for wrong, complaint in (
        (["explain", "nobody"], "no training named 'nobody'"),
        (["explain", "poor", "--at", "soon"], "--at soon: not a time, expected 14:05"),
        (["explain", "poor", "--at", "1000"], "no decision had been made by then"),
    ):
        assert run([*wrong, *state]) == 2
        assert complaint in capsys.readouterr().err


def test_a_long_journal_is_read_from_a_state_near_the_moment(
    home: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bftrainer.pilot.persistence.journal.STATE_EVERY", 2)
    home.cluster.give("n1")
    home.submit(spec("a", 8, **curve(*(100.0 * n for n in range(1, 9)))))
    for number in range(2, 8):
        home.at(10.0 * number, lambda number=number: home.cluster.give(f"n{number}"))
    home.pilot(90)
    with closing(home.store()) as store:
        every = list(decisions_with_states(store))
        assert len(every) >= 8
        for entry, state in every[3:]:
            near = list(decisions_with_states(store, entry.event.at_s))
            assert len(near) < len(every)
            again = next(found for found in near if found[0].number == entry.number)
            assert again == (entry, state), "the same state, from whichever beginning"
