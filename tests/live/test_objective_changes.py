"""A pilot that comes back with another objective, as after an update that changes the default."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from live_house import configuration, house, spec

from bftrainer.live.rerun import decide_again
from bftrainer.persistence.journal import entries

CHEAP = {"nodes": (1, 2, 8), "samples_per_s": (7100.0, 14000.0, 52000.0)}
COSTLY = {"nodes": (1, 2, 8), "samples_per_s": (1000.0, 2000.0, 8000.0)}


def test_a_pilot_that_comes_back_decides_by_the_new_default_and_keeps_its_trainers_and_journal(tmp_path: Path) -> None:
    home = house(tmp_path / "state", decisions={"objective": "throughput", "max_parallel": 2})
    home.cluster.give("n1", "n2", "n3", "n4")
    home.submit(spec("cheap", 8, samples_per_s=None, curve=CHEAP), spec("costly", 8, samples_per_s=None, curve=COSTLY))
    state = home.pilot(30)
    assert [len(active.nodes) for active in state.active] == [4, 0]
    home.config = configuration({"decisions": {"max_parallel": 2}})
    state = home.pilot(60)
    with closing(home.store()) as store:
        assert [verdict.differs for verdict in decide_again(store) if verdict.differs] == []
        decided = list(entries(store))
    assert {entry.settings.objective for entry in decided} == {"throughput", "relative-speed"}
    assert decided[0].settings.objective == "throughput"
    assert all(decided[-1].plan.decision.counts), "the trainer that throughput left at 0 nodes runs now"
