"""While main jobs wait, a node that becomes idle is looked at again a second later: between two jobs it is not requested."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from live_house import House, house, spec

from bftrainer.domain.cluster import PendingJob


def waiting(path: Path) -> House:
    it = house(path / "s", times={"poll_s": 10.0, "stale_after_s": 60.0})
    it.cluster.busy = {"n1", "n2"}
    it.cluster.pending = [PendingJob("7", "u", ("main",), 3)]
    it.submit(spec("a"))
    return it


def looks_and_request(it: House) -> list[float]:
    """When the pilot looked after a node had become idle, and when it requested the node."""
    observe, acquire = it.cluster.observe, it.cluster.acquire
    times: list[float] = []

    def seen() -> object:
        times.append(it.clock.elapsed_s())
        return observe()

    def asked(claims: Any) -> object:
        times.append(it.clock.elapsed_s())
        return acquire(claims)

    it.at(
        40.0,
        lambda: (it.cluster.give("n1"), setattr(it.cluster, "observe", seen), setattr(it.cluster, "acquire", asked)),
    )
    it.pilot(65.0)
    return times


def test_the_look_that_confirms_comes_after_a_second(tmp_path: Path) -> None:
    first_s, second_s, asked_s = looks_and_request(waiting(tmp_path))[:3]
    assert 1.0 <= second_s - first_s < 1.5
    assert asked_s == second_s, "requested at once"


def test_where_no_main_job_waits_one_look_is_enough(tmp_path: Path) -> None:
    it = waiting(tmp_path)
    it.cluster.pending = []
    first_s, asked_s = looks_and_request(it)[:2]
    assert asked_s == first_s


def test_a_node_between_two_jobs_is_not_requested(tmp_path: Path) -> None:
    it = waiting(tmp_path)
    observe = it.cluster.observe

    def between() -> object:
        """Idle in one look, and taken by the next job right after it."""
        it.cluster.give("n1")
        seen = observe()
        it.cluster.take("n1")
        it.cluster.observe = observe  # type: ignore[method-assign]
        return seen

    it.at(25.0, lambda: setattr(it.cluster, "observe", between))
    it.pilot(60.0)
    assert it.cluster.claims == []


def test_the_holder_is_told_which_nodes_have_no_job(tmp_path: Path) -> None:
    it = waiting(tmp_path)
    it.cluster.refuses = {"n1"}
    it.at(25.0, lambda: it.cluster.give("n1"))
    it.pilot(20.0)
    assert it.cluster.without_a_job == frozenset()
    it.pilot(60.0)
    assert it.cluster.without_a_job == {"n1"}
