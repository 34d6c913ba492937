"""A site whose main jobs would wait for holders: nothing is held there, held nodes are released,
and every reader hears why.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.command_line import bftrainer
from support.live_house import House, configuration, house, spec

from bftrainer.cluster.model import GiveWay, HoldingPermit
from bftrainer.console.cli.trainers import read_allocation
from bftrainer.errors import InvalidValueError
from bftrainer.pilot.nodes.holding_permission import HoldingPermission
from bftrainer.pilot.own_site import build_site
from bftrainer.system.clock import SystemClock
from bftrainer.times import ElapsedS

WHY = "exempt time: a holder cannot be preempted in its first 600 s (remedy: 0)"


@pytest.fixture
def home(tmp_path: Path) -> House:
    return house(tmp_path / "state")


def refuse(home: House, why: str = WHY, releases: bool = True) -> None:
    home.permit = HoldingPermit(why, releases)


def test_explain_names_the_way_until_another_pilot_starts(home: House) -> None:
    home.cluster.give("n1", "n2")
    home.submit(spec("a"))
    home.permit = HoldingPermit(give_way=GiveWay.BLIND, why=WHY)
    home.pilot(5)
    assert home.noted("give way")[0].startswith("blind: ")
    assert home.noted("give way")[0].endswith(f"({WHY})")
    home.permit = HoldingPermit()
    home.pilot(20)
    assert "; blind" not in home.explain("a").why


def test_a_site_that_cannot_watch_a_queue_refuses_to_be_told_so(tmp_path: Path) -> None:
    config = configuration({"nodes": {"give_way": "yield"}, "trace": {"nodes": 2}})
    with pytest.raises(InvalidValueError, match=r"holder 'trace' .* cannot tell"):
        build_site(config, tmp_path, SystemClock())


@pytest.mark.parametrize(("way", "is_refused"), [("yield", True), ("site", False), ("auto", False)])
def test_single_gpus_cannot_be_released_for_main_jobs(
    tmp_path: Path, way: str, is_refused: bool
) -> None:
    nodes = {"holder": "slurm", "unit": "gpu", "give_way": way}
    config = configuration({"nodes": nodes, "slurm": {"partition": "p"}})
    if not is_refused:
        assert build_site(config, tmp_path, SystemClock()).ways == {GiveWay.SITE}
        return
    with pytest.raises(InvalidValueError, match=r'set "auto" or "site"$') as caught:
        build_site(config, tmp_path, SystemClock())
    assert "\n" not in str(caught.value)


def test_nothing_is_held_and_the_reason_is_told_before_anything_was_submitted(home: House) -> None:
    home.cluster.give("n1", "n2")
    refuse(home)
    home.pilot(20)
    assert home.noted("refused") == [f"no node is held: {WHY}"], (
        "one line, and not one for each node"
    )
    home.submit(spec("a"))
    home.pilot(20)
    assert home.cluster.acquired == []
    assert home.explain("a").why.endswith(f"; latest refusal: no node is held: {WHY}")


def test_list_says_why_no_node_is_held(home: House) -> None:
    """Only while the site refuses."""
    home.cluster.give("n1")
    home.submit(spec("a"))
    lists: list[str] = []
    refuse(home)
    home.at(10, lambda: lists.append(bftrainer("list", "--state", home.path).out))
    home.at(15, lambda: setattr(home, "permit", HoldingPermit()))
    home.at(20, lambda: lists.append(read_allocation(home.path).refusal))
    home.pilot(30)
    assert lists[0].splitlines()[-1] == f"no node is held: {WHY}"
    assert lists[1] == read_allocation(home.path).refusal == ""


def test_held_nodes_are_released_with_the_reason_and_held_again_after_the_remedy(
    home: House,
) -> None:
    home.cluster.give("n1", "n2")
    home.submit(spec("a"))
    home.at(10, lambda: refuse(home))
    home.at(30, lambda: setattr(home, "permit", HoldingPermit()))
    held: dict[float, frozenset[str]] = {}
    home.after_tick = lambda: held.update(
        {round(home.clock.elapsed_s()): frozenset(home.cluster.held())}
    )
    began_s = home.clock.elapsed_s()
    home.pilot(50)
    at = {seconds - round(began_s): nodes for seconds, nodes in held.items()}
    assert (at[9], at[28], at[45]) == ({"n1", "n2"}, frozenset(), {"n1", "n2"})
    assert home.reasons().count(WHY) == 2
    assert home.noted("allowed") == ["nodes may be held again"]
    assert "refusal" not in home.explain("a").why


def test_while_it_is_unknown_nothing_more_is_requested_and_held_nodes_stay(home: House) -> None:
    home.cluster.give("n1")
    home.submit(spec("a"))
    home.at(10, lambda: refuse(home, "sacctmgr does not answer", releases=False))
    home.at(12, lambda: home.cluster.give("n2"))
    held: list[frozenset[str]] = []
    home.after_tick = lambda: held.append(frozenset(home.cluster.held()))
    home.pilot(30)
    assert set(held) == {frozenset(), frozenset({"n1"})}
    assert home.reasons() == ["the pilot ends"]
    assert home.noted("refused") == ["no node is held: sacctmgr does not answer"]


def test_notes_are_repeated_every_day() -> None:
    answer = [HoldingPermit(remarks=("exempt time: accepted",))]
    permission = HoldingPermission(lambda: answer[0])
    day = 86_400.0

    def notes(at_s: float) -> list[tuple[str, str]]:
        return list(permission.refresh(ElapsedS(at_s)))

    accepted = [("accepted", "exempt time: accepted")]
    assert notes(0.0) == accepted
    assert notes(1.0) == []
    assert notes(day) == accepted
    answer[0] = HoldingPermit("no", releases=True)
    assert notes(day + 1) == [("refused", "no node is held: no")]
    assert notes(day + 2) == []
    assert notes(2 * day) == [("refused", "no node is held: no")]
    answer[0] = HoldingPermit()
    assert notes(2 * day + 1) == [("allowed", "nodes may be held again")]
