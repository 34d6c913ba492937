"""How many trainers train is part of the decision: the default of a pilot."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from live_house import House, configuration, house, spec

from bftrainer.domain.state import State
from bftrainer.live.decision_maker import PLACES, settings_of
from bftrainer.live.explain import explain
from bftrainer.live.world import QUEUED_TOLD
from bftrainer.persistence.journal import last_state

MANY = 300


def with_many(path: Path) -> tuple[House, State]:
    """Thirty nodes and 300 trials of one size, submitted at once."""
    home = house(path)
    home.cluster.give(*(f"n{i:02d}" for i in range(30)))
    home.submit(*(spec(f"t{i:03d}", max_nodes=1, samples_total=1e6) for i in range(MANY)))
    home.pilot(40)
    with closing(home.store()) as store:
        state = last_state(store)
    assert state is not None
    return home, state


def test_every_node_trains_and_the_oldest_first(tmp_path: Path) -> None:
    home, state = with_many(tmp_path / "state")
    assert state.max_parallel is None
    assert [a.trainer.id for a in state.active if a.nodes] == [f"t{i:03d}" for i in range(30)]
    assert len(state.active) == 2 * 30 + QUEUED_TOLD, "the state that each decision writes stays small"
    assert not home.differences()


def test_one_that_waits_hears_how_many_are_before_it(tmp_path: Path) -> None:
    home, _ = with_many(tmp_path / "state")
    with closing(home.store()) as store:
        assert explain(store, "t100").why == "it waits: with these nodes, 100 trainers before it would finish sooner"


@pytest.mark.parametrize(
    ("decisions", "objective", "forward_s", "places"),
    [
        ({}, "fair", 240.0, None),
        ({"objective": "soon"}, "soon", 120.0, None),
        ({"objective": "fair", "forward_s": 60.0, "max_parallel": 5}, "fair", 60.0, 5),
        ({"max_parallel": 5}, "relative-speed", 120.0, 5),
        ({"objective": "throughput"}, "throughput", 120.0, PLACES),
        ({"policy": "equal-share"}, "relative-speed", 120.0, PLACES),
    ],
)  # fmt: skip
def test_the_defaults_depend_on_one_another(
    decisions: dict[str, object], objective: str, forward_s: float, places: int | None
) -> None:
    found = settings_of(configuration({"decisions": decisions}))
    assert (found.objective, found.forward_s, found.max_parallel) == (objective, forward_s, places)
