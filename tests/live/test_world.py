"""LiveWorld and its desks over a cluster in memory: what the pilot does when things happen."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from support.command_line import bftrainer
from support.fakes_live import START_S
from support.live_house import House, house, spec

from bftrainer.errors import StoreError
from bftrainer.fragment_names import id_of
from bftrainer.pilot.persistence.spool import RequestKind
from bftrainer.wires.reports import Ending


@pytest.fixture
def home(tmp_path: Path) -> House:
    return house(tmp_path / "state")


def test_a_trainer_gets_idle_nodes_and_everything_is_let_go_at_the_end(home: House) -> None:
    home.cluster.give("n1", "n2", "n3")
    home.submit(spec("a", max_nodes=2))
    state = home.pilot(20)
    assert [len(a.nodes) for a in state.active] == [2]
    assert len(home.cluster.acquired) == 2, "no more nodes than trainers can use"
    assert home.cluster.fragments == {} or all(
        f.why == "released" for f in home.cluster.fragments.values()
    )
    assert [what for what, _, _ in home.launcher.orders] == ["start", "stop"]
    assert home.spool.pending() == ()
    assert home.status("a") == "waiting", "what was not done goes on when a pilot comes back"
    assert not home.differences()


def test_a_preempted_node_leaves_at_once_and_the_trainer_goes_on(home: House) -> None:
    home.cluster.give("n1", "n2")
    home.submit(spec("a", max_nodes=2))
    home.at(10, lambda: home.cluster.take("n1"))
    home.pilot(15)
    taken = next(
        i
        for i, (what, _, nodes) in enumerate(home.launcher.orders)
        if what == "order" and len(nodes) == 1
    )
    assert all(node.startswith("n2") for node in home.launcher.orders[taken][2])
    record = next(f for f in home.fragments() if f.node == "n1")
    assert record.asked_back_s is not None
    assert abs(record.asked_back_s - START_S - 10) < 0.5, (
        "heard within the file poll, not the scheduler's"
    )


def test_the_same_node_back_a_second_later_is_another_fragment_and_backs_off(home: House) -> None:
    home.cluster.give("n1")
    home.submit(spec("a", max_nodes=1))
    home.at(4, lambda: home.cluster.take("n1"))
    home.at(5, lambda: home.cluster.give("n1"))
    home.pilot(20)
    assert home.cluster.acquired == ["n1#1", "n1#2"]
    first, second = home.fragments()
    assert second.asked_s - (first.released_s or 0) >= 5.0, (
        "a node that flaps is left alone for a while"
    )


def test_cancel_asks_for_a_checkpoint_and_is_final(home: House) -> None:
    home.cluster.give("n1")
    home.submit(spec("a", max_nodes=1))
    home.at(5, lambda: home.ask(RequestKind.CANCEL, "a"))
    home.at(9, lambda: home.ask(RequestKind.RESUME, "a"))
    state = home.pilot(15)
    assert state.active == ()
    assert home.status("a") == "canceled"
    assert ("stop", "a", frozenset()) in home.launcher.orders
    assert any("no such trainer" in n for n in home.notes())


def test_a_trainer_that_does_not_stop_is_killed(home: House) -> None:
    home.cluster.give("n1")
    home.launcher.behaviour["a"] = "deaf"
    home.submit(spec("a", max_nodes=1))
    home.at(5, lambda: home.ask(RequestKind.CANCEL, "a"))
    home.pilot(30)
    assert ("kill", "a", frozenset()) in home.launcher.orders


def test_a_script_that_fails_at_once_backs_off_then_fails_with_its_last_lines(home: House) -> None:
    home.cluster.give("n1")
    home.launcher.behaviour["a"] = "fails"
    home.submit(spec("a", max_nodes=1))
    home.pilot(120)
    starts = [w for w, _, _ in home.launcher.orders if w == "start"]
    assert len(starts) == 4
    assert home.status("a") == "failed"
    assert "boom" in home.trainer("a").reason
    assert len(home.cluster.acquired) <= 4, "a broken script does not keep taking nodes"


def test_what_counts_as_progress_survives_the_death_of_a_pilot(home: House) -> None:
    """Every incarnation begins from zero, outlives a pilot on its way, and fails before it is where the
    first one was.
    """
    home.cluster.give("n1")
    home.submit(spec("a", max_nodes=1))

    def fails_at(samples: float) -> None:
        home.launcher.progress("a", samples)
        home.launcher._end("a", Ending.FAILED, "status 1", ("boom",))

    def dies() -> None:
        if home.clock.elapsed_s() >= at_s + 40:
            raise StoreError("killed")

    home.at(5, lambda: fails_at(100.0))
    home.pilot(8)
    for half in (20.0, 30.0, 40.0):
        at_s = home.clock.elapsed_s()
        home.after_tick = dies
        home.at(35, lambda half=half: home.launcher.progress("a", half))  # type: ignore[misc]
        with pytest.raises(StoreError):
            home.pilot(100)
        home.after_tick = lambda: None
        home.at(5, lambda half=half: fails_at(half + 10.0))  # type: ignore[misc]
        home.pilot(8)
    trainer = home.trainer("a")
    assert (trainer.status.value, trainer.failures, trainer.samples_at_failure) == (
        "failed",
        4,
        100.0,
    )


def test_a_failed_poll_keeps_the_pool_until_it_is_stale_then_everything_is_released(
    home: House,
) -> None:
    home.cluster.give("n1")
    home.submit(spec("a", max_nodes=1))
    pools: list[tuple[float, int]] = []
    home.after_tick = lambda: pools.append((home.clock.elapsed_s(), len(home.nodes.pool)))
    home.at(10, lambda: setattr(home.cluster, "down", True))
    home.at(50, lambda: setattr(home.cluster, "down", False))
    home.pilot(70)
    assert all(n == 1 for t, n in pools if 10 < t < 25), "unknown is not idle and not busy"
    assert all(n == 0 for t, n in pools if 35 < t < 50), "too old to trust"
    assert any(n == 1 for t, n in pools if t > 55), "and back again"
    assert sum("poll failed" in n for n in home.notes()) == 1, "an outage is one note"


def test_refused_nodes_are_left_alone_and_noted(home: House) -> None:
    home.cluster.give("n1")
    home.cluster.refuses.add("n1")
    home.submit(spec("a"))
    home.pilot(25)
    assert 1 <= sum("refused n1" in n for n in home.notes()) <= 2


def test_nodes_that_were_too_few_are_taken_again_once_there_are_more(home: House) -> None:
    """One node was of no use to a trainer of two: that says nothing of the day when others are
    idle, too.
    """
    home.cluster.give("n1")
    home.submit(spec("a", max_nodes=4, min_nodes=2))
    home.at(20, lambda: home.cluster.give("n2", "n3"))
    state = home.pilot(40)
    assert home.cluster.released, "unused at first"
    assert {a.trainer.id: len(a.nodes) for a in state.active} == {"a": 3}


def test_a_pilot_that_comes_back_takes_over_what_is_there(home: House) -> None:
    """Crash: the run is cut off by an error at a journal write; fragments and drivers stay."""
    home.cluster.give("n1", "n2", "n3")
    home.submit(spec("a", max_nodes=2))
    armed = False

    def die(step: str) -> None:
        if armed and step.startswith("decision"):
            raise StoreError("disk full")

    home.at_step = die

    def more() -> None:
        nonlocal armed
        armed = True
        home.submit(spec("b", max_nodes=1))

    home.at(8, more)
    with pytest.raises(StoreError):
        home.pilot(60)
    assert home.launcher.drivers["a"].view.alive, "training goes on without a pilot"
    armed = False
    before = list(home.launcher.orders)
    state = home.pilot(10)
    assert {a.trainer.id: len(a.nodes) for a in state.active} == {"a": 2, "b": 1}
    later = home.launcher.orders[len(before) :]
    assert [w for w, n, _ in later if n == "a" and w == "start"] == [], "adopted, not started again"
    assert not home.differences()


def test_samples_reach_the_decision(home: House) -> None:
    home.cluster.give("n1")
    home.submit(spec("a", max_nodes=1, samples_total=1000))
    home.at(5, lambda: home.launcher.progress("a", 400.0))
    home.at(6, lambda: home.submit(spec("b", max_nodes=1)))
    state = home.pilot(8)
    assert next(a.samples_done for a in state.active if a.trainer.id == "a") == 400.0
    last = home.entries()[-1]
    assert ("a", 400.0) in last.event.samples_done
    assert home.trainer("a").held_node_s > 0


@pytest.mark.parametrize(("poll_s", "answers_s", "listed_s"), [(1, 8, 8), (3, 14, 21.5)])
def test_a_pilot_that_comes_back_while_the_scheduler_is_silent_waits_with_what_it_had(
    tmp_path: Path, poll_s: float, answers_s: float, listed_s: float
) -> None:
    """The list of the holders may come after the first answer, and later than ``stale_after_s``,
    which is 20 s here.
    """
    home = house(tmp_path, times={"poll_s": poll_s})
    home.cluster.give("n1", "n2")
    home.submit(spec("a", max_nodes=2))
    home.killed(at="usage")
    hidden, home.cluster.fragments = home.cluster.fragments, {}
    home.cluster.down = True
    before = list(home.launcher.orders)

    home.clock.after(answers_s, lambda: setattr(home.cluster, "down", False))
    home.clock.after(listed_s, lambda: setattr(home.cluster, "fragments", hidden))
    state = home.pilot(35)
    assert [len(a.nodes) for a in state.active] == [2]
    later = home.launcher.orders[len(before) :]
    assert [(w, len(nodes)) for w, _, nodes in later] == [("order", 2), ("stop", 0)], (
        "training was not disturbed"
    )
    assert len(home.fragments()) == 2


def test_a_pilot_that_is_told_to_end_before_it_knows_its_predecessors_nodes_releases_them(
    home: House,
) -> None:
    home.cluster.give("n1", "n2")
    home.submit(spec("a", max_nodes=2))
    home.killed()
    hidden, home.cluster.fragments = home.cluster.fragments, {}
    home.clock.after(1.5, lambda: setattr(home.cluster, "fragments", hidden))
    home.pilot(0.5)
    assert len(home.cluster.released) == 2
    assert all(f.released_s is not None for f in home.fragments())


def test_orphans_on_fragments_that_no_driver_has_are_ended(home: House) -> None:
    home.cluster.give("n1", "n2")
    home.submit(spec("a", max_nodes=2))
    home.killed()
    home.launcher.kill("a")
    before = len(home.launcher.orders)
    home.pilot(4)
    assert len(home.cluster.cleared) == 2
    assert home.launcher.orders[before][:2] == ("start", "a"), (
        "at once: its driver died with the pilot's job"
    )
    assert len(home.cluster.acquired) == 2, "its nodes were kept"
    assert home.trainer("a").failures == 0
    assert not home.differences()


def test_orphans_that_cannot_be_ended_cost_their_fragments(home: House) -> None:
    """Nobody is to train beside them: the holders are released, and their payloads end what is
    there.
    """
    home.cluster.give("n1", "n2")
    home.submit(spec("a", max_nodes=2))
    home.killed()
    home.launcher.kill("a")
    home.cluster.cannot_clear = True
    before = list(home.cluster.acquired)
    home.pilot(10)
    assert home.cluster.released[:2] == before
    started_on = next(nodes for what, _, nodes in reversed(home.launcher.orders) if what == "start")
    assert not started_on & set(before)
    assert not home.differences()


def test_a_launcher_that_is_no_longer_installed_fails_its_trainer_only(home: House) -> None:
    home.cluster.give("n1", "n2")
    home.submit(spec("a", max_nodes=1), spec("b", max_nodes=1))
    home.launcher.behaviour["a"] = "has no launcher"
    home.pilot(60)
    assert home.status("a") == "failed"
    assert home.status("b") == "waiting"
    assert [what for what, name, _ in home.launcher.orders if name == "b"] == ["start", "stop"]


def test_a_trainer_that_never_reports_gets_a_remark_until_it_does(home: House) -> None:
    home.cluster.give("n1")
    home.submit(spec("a", max_nodes=1))
    seen: list[str] = []

    def remark() -> None:
        record = home.trainers.record("a")
        seen.append(record.reason if record is not None else "")

    for at_s in (55, 75, 100):
        home.at(at_s, remark)
    home.at(90, lambda: home.launcher.progress("a", 5.0))
    home.pilot(105)
    assert seen[0] == ""
    assert "without reporting progress" in seen[1]
    assert seen[2] == ""


def test_list_shows_the_last_output_of_a_trainer_that_never_reports(home: House) -> None:
    home.cluster.give("n1")
    home.submit(spec("a", max_nodes=1))
    log = home.path / "trainers" / "a" / "logs" / "1" / "n1.1.0.log"
    seen: list[str] = []

    def look() -> None:
        seen.append(bftrainer("list", "--json", "--state", home.path).out)
        log.parent.mkdir(parents=True)
        log.write_text("waiting for 2 workers at node1:29500\n")
        seen.append(bftrainer("list", "--json", "--state", home.path).out)

    home.at(75, look)
    home.pilot(80)
    assert "without reporting progress" in seen[0]
    assert "it has written no output" in seen[0]
    assert "its last output: waiting for 2 workers at node1:29500" in seen[1]


@pytest.mark.parametrize("steps", [0, 1])
def test_a_trainer_that_is_done_without_a_step_after_a_resume_gets_a_remark(
    home: House, steps: int
) -> None:
    home.cluster.give("n1")
    home.submit(spec("a", max_nodes=1))
    home.at(5, lambda: home.launcher.progress("a", 1000.0, step=10))
    home.at(8, lambda: home.ask(RequestKind.PAUSE, "a"))
    home.at(14, lambda: home.ask(RequestKind.RESUME, "a"))
    if steps:
        home.at(20, lambda: home.launcher.progress("a", 1100.0, step=11))
    home.at(22, lambda: home.launcher.finish("a"))
    home.pilot(30)
    assert home.status("a") == "done"
    text = (
        "ended with status 0 after a resume, without one step, at 1,000 samples (docs/recipes.md)"
    )
    assert home.trainer("a").reason == ("" if steps else text)


def test_ranks_that_disagree_are_a_remark_and_a_note_that_outlives_the_run(home: House) -> None:
    home.cluster.give("n1")
    home.submit(spec("a", max_nodes=1))
    seen: list[str] = []

    def says(text: str) -> None:
        driver = home.launcher.drivers["a"]
        driver.view = replace(driver.view, ranks_disagree=text)

    home.at(40, lambda: says("weights differ at step 3: rank 0 has 5, rank 1 has 7"))
    home.at(50, lambda: seen.append(record.reason if (record := home.trainers.record("a")) else ""))
    home.at(55, lambda: says(""))
    home.at(60, lambda: seen.append(record.reason if (record := home.trainers.record("a")) else ""))
    home.pilot(65)
    text = (
        "training is wrong, weights differ at step 3: rank 0 has 5, rank 1 has 7 (docs/training.md)"
    )
    assert seen == [text, ""]
    assert home.noted("report") == [text]


def test_the_remark_on_a_failure_is_the_error_and_the_note_has_the_rest(home: House) -> None:
    tail = (
        "Traceback (most recent call last):",
        '  File "train.py", line 3',
        "ValueError: no data",
        "srun: error: n1: exit 1",
    )
    home.cluster.give("n1")
    home.submit(spec("a", max_nodes=1))
    home.at(10, lambda: home.launcher._end("a", Ending.FAILED, "status 1", tail))
    home.pilot(12)
    assert (
        home.trainer("a").reason == "failed 1 time, will be retried: status 1: ValueError: no data"
    )
    assert home.noted("failure") == [f"status 1: {' | '.join(tail)}"]


def test_a_script_that_is_killed_on_nodes_that_live_ends_at_the_fourth_time(home: House) -> None:
    """As the kernel kills it for its memory; each start used to count as a preemption."""
    home.cluster.give("n1", "n2", "n3", "n4", "n5", "n6")
    home.launcher.behaviour["a"] = "is killed"
    home.submit(spec("a", max_nodes=1))
    home.pilot(150)
    assert home.status("a") == "failed"
    assert home.trainer("a").failures == 4
    assert home.trainer("a").reason.startswith("killed by SIGKILL 4 times on ")
    assert home.trainer("a").reason.endswith("out of memory?")
    assert [what for what, _, _ in home.launcher.orders].count("start") == 4


def test_kills_of_one_group_are_one_failure_and_progress_forgives_them(home: House) -> None:
    home.cluster.give("n1", "n2")
    home.submit(spec("a", max_nodes=2))
    for at_s in (10, 30, 50, 70, 90):
        home.at(at_s, lambda at_s=at_s: home.launcher.progress("a", 10.0 * at_s))
        home.at(at_s + 1, lambda: home.launcher.lose_workers("a"))
    home.pilot(100)
    assert home.noted("failure") == ["killed by SIGKILL 1 time on 1 node; out of memory?"] * 5
    assert home.trainer("a").failures == 1


def test_the_end_of_a_worker_on_a_node_that_is_preempted_is_no_failure(home: House) -> None:
    """Also where the pilot hears of the worker first."""
    home.cluster.give("n1", "n2", "n3")
    home.submit(spec("a", max_nodes=1))

    def preempt() -> None:
        (node,) = (host.node for host in home.launcher.drivers["a"].hosts)
        home.launcher.lose_workers("a")
        home.at(2, lambda: home.cluster.take(node))

    home.at(10, preempt)
    home.pilot(20)
    assert home.trainer("a").failures == 0
    assert home.noted("failure") == []


def test_nobody_has_a_node_of_another_trainer_released(home: House) -> None:
    """A script can write a line like its driver's: that fragments, which it does not have, are not
    usable.
    """
    home.cluster.give("n1", "n2")
    home.submit(spec("a", max_nodes=1), spec("b", max_nodes=1))

    def forge() -> None:
        view = home.launcher.drivers["a"].view
        home.launcher.drivers["a"].view = replace(
            view, withheld=frozenset(map(id_of, home.nodes.pool))
        )

    home.at(10, forge)
    home.at(11, lambda: home.launcher.progress("b", 5.0))
    home.pilot(14)
    released = [f.reason for f in home.fragments() if "was killed" in f.reason]
    assert len(released) == 1, "its own"


def test_a_submission_that_is_not_accepted_any_more_fails_alone(home: House) -> None:
    home.cluster.give("n1", "n2", "n3")
    home.submit(spec("a", max_nodes=1), spec("old", max_nodes=1), spec("b", max_nodes=1))
    home.pilot(10)
    with closing(home.store(writes=True)) as store, store.writing("note") as db:
        db.execute("UPDATE trainers SET spec = json_set(spec, '$.max_nodes', 0) WHERE name = 'old'")
    state = home.pilot(20)
    assert {a.trainer.id: (len(a.nodes), a.samples_done) for a in state.active} == {
        "a": (1, 0.0),
        "b": (1, 0.0),
    }
    assert home.status("old") == "failed"
    assert "does not accept its submission: max_nodes" in home.trainer("old").reason


def test_a_spool_file_whose_name_is_no_unicode_is_noted(home: House) -> None:
    home.cluster.give("n1")
    home.submit(spec("a", max_nodes=1))
    home.pilot(5)
    (home.spool.path / os.fsdecode(b"\xff.json")).touch()
    home.pilot(5)
    assert any("\\udcff.json request rejected" in note for note in home.notes())
